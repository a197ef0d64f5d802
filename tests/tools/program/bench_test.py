"""Tests `wick bench`: bench_test.py PATH-OF-WICK-BENCH SOURCE-FOLDER. What it prints and writes,
what it says of bad input, and that every family of kernels has rows."""

import csv
import functools
import io
import json
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest

from programs import InFolder, run_program

BENCH = sys.argv.pop(1)
SOURCE = pathlib.Path(sys.argv.pop(1))
run = functools.partial(run_program, BENCH)
KERNEL = re.compile(r"WICK_(?:LIBRARY_)?KERNEL\(|WICK_ELEMENTWISE\(|^namespace cuda \{\n", re.M)
FEW = ["--quick", "--device", "cpu", "--filter", "^softmax/rows/"]


class BenchCase(InFolder):
    program = BENCH

    def script(self, name, text):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def measured(self, *words):
        path = self.folder / "a.json"
        done = run(*FEW, "--json", str(path), *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return path, json.loads(path.read_text())


class Rows(unittest.TestCase):
    def setUp(self):
        listed = run("--list", "--device", "cpu")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.names = listed.stdout.split()

    def test_every_family_of_kernels_has_some(self):
        families = [header.stem for header in (SOURCE / "kernels").glob("*.h")
                    if header.stem not in ("declare", "optim_rule") and
                    KERNEL.search(header.read_text())]
        self.assertGreater(len(families), 15)
        covered = {name.split("/")[0] for name in self.names}
        self.assertEqual(sorted(set(families) - covered), [])
        for family in families:
            self.assertTrue((SOURCE / "bench/kernels" / f"{family}.cpp").is_file(), family)

    def test_names_differ_and_fit_the_table(self):
        self.assertEqual(len(set(self.names)), len(self.names))
        self.assertLessEqual(max(map(len, self.names)), 52)

    def test_filter_chooses(self):
        chosen = run("--list", "--device", "cpu", "--filter", "^norm/.*backward").stdout.split()
        wanted = [name for name in self.names if re.search("^norm/.*backward", name)]
        self.assertEqual(chosen, wanted)
        self.assertNotEqual(chosen, [])
        others = run("--list", "--device", "cpu", "--filter=-^norm/.*backward").stdout.split()
        self.assertEqual(sorted(chosen + others), sorted(self.names))


class GoogleBenchmark(BenchCase):
    ROW = "softmax/columns/forward/float32"

    def test_its_flags_do_the_same_here(self):
        names = run("--benchmark_list_tests=true", f"--benchmark_filter=^{self.ROW}$").stdout
        self.assertEqual(names.split(), [self.ROW])
        path = self.folder / "out.json"
        done = run("--quick", "--device", "cpu", f"--benchmark_filter=^{self.ROW}$",
                   "--benchmark_format=json", f"--benchmark_out={path}",
                   "--benchmark_repetitions=7")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(self.ROW, done.stderr)
        self.assertEqual(json.loads(done.stdout), json.loads(path.read_text()))
        samples = [entry for entry in json.loads(done.stdout)["benchmarks"]
                   if entry["run_type"] == "iteration"]
        self.assertEqual([entry["repetitions"] for entry in samples], [7] * 7)

    def test_its_csv_has_the_entries_of_json(self):
        done = run("--quick", "--device", "cpu", f"--benchmark_filter=^{self.ROW}$",
                   "--benchmark_format=csv", "--benchmark_repetitions=5")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["name"] for row in rows],
                         [self.ROW] * 5 + [f"{self.ROW}_{name}"
                                           for name in ("mean", "median", "stddev")])
        self.assertEqual(list(rows[0])[:5],
                         ["name", "iterations", "real_time", "cpu_time", "time_unit"])
        for row in rows:
            self.assertEqual(row["time_unit"], "ns")
            self.assertGreaterEqual(float(row["real_time"]), 0)

    def test_the_library_itself_times_the_rows(self):
        program = pathlib.Path(BENCH).parent / "wick-gbench"
        if not program.exists():
            self.skipTest("built without Google Benchmark: Debian's libbenchmark-dev")
        listed = run_program(program, "--benchmark_list_tests").stdout.split()
        rows = run("--list", "--device", "cpu").stdout.split()
        self.assertEqual(sorted(listed), sorted(f"{row}/real_time" for row in rows))
        done = run_program(program, "--shrink", "64", f"--benchmark_filter=^{self.ROW}/",
                           "--benchmark_min_time=0.001", "--benchmark_format=json")
        self.assertEqual(done.returncode, 0, done.stderr)
        row, = json.loads(done.stdout)["benchmarks"]
        self.assertGreater(row["bytes_per_second"], 0)
        self.assertEqual(run_program(program, "--benchmark_flter=x").returncode, 2)


