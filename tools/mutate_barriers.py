#!/usr/bin/env python3
"""Removes each barrier of the CUDA kernels in turn, and sees whether a test notices.

A __syncthreads() or __syncwarp() under kernels/cuda is left out by the simulated GPU, in a build
with ThreadSanitizer that stays as it is (WICK_SIM_WITHOUT_BARRIER). A wait for an event is taken
out of its source, which is compiled again. Either way the tests of its family are run. A mutant
that no test kills is a survivor.

  tools/mutate_barriers.py                     all mutants
  tools/mutate_barriers.py --sample 5 --seed 1 five of the barriers, chosen by the seed
  tools/mutate_barriers.py --only sort.cu      those whose file and line contain the words
  tools/mutate_barriers.py --list              names them
Needs: cmake --preset tsan. The tests' programs are built when they are missing or old.
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
BARRIER = re.compile(r"__syncthreads\(\);|__syncwarp\([^;]*\);")
EVENT_WAIT = re.compile(
    r"WICK_CUDA_CALL\(cudaStreamWaitEvent[^;]*;|\w[\w.>-]*(->|\.)block\([^;]*\);")
PLACES = ((BARRIER, "kernels/cuda"), (BARRIER, "kernels/cuda/common"), (EVENT_WAIT, "core/cuda"),
          (EVENT_WAIT, "core"), (EVENT_WAIT, "core/ops"), (EVENT_WAIT, "data"), (EVENT_WAIT, "nn"),
          (EVENT_WAIT, "dist"))
# By whose tests a file's mutants are found: programs of the build and their cases, as
# GoogleTest's filters say it.
FAMILIES = json.loads((ROOT / "tools" / "mutate_barriers.json").read_text())


class Mutant:
    def __init__(self, pattern, path, number, start):
        self.path, self.number, self.start = path, number, start
        self.in_source = pattern is EVENT_WAIT
        self.name = f"{path}:{number}"
        self.program, self.cases = FAMILIES.get(path.name, FAMILIES["*"])


def mutants():
    found = []
    for pattern, folder in PLACES:
        for path in sorted((ROOT / folder).glob("*")):
            if path.suffix not in (".cu", ".h", ".cpp"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for match in pattern.finditer(line.split("//")[0]):
                    found.append(Mutant(pattern, path.relative_to(ROOT), number, match.start()))
    return found


def run_tests(mutant, environment):
    """Whether they failed, and what they printed."""
    command = [str(BUILD / "bin" / mutant.program), f"--gtest_filter={mutant.cases}",
               "--gtest_brief=1", "--gtest_fail_fast"]
    try:
        result = subprocess.run(command, env={**os.environ, **environment}, cwd=BUILD,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    except subprocess.TimeoutExpired:
        return True, "timeout"
    output = result.stdout.decode(errors="replace")
    if result.returncode == 0 and not re.search(r"\[  PASSED  \] [1-9]", output):
        sys.exit(f"mutate_barriers: no test ran: {' '.join(command)}\n{output}")
    return result.returncode != 0, output


RUNS = [(seed, order) for seed in (1, 2, 3) for order in ("forward", "reverse")]


def tests_notice(mutant, left_out, runs=RUNS):
    """Whether they do without the barrier (or with it), and what they printed."""
    options = "ignore_noninstrumented_modules=1:halt_on_error=1:symbolize=0"
    output = ""
    for seed, order in runs:
        environment = {"KMP_BLOCKTIME": "0", "TSAN_OPTIONS": options, "WICK_SIM_SEED": str(seed),
                       "WICK_SIM_ORDER": order}
        if left_out:
            environment["WICK_SIM_WITHOUT_BARRIER"] = mutant.name
        failed, output = run_tests(mutant, environment)
        if failed:
            return True, output
        if left_out and "simulated GPU: no barrier" not in output:
            return False, "not run"
    return False, output


def build(program):
    return subprocess.run(["cmake", "--build", str(BUILD), "--target", program],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def judge_in_source(mutant):
    file = ROOT / mutant.path
    original = file.read_text()
    lines = original.splitlines(keepends=True)
    line = lines[mutant.number - 1]
    lines[mutant.number - 1] = line[:mutant.start] + "if (false) " + line[mutant.start:]
    try:
        file.write_text("".join(lines))
        if build(mutant.program).returncode != 0:
            return "does not compile"
        return "killed" if tests_notice(mutant, left_out=False)[0] else "SURVIVED"
    finally:
        file.write_text(original)
        build(mutant.program)


def judge(mutant):
    if mutant.in_source:
        return judge_in_source(mutant)
    noticed, output = tests_notice(mutant, left_out=True)
    if noticed:
        return "killed"
    return "SURVIVED: no test comes there" if output == "not run" else "SURVIVED"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=0, help="this many, chosen by --seed")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", help="part of FILE:LINE")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    todo = [m for m in mutants() if arguments.only in m.name]
    total = len(todo)
    if arguments.list:
        for mutant in todo:
            print(mutant.name, mutant.program, mutant.cases)
        return 0
    if arguments.sample:
        todo = [m for m in todo if not m.in_source]
        todo = random.Random(arguments.seed).sample(todo, min(arguments.sample, len(todo)))
    clean = set()
    killed = 0
    start = time.time()
    for mutant in todo:
        if (mutant.program, mutant.cases) not in clean:
            built = build(mutant.program)
            if built.returncode != 0:
                sys.exit(f"mutate_barriers: {mutant.program} cannot be built\n"
                         f"{built.stdout.decode(errors='replace')}")
            failed, output = tests_notice(mutant, left_out=False, runs=RUNS[:1])
            if failed:
                sys.exit(f"mutate_barriers: the tests fail without a mutation\n{output}")
            clean.add((mutant.program, mutant.cases))
        began = time.time()
        verdict = judge(mutant)
        killed += verdict == "killed"
        print(f"{mutant.name}  {verdict}  {time.time() - began:.0f} s", flush=True)
    print(f"{killed} of {len(todo)} mutants killed ({total} in all), {time.time() - start:.0f} s")
    return 0 if todo and killed >= 0.95 * len(todo) else 1


if __name__ == "__main__":
    sys.exit(main())
