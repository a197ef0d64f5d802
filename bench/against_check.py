#!/usr/bin/env python3
"""Shows that `wick bench --against` finds a row that got 10 % slower and raises no false alarm:
runs it against the same program, with a row of this one slowed by WICK_BENCH_SLOWER and without.

  bench/against_check.py WICK_BENCH [--row NAME] [--slow 10] [--same 20] [--factor 1.1]

Wanted: found in 9 of 10 runs, at most 1 alarm in 20.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time


def verdict(arguments, other, slower):
    environment = dict(os.environ)
    if slower:
        environment["WICK_BENCH_SLOWER"] = f"^{re.escape(arguments.row)}$ {arguments.factor}"
    words = [arguments.program, "--device", "cpu", "--against", other,
             "--filter", f"^{re.escape(arguments.row)}$"]
    start = time.monotonic()
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stdout + done.stderr)
    line = next(line for line in done.stdout.splitlines() if line.startswith(arguments.row))
    seconds = time.monotonic() - start
    print(f"{'slowed' if slower else 'same':6}  {line}  {seconds:.1f} s", flush=True)
    return line.split()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--row", default="softmax/rows/forward/float32")
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--same", type=int, default=20)
    parser.add_argument("--factor", type=float, default=1.1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = os.path.join(folder, "other")
        with open(other, "w") as script:
            script.write('#!/bin/sh\nunset WICK_BENCH_SLOWER\n'
                         f'exec "{os.path.abspath(arguments.program)}" "$@"\n')
        os.chmod(other, 0o755)
        found = [verdict(arguments, other, True) for _ in range(arguments.slow)]
        alarms = [verdict(arguments, other, False) for _ in range(arguments.same)]
    hits = found.count("SLOWER")
    wrong = len(alarms) - alarms.count("same") - alarms.count("unclear")
    print(f"{arguments.row}: {arguments.factor} times as long found in {hits} of {len(found)} runs;"
          f" {wrong} false alarms in {len(alarms)}")
    return 0 if 10 * hits >= 9 * len(found) and 20 * wrong <= len(alarms) else 1


if __name__ == "__main__":
    sys.exit(main())