class Results(BenchCase):
    def test_all_rows_are_right(self):
        done = run("--quick", "--device", "cpu", "--filter", "^(?!transform|allocator|conv/)")
        self.assertEqual(done.returncode, 0, done.stdout)
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)

    def test_json_is_as_google_benchmark_writes_it(self):
        _, report = self.measured()
        self.assertEqual(report["context"]["wick"]["shrink"], 64)
        memory = report["context"]["wick"]["ceilings"]["memory"]
        self.assertEqual(memory, sorted(memory, key=lambda m: m["footprint"]))
        for key in ("date", "num_cpus", "mhz_per_cpu", "caches", "library_build_type"):
            self.assertIn(key, report["context"])
        runs = {}
        for entry in report["benchmarks"]:
            for key in ("name", "run_name", "run_type", "repetitions", "threads", "iterations",
                        "real_time", "cpu_time", "time_unit"):
                self.assertIn(key, entry)
            runs.setdefault(entry["run_name"], []).append(entry)
        self.assertEqual(len(runs), 4)  # forward and backward in two dtypes
        for entries in runs.values():
            samples = [e for e in entries if e["run_type"] == "iteration"]
            self.assertEqual([e["repetition_index"] for e in samples], list(range(len(samples))))
            median = next(e for e in entries if e.get("aggregate_name") == "median")
            self.assertLessEqual(median["interval_low"], median["real_time"])
            self.assertLessEqual(median["real_time"], median["interval_high"])
            rate = median["bytes"] / median["real_time"] * 1e9
            self.assertAlmostEqual(median["bytes_per_second"] / rate, 1, 6)

    def test_ended_early_it_keeps_finished_rows(self):
        path = self.folder / "a.json"
        process = subprocess.Popen([BENCH, "--quick", "--device", "cpu", "--json", str(path)],
                                   stdout=subprocess.PIPE, text=True)
        lines = []
        while len([line for line in lines if line.startswith("allocator")]) < 2:
            lines.append(process.stdout.readline())
            self.assertNotEqual(lines[-1], "")
        process.send_signal(signal.SIGINT)
        lines += process.communicate(timeout=60)[0].splitlines()
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted: ", lines[-1])
        names = {entry["run_name"] for entry in json.loads(path.read_text())["benchmarks"]}
        self.assertGreaterEqual(len(names), 2)
        self.assertEqual(list(self.folder.iterdir()), [path])


class Program(InFolder):
    def setUp(self):
        super().setUp()
        self.wick = pathlib.Path(BENCH).parent / "wick"
        if not self.wick.exists():
            self.skipTest("no wick beside wick-bench")

    def test_wick_bench_becomes_it(self):
        words = ["--list", "--device", "cpu", "--filter", "^clip/"]
        done = run_program(self.wick, "bench", *words)
        self.assertEqual((done.returncode, done.stdout), (0, run(*words).stdout))

    def test_without_it_wick_says_how_to_get_it(self):
        alone = shutil.copy(self.wick, self.folder)
        done = run_program(alone, "bench")
        self.assertEqual(done.returncode, 1)
        self.assertIn("./wick bench builds it", done.stderr)


class BadInput(BenchCase):
    def test_words(self):
        self.fails(2, "not a regular expression", "--filter", "(")
        self.fails(2, "no row matches", "--filter", "nothing has this name")
        self.fails(2, "--threads", "--threads", "0")
        self.fails(2, "expected", "--wrong")
        self.fails(2, "--device", "--device", "tpu", "--list")
        self.fails(2, "do not go", "--list", "--json", "x.json")

    def test_json_that_cannot_be_written(self):
        self.fails(2, "cannot write", *FEW, "--json", str(self.folder / "none" / "a.json"))
        self.fails(2, "is a folder", *FEW, "--json", str(self.folder))

    def test_sim_without_counting(self):
        done = run("--sim", "--filter", "^elementwise/square/forward/float32")
        if done.returncode == 0:  # a build that counts
            self.assertIn("device: simulated", done.stdout)
            self.assertNotIn(" ms", done.stdout)
        else:
            self.fails(2, "does not count", "--sim")

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BENCH, "--list"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 74)
        self.assertIn("cannot write", done.stderr)


