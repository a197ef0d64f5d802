#!/usr/bin/env python3
"""Holds Wick against PyTorch and onnxruntime with the models of large_models.py, one after the
other, and prints a table:

  tests/onnx/campaign.py build/release/bin/onnx_test [NAME...]

It needs what make_cases.py and check_export.py need. A model's files take up to 2 GB, in a folder
that is removed after it. Code 1 if a model differs.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import onnxruntime
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from large_models import LARGE  # noqa: E402

COLUMNS = ("output", "gradients", "losses", "trained output")
TESTS = "*/Import.Outputs*:Export.ImportedModels*"


def figures(program, name, folder):
    """The differences of a model in the table's order, and whether they are within bounds."""
    subprocess.run([sys.executable, HERE / "make_cases.py", "--large", "--only", name, folder],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    report = pathlib.Path(folder) / "report.json"
    done = subprocess.run(
        [program, f"--gtest_filter={TESTS}", f"--gtest_output=json:{report}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "WICK_ONNX_CASES": str(folder), "WICK_ONNX_PYTHON": sys.executable})
    tests = [test for suite in json.loads(report.read_text())["testsuites"]
             for test in suite["testsuite"]]
    known = {key: value for test in tests for key, value in test.items()}
    row = [f"{float(known[key]):.0e}" if key in known else "none" for key in COLUMNS]
    exported = re.search(r"\d+ models, 0 failed, largest difference (\S+)", done.stdout)
    row.append(f"{float(exported[1]):.0e}" if exported else "none")
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
    return row, done.returncode == 0 and "none" not in row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="the built onnx_test")
    parser.add_argument("names", nargs="*", help="models; all where none is named")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(LARGE)
    if unknown:
        parser.error(f"unknown models: got {', '.join(sorted(unknown))}")
    print(f"PyTorch {torch.__version__}, onnxruntime {onnxruntime.__version__}\n")
    print("| model | output | gradients | losses | trained output | onnxruntime |")
    print("|---|---|---|---|---|---|")
    failed = 0
    for name in arguments.names or LARGE:
        with tempfile.TemporaryDirectory() as folder:
            row, is_good = figures(arguments.program.resolve(), name, folder)
        print(f"| {name} | {' | '.join(row)} |{'' if is_good else ' differs'}", flush=True)
        failed += not is_good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
