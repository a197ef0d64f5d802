"""Tests wick profile: profile_test.py PATH-OF-WICK."""

import functools
import json
import pathlib
import sys
import tempfile
import unittest

from mnist import write_images
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
run = functools.partial(run_program, WICK)

data_folder = tempfile.TemporaryDirectory()
write_images(pathlib.Path(data_folder.name))
SMALL = ["--model", "mlp", "--data", "mnist", "--data-dir", data_folder.name, "--threads", "1",
         "--batch-size", "16", "--steps", "6", "--skip-steps", "2", "--device", "cpu"]
BOUNDS = ["compute", "memory", "launches", "data", "communication", "outside"]


class Profile(InFolder):
    program = WICK

    def test_prints_table_memory_and_verdict(self):
        done = run("profile", *SMALL, "--memory", "--by-module")
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ["Self CPU %", "# of Calls", "Total ", "GB/s", "Module", "LinearBackward",
                     "ProfilerStep*", "Self CPU time total: ", "Most memory of cpu: ",
                     "parameters  ", "Bound by ", "What helps: "]:
            self.assertIn(part, done.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_json_holds_the_same(self):
        done = run("profile", *SMALL, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        verdict, rows = found["verdict"], found["averages"]["rows"]
        self.assertIn(verdict["bound"], BOUNDS)
        self.assertEqual(list(verdict["shares"]), BOUNDS)
        self.assertAlmostEqual(sum(verdict["shares"].values()), 1, 3)
        self.assertEqual(max(verdict["shares"], key=verdict["shares"].get), verdict["bound"])
        counts = {row["name"]: row["count"] for row in rows}
        for name in ["ProfilerStep*", "DataLoader.next", "cross_entropy",
                     "CrossEntropyBackward"]:
            self.assertEqual(counts.get(name), 6, counts)
        own = sum(row["self_cpu_time_total"] for row in rows)
        step = next(row["cpu_time_total"] for row in rows if row["name"] == "ProfilerStep*")
        self.assertAlmostEqual(own / step, 1, delta=0.03)

    def test_writes_a_trace(self):
        path = self.folder / "trace.json"
        done = run("profile", *SMALL, "--trace", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"trace: {path}", done.stdout)
        events = json.loads(path.read_text())["traceEvents"]
        self.assertEqual(sum(event["name"] == "DataLoader.next" for event in events), 6)

    def test_ranks_share_a_trace(self):
        path = self.folder / "trace.json"
        done = run("launch", "--ranks", "2", "--", "profile", *SMALL, "--trace", path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [path])
        ends = {}
        for event in json.loads(path.read_text())["traceEvents"]:
            if event.get("cat") == "collective" and event["name"] == "all_reduce":
                number = event["args"]["Sequence number"]
                ends.setdefault(number, []).append(event["ts"] + event["dur"])
        self.assertGreaterEqual(len(ends), 6)
        self.assertEqual({len(times) for times in ends.values()}, {2})

    def test_refuses_bad_use(self):
        self.fails(2, "--sort-by", "profile", *SMALL, "--sort-by", "cpu_tiem")
        self.fails(2, "--steps", "profile", *SMALL, "--steps", "0")
        self.fails(2, "--resume", "profile", *SMALL, "--resume")
        self.fails(1, "/nowhere", "profile", *SMALL, "--trace", "/nowhere/trace.json")


if __name__ == "__main__":
    unittest.main()
