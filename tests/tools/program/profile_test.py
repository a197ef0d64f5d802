"""Tests wick profile: profile_test.py PATH-OF-WICK."""

import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from mnist import write_images
from programs import InFolder, run_program

WICK = str(pathlib.Path(sys.argv.pop(1)).resolve())
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
                     "parameters  ", "Predicted before the first step, from ", "Bound by ",
                     "What helps: "]:
            self.assertIn(part, done.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_json_holds_the_same(self):
        done = run("profile", *SMALL, "--json", "--memory")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        peak = found["peak_bytes"]
        self.assertLess(abs(peak["predicted"] / peak["held"] - 1), 0.1)
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

    def study(self, name, device="cpu", gain=1.5, machine=None):
        """A study as `wick study` writes it: bfloat16 and packed files, as fast, and no gain."""
        folder = self.folder / "runs" / name
        folder.mkdir(parents=True)
        lines = [{"kind": "start", "machine": machine or self.machine(), "device": device}]
        for technique, middle in [("bfloat16", gain), ("batch-size", gain), ("workers", gain),
                                  ("gradient-accumulation", gain), ("read-loss-seldom", gain),
                                  ("fused-loss", 1.0)]:
            speed = {"middle": middle, "low": middle - .001, "high": middle + .001,
                     "confidence": .99}
            comparison = {"speed": speed, "pairs": 22, "processes": 2, "memory": 1}
            lines.append({"kind": "technique", "id": technique,
                          "cases": [{"workload": "some model", "comparison": comparison}]})
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "study.jsonl").write_text(text + '{"kind": "torn')
        return folder

    @functools.cache
    def machine(self):
        """What a study says of this machine."""
        folder = self.folder / "short"
        done = run("study", "set-to-none", "--seconds", "0.01", "--run-dir", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((folder / "study.jsonl").read_text().splitlines()[0])["machine"]

    def test_tells_what_the_last_study_measured(self):
        def profile():
            done = subprocess.run([WICK, "profile", *SMALL, "--json"], cwd=self.folder,
                                  capture_output=True, text=True, check=True)
            return json.loads(done.stdout)

        self.assertNotIn("measured", profile())
        self.study("study-20260102-000000", gain=1.5)
        self.study("study-20260103-000000", device="cuda:0")
        self.study("study-20260104-000000", machine={"processor": "another"})
        found = profile()
        self.assertEqual(found["measured"]["study"], "runs/study-20260102-000000")
        techniques = {"compute": "bfloat16", "memory": "bfloat16", "launches": "batch-size",
                      "data": "workers", "communication": "gradient-accumulation",
                      "outside": "read-loss-seldom"}
        technique = techniques[found["verdict"]["bound"]]
        gains = found["measured"]["gains"]
        self.assertEqual([(gain["technique"], gain["middle"]) for gain in gains],
                         [(technique, 1.5)])
        done = run("profile", *SMALL, "--study", self.study("mine", gain=1.25))
        technique = techniques[re.search(r"Bound by (\w+):", done.stdout)[1]]
        self.assertRegex(done.stdout, f"Measured here, in .*mine:\n  {technique} +1.25x ")
        self.fails(1, "study.jsonl", "profile", *SMALL, "--study", self.study("old") /
                   "study.jsonl")

    def test_refuses_bad_use(self):
        self.fails(2, "--sort-by", "profile", *SMALL, "--sort-by", "cpu_tiem")
        self.fails(2, "--steps", "profile", *SMALL, "--steps", "0")
        self.fails(2, "--resume", "profile", *SMALL, "--resume")
        self.fails(1, "/nowhere", "profile", *SMALL, "--trace", "/nowhere/trace.json")


if __name__ == "__main__":
    unittest.main()
