#!/usr/bin/env python3
"""Runs fuzz programs from their kept corpora, two side by side: run.py SECONDS PROGRAM...

What a program finds is kept in build/.../fuzz/NAME for the next time. With --keep, inputs that
reach code which no input of the kept corpus reaches are added to that, tests/fuzz/NAME. Code 1 if
any input fails: its file is named.
"""
import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MOST_BYTES = 2048  # of an input that is added to a kept corpus
LIMITS = ["-timeout=5", "-rss_limit_mb=1024"]


def folders(program):
    found = program.parent.parent / "fuzz" / program.name
    found.mkdir(parents=True, exist_ok=True)
    kept = HERE / program.name
    return found, [kept] if kept.is_dir() else []


def fuzz(program, seconds):
    """Whether all went well, and what to say."""
    found, kept = folders(program)
    done = subprocess.run(
        [program, f"-max_total_time={seconds}", "-print_final_stats=1", *LIMITS,
         f"-artifact_prefix={found.parent}/{program.name}-", found, *kept],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        return False, f"{program.name}: failed\n{done.stdout[-8000:]}"
    runs = re.search(r"Done (\d+) runs in (\d+) second", done.stdout)
    reached = re.findall(r" cov: (\d+) ft: (\d+) corp: (\d+)", done.stdout)
    return True, (f"{program.name}: {runs[1]} inputs in {runs[2]} s, edges, features and inputs "
                  f"that reach them: {', '.join(reached[-1])}")


def keep(program):
    """Adds what reaches new edges, and is small, to the kept corpus."""
    found, kept = folders(program)
    target = HERE / program.name
    target.mkdir(exist_ok=True)
    before = set(target.iterdir())
    subprocess.run([program, "-set_cover_merge=1", "-use_counters=0", f"-max_len={MOST_BYTES}",
                    *LIMITS, target, found], check=True, capture_output=True)
    return f"{program.name}: kept {len(set(target.iterdir()) - before)} more"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=int)
    parser.add_argument("programs", nargs="+", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    good = True
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for fine, words in pool.map(lambda p: fuzz(p, arguments.seconds), arguments.programs):
            print(words, flush=True)
            good = good and fine
    if good and arguments.keep:
        for program in arguments.programs:
            print(keep(program), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
