#!/usr/bin/env python3
"""Removes each barrier of the CUDA kernels in turn, and sees whether a test notices.

For every __syncthreads(), __syncwarp() and event wait under kernels/cuda and core/cuda the line
is taken out, what includes the file is compiled again in the build with ThreadSanitizer, and the
tests of its family are run. A mutant that no test kills is a survivor.

  tools/mutate_barriers.py                     all mutants
  tools/mutate_barriers.py --sample 5 --seed 1 five of them, chosen by the seed
  tools/mutate_barriers.py --only sort.cu      those whose file and line contain the words
  tools/mutate_barriers.py --list              names them
Needs: cmake --preset tsan && cmake --build --preset tsan
"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "tsan"
BARRIER = re.compile(r"__syncthreads\(\);|__syncwarp\([^;]*\);|"
                     r"WICK_CUDA_CALL\(cudaStreamWaitEvent[^;]*;")
# Which op cases a file's kernels are run by (a regular expression of GoogleTest's filter form).
FAMILIES = json.loads((ROOT / "tools" / "mutate_barriers.json").read_text())


def mutants():
    found = []
    for folder in ("kernels/cuda", "kernels/cuda/common", "core/cuda"):
        for path in sorted((ROOT / folder).glob("*")):
            if path.suffix not in (".cu", ".h", ".cpp"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = line.split("//")[0]
                for match in BARRIER.finditer(code):
                    found.append((path.relative_to(ROOT), number, match.span()))
    return found


def filter_for(path):
    return FAMILIES.get(path.name, FAMILIES["*"])


def run_tests(path, environment):
    program, cases = filter_for(path)
    command = [str(BUILD / "bin" / program), f"--gtest_filter={cases}", "--gtest_brief=1",
               "--gtest_fail_fast"]
    try:
        result = subprocess.run(command, env={**os.environ, **environment}, cwd=BUILD,
                                capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        return True, "timeout"
    output = (result.stdout + result.stderr).decode(errors="replace")
    if not re.search(r"\[  PASSED  \] [1-9]", output) and result.returncode == 0:
        sys.exit(f"mutate_barriers: no test ran: {' '.join(command)}\n{output}")
    return result.returncode != 0, output


def tests_notice(path):
    options = "ignore_noninstrumented_modules=1:halt_on_error=1:symbolize=0"
    for seed in (1, 2, 3):
        for order in ("forward", "reverse"):
            failed, output = run_tests(path, {"TSAN_OPTIONS": options, "WICK_SIM_SEED": str(seed),
                                              "WICK_SIM_ORDER": order})
            if failed:
                return True, output
    return False, ""


def build(path):
    program, _ = filter_for(path)
    return subprocess.run(["cmake", "--build", str(BUILD), "--target", program],
                          capture_output=True, check=False)


def judge(mutant):
    path, number, (start, end) = mutant
    file = ROOT / path
    original = file.read_text()
    lines = original.splitlines(keepends=True)
    line = lines[number - 1]
    lines[number - 1] = line[:start] + ";" + line[end:]
    try:
        file.write_text("".join(lines))
        built = build(path)
        if built.returncode != 0:
            return "does not compile"
        return "killed" if tests_notice(path)[0] else "SURVIVED"
    finally:
        file.write_text(original)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=0, help="this many, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of FILE:LINE")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    todo = [m for m in mutants() if arguments.only in f"{m[0]}:{m[1]}"]
    if arguments.list:
        for path, number, _ in todo:
            print(f"{path}:{number}  {filter_for(path)}")
        return 0
    total = len(todo)
    if arguments.sample:
        todo = random.Random(arguments.seed).sample(todo, min(arguments.sample, len(todo)))
    clean = {}
    survivors = []
    start = time.time()
    for mutant in todo:
        key = tuple(filter_for(mutant[0]))
        if key not in clean:
            built = build(mutant[0])
            if built.returncode != 0:
                sys.exit(f"mutate_barriers: the sources do not build:\n{built.stdout.decode()}")
            noticed, output = tests_notice(mutant[0])
            if noticed:
                sys.exit(f"mutate_barriers: the tests fail without a mutation: {key}\n{output}")
            clean[key] = True
        verdict = judge(mutant)
        print(f"{mutant[0]}:{mutant[1]}  {verdict}", flush=True)
        if verdict != "killed":
            survivors.append(mutant)
    for path in {m[0] for m in todo}:
        build(path)  # the sources are as they were: so shall the programs be
    killed = len(todo) - len(survivors)
    print(f"{killed} of {len(todo)} mutants killed ({total} in all), {time.time() - start:.0f} s")
    return 0 if killed >= 0.95 * len(todo) else 1


if __name__ == "__main__":
    sys.exit(main())
