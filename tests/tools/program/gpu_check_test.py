#!/usr/bin/env python3
"""tools/gpu_check.sh with programs that only pretend: which it runs, how it reads their ends."""
import json
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = ("wick", "wick-bench", "wick_peer", "core_test", "data_test", "dist_test", "golden_test",
            "nn_test", "core_ops_test", "core_profile_test", "optim_test")


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree = pathlib.Path(self.folder.name, "tree")
        self.path = pathlib.Path(self.folder.name, "path")
        (self.tree / "tools").mkdir(parents=True)
        self.path.mkdir()
        for name in ("gpu_check.sh", "check_one_binary.sh"):
            shutil.copy(ROOT / "tools" / name, self.tree / "tools")
        for name in PROGRAMS:
            self.write(self.tree / "bundle/bin" / name, f"echo {name} runs")
        (self.tree / "bundle/preset").write_text("cuda\n")
        (self.tree / "bundle/root").write_text(f"{self.tree}\n")
        self.write(self.path / "cmake", f'echo "$@" >>{self.tree}/cmake.txt')
        self.write(self.path / "compute-sanitizer", "shift 4; \"$@\"")

    def write(self, path, body):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def verdicts(self, *words):
        """By step, and the script's exit code."""
        result = subprocess.run(
            ["bash", self.tree / "tools/gpu_check.sh", "--out", self.tree / "out", *words],
            env={"PATH": f"{self.path}:/usr/bin:/bin"}, capture_output=True, text=True, timeout=60)
        lines = (self.tree / "out/steps.jsonl").read_text().splitlines()
        steps = [json.loads(line) for line in lines]
        return {step["step"]: step["verdict"] for step in steps}, result.returncode

    def cmake_calls(self):
        file = self.tree / "cmake.txt"
        return file.read_text().splitlines() if file.exists() else []

    def test_carried_programs_are_run(self):
        self.assertEqual(self.verdicts("--only", "doctor,core_ops"),
                         ({"carried": "passed", "doctor": "passed", "core_ops": "passed"}, 0))
        self.assertEqual(self.cmake_calls(), [])
        with tarfile.open(self.tree / "out/logs.tar.gz") as logs:
            self.assertEqual(logs.extractfile("./core_ops.log").read(), b"core_ops_test runs\n")

    def test_carried_programs_find_the_sources_where_they_were(self):
        was = pathlib.Path(self.folder.name, "was/here")
        (self.tree / "bundle/root").write_text(f"{was}\n")
        self.write(self.tree / "bundle/bin/golden_test", f"test -e {was}/tools/gpu_check.sh")
        self.assertEqual(self.verdicts("--only", "golden")[0]["golden"], "passed")

    def test_programs_that_do_not_start_here_are_built(self):
        self.write(self.tree / "bundle/bin/wick", "echo no such library >&2; exit 127")
        for name in PROGRAMS:
            self.write(self.tree / "build/cuda/bin" / name, "true")
        for _ in range(2):  # no call relies on the one before
            self.assertEqual(self.verdicts("--only", "doctor"),
                             ({"configure": "passed", "build": "passed", "doctor": "passed"}, 0))
        configure, build = self.cmake_calls()[:2]
        self.assertEqual(len(self.cmake_calls()), 4)
        self.assertIn("--build", build)
        has_smi = shutil.which("nvidia-smi", path="/usr/bin:/bin:/usr/local/nvidia/bin")
        self.assertEqual("-DCMAKE_CUDA_ARCHITECTURES=90" in configure, has_smi is None)

    def test_a_refusal_of_the_sanitizer_is_no_failure(self):
        self.write(self.path / "compute-sanitizer",
                   "echo '========= Error: Device not supported'; exit 1")
        self.assertEqual(
            self.verdicts("--only", "memcheck_0"),
            ({"carried": "passed",
              "memcheck_0": "skipped: compute-sanitizer: Device not supported"}, 0))

    def test_what_the_sanitizer_finds_is_a_failure(self):
        self.write(self.path / "compute-sanitizer",
                   "echo '========= Invalid __global__ write of size 4 bytes'; "
                   "echo '========= ERROR SUMMARY: 1 error'; exit 1")
        self.assertEqual(self.verdicts("--only", "memcheck_0"),
                         ({"carried": "passed", "memcheck_0": "failed"}, 1))

    def test_a_profile_needs_kernels_with_times(self):
        kernel = '"cat":"kernel","dur":1,"args":{"registers per thread":32}}'
        for events, verdict in [("", "failed"), ('{"ph":"i",' + kernel, "failed"),
                                ('{"ph":"X",' + kernel, "passed")]:
            self.write(self.tree / "bundle/bin/wick",
                       f'while [ $# -gt 1 ] && [ "$1" != --trace ]; do shift; done\n'
                       f"[ $# -lt 2 ] || echo '{events}' >\"$2\"")
            self.assertEqual(self.verdicts("--only", "profile")[0]["profile"], verdict)
            with tarfile.open(self.tree / "out/logs.tar.gz") as logs:
                self.assertIn("./profile_trace.json.gz", logs.getnames())

    def test_results_are_there_before_the_last_step_ends(self):
        self.write(self.tree / "bundle/bin/wick-bench",
                   f"cd {self.tree}/out && test -s logs.tar.gz && grep -q doctor steps.jsonl")
        self.assertEqual(self.verdicts("--only", "doctor,bench")[0]["bench"], "passed")


if __name__ == "__main__":
    unittest.main()