class BaselineTest(BenchCase):
    def test_slower_rows_are_named(self):
        path, report = self.measured()
        for entry in report["benchmarks"]:
            if "backward" in entry["run_name"]:
                entry["real_time"] /= 100
            else:
                entry["real_time"] *= 100
        path.write_text(json.dumps(report))
        done = run(*FEW, "--baseline", str(path))
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertEqual(len(re.findall("backward.*: takes .* times as long", done.stdout)), 2)
        self.assertIn("2 of 4 rows are more than 30 % slower", done.stdout)

    def test_slower_hardware_is_none_of_a_rows_fault(self):
        path, report = self.measured()
        for entry in report["benchmarks"]:
            entry["real_time"] /= 100
            if "bound_seconds" in entry:
                entry["bound_seconds"] /= 1000
        path.write_text(json.dumps(report))
        done = run(*FEW, "--baseline", str(path))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_what_is_no_baseline(self):
        path, report = self.measured()
        whole = path.read_text()

        def bad(text, message="--baseline"):
            path.write_text(text)
            self.fails(1, message, *FEW, "--baseline", str(path))

        bad("", "not what wick bench --json writes: no JSON at byte 1")
        bad(whole[:len(whole) // 2])
        bad(json.dumps({**report, "benchmarks": []}), "has none of the 4 rows")
        bad("[" * 100000)
        bad("{}")
        bad(json.dumps({**report, "benchmarks": 3}))
        bad(json.dumps({**report, "benchmarks": [3]}))
        bad(whole.replace('"real_time": ', '"real_time": -'))
        bad(whole.replace('"real_time": ', '"real_time": 1e999, "x": '))
        bad(whole.replace('"time_unit": "ns"', '"time_unit": "fortnights"'), "fortnights")
        bad(whole.replace('"shrink": 64', '"shrink": 1'), "--quick")
        self.fails(1, "none.json", *FEW, "--baseline", str(self.folder / "none.json"))


class AgainstTest(BenchCase):
    def test_a_build_that_is_slower(self):
        other = self.script("other", f'unset WICK_BENCH_SLOWER; exec "{BENCH}" "$@"\n')
        done = run("--quick", "--device", "cpu", "--filter", "^softmax/rows/backward", "--against",
                   other, WICK_BENCH_SLOWER="backward/float32 3")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "softmax/rows/backward/float32 .*SLOWER")
        self.assertIn("1 of 2 rows slower, 0 failed", done.stdout)

    def test_programs_that_are_not_ours(self):
        start = time.monotonic()
        self.fails(2, "not a wick-bench", *FEW, "--against", "/bin/true")
        self.fails(2, "not a wick-bench", *FEW, "--against", self.script("yes", "exec yes\n"))
        self.fails(2, "not a wick-bench", *FEW, "--against",
                   self.script("endless", "exec cat /dev/zero\n"))
        self.fails(1, "cannot run", *FEW, "--against", str(self.folder / "none"))
        self.fails(1, "cannot run", *FEW, "--against", __file__)
        self.assertLess(time.monotonic() - start, 60)

    def test_a_program_that_ends_in_the_middle(self):
        dies = self.script("dies", "echo wick-bench 1; read x; echo softmax/rows/forward/float32\n")
        done = run("--quick", "--device", "cpu", "--filter", "^softmax/rows/forward/float32",
                   "--against", dies)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("ended with exit code 0", done.stdout)
        self.assertIn("1 failed", done.stdout)

    def test_rows_that_the_other_has_not(self):
        lacks = self.script("lacks", "echo wick-bench 1; read x; echo other/row; read x\n")
        done = run(*FEW, "--against", lacks)
        self.assertEqual(done.returncode, 1)
        self.assertIn("4 failed", done.stdout)


if __name__ == "__main__":
    unittest.main()
