"""Tests wick study and wick report: study_test.py PATH-OF-WICK. What is kept of a study that is
interrupted or in part fails, and that its page and a run's report are safe and whole; in Chromium,
where there is one, that pages draw without errors and requests."""

import base64
import functools
import hashlib
import html.parser
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

from browser import browse, in_browser
from mnist import write_images
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
run = functools.partial(run_program, WICK)
SHORT = ["--threads", "1", "--seconds", "0.02"]  # for each of two that take next to no time:
LIGHT, OTHER = "alias-memory", "reduced-jpeg"
NASTY = "<script>alert(1)<!-- &amp; \"'"


def lines(folder):
    return [json.loads(line) for line in (folder / "study.jsonl").read_text().splitlines()]


def ids(folder):
    return [line["id"] for line in lines(folder) if line["kind"] == "technique"]


class Page(html.parser.HTMLParser):
    """What a page is made of; errors where it could ask for anything outside itself."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.scripts, self.policy, self.charts, self.text = [], [], "", [], ""
        self.open_script = False
        self.feed(pathlib.Path(path).read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        self.open_script = tag == "script"
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if "data-chart" in values:
            self.charts.append(json.loads(values["data-chart"]))
        for key in ("src", "href"):
            if key in values and not values[key].startswith(("#", "data:")):
                raise AssertionError(f"<{tag} {key}={values[key]}>")
        for key in values:
            if key.startswith("on"):
                raise AssertionError(f"<{tag} {key}>")

    def handle_endtag(self, tag):
        self.open_script = False

    def handle_data(self, data):
        if self.open_script:
            self.scripts.append(data)
        else:
            self.text += data


class StudyCase(InFolder):
    program = WICK

    def check_page(self, path):
        page = Page(path)
        self.assertEqual(page.tags.count("script"), 2)
        for script in page.scripts:
            digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            self.assertIn(f"'sha256-{digest}'", page.policy)
        self.assertTrue(page.policy.startswith("default-src 'none';"), page.policy)
        return page


class Study(StudyCase):
    def test_words_are_checked(self):
        self.fails(2, "Did you mean fused-norm?", "study", "fused-nrm")
        self.fails(2, "tpu", "study", "shuffle", "--device", "tpu")
        self.fails(2, "--data-dir: data", "study", "shuffle", "--data", "mnist")
        for flag in ["--link-gbit", "--link-us", "--seconds"]:
            for value in ["nan", "-nan", "-1", "1e9", "much"]:
                self.fails(2, f"wick: {flag}: ", "study", "--list", f"{flag}={value}")
        self.assertGreaterEqual(len(run("study", "--list").stdout.splitlines()), 40)
        self.assertIn("--quick", run("study", "--help").stdout)

    def test_a_study_is_measured_and_shown(self):
        folder = self.folder / NASTY
        done = run("study", LIGHT, *SHORT, "--run-dir", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        comparison = next(line for line in lines(folder) if line["kind"] == "technique")[
            "cases"][0]["comparison"]
        for side in ("off", "on"):
            self.assertGreater(comparison[side]["images_per_second"], 0)
        self.assertGreater(comparison["off"]["peak_bytes"], 4 * 64 * 3 * 224 * 224)
        for shares in (comparison["off_shares"], comparison["on_shares"]):
            self.assertAlmostEqual(sum(shares), 1, 3)
        speed = comparison["speed"]
        self.assertTrue(0 < speed["low"] <= speed["middle"] <= speed["high"])
        # An effect has to show in two pairs of processes.
        self.assertGreaterEqual(comparison["processes"], 2)
        self.assertGreaterEqual(comparison["pairs"], 8)
        summary = xml.etree.ElementTree.parse(folder / "summary.svg").getroot()
        words = [text.text for text in summary.iter("{http://www.w3.org/2000/svg}text")]
        digits = 1 if speed["middle"] >= 9.995 else 2
        self.assertIn(f"{speed['middle']:.{digits}f}×", words)
        self.assertEqual(len(list(summary.iter("{http://www.w3.org/2000/svg}rect"))), 1)
        if shutil.which("rsvg-convert"):
            head = (folder / "summary.png").read_bytes()[:24]
            self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(int.from_bytes(head[16:20], "big"), 2 * int(summary.get("width")))
        page = self.check_page(folder / "study.html")
        self.assertIn(NASTY, page.text)
        self.assertIn("docs/optimizations/transfers.md", page.text)
        self.assertIn("time goes to ", page.text)
        self.assertEqual(page.charts[0]["bars"][0]["value"], speed["middle"])
        self.assertFalse((folder / ".study-scratch").exists())
        # There is nothing left to measure.
        again = run("study", LIGHT, *SHORT, "--run-dir", folder)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(ids(folder), [LIGHT])
        self.fails(2, "another one", "study", LIGHT, "--quick", "--run-dir", folder)

    def test_what_fails_is_reported_and_the_rest_goes_on(self):
        words = [OTHER, LIGHT, *SHORT, "--run-dir", self.folder]
        scratch = self.folder / ".study-scratch"
        scratch.write_text("")  # no folder for the JPEG files
        done = run("study", *words)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, f"{OTHER} +failed: ")
        self.assertEqual(ids(self.folder), [LIGHT])
        self.assertIn("What failed", self.check_page(self.folder / "study.html").text)
        scratch.unlink(missing_ok=True)
        done = run("study", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(ids(self.folder), [LIGHT, OTHER])
        self.assertNotIn("What failed", self.check_page(self.folder / "study.html").text)

    def test_the_ladder_alone_goes_on_after_an_interruption(self):
        process, _ = self.start("ladder")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, out + err)
        self.assertEqual([line["kind"] for line in lines(self.folder)], ["start"])
        done = run("study", "ladder", "--threads", "1", "--seconds", "0.1", "--run-dir",
                   self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        kinds = [line["kind"] for line in lines(self.folder)]
        self.assertEqual(kinds, ["start", "ladder"])
        ladder = lines(self.folder)[1]
        taken = [rung["id"] for rung in ladder["rungs"]]
        others = [rung["id"] for rung in ladder["rejected"]] + ladder["untried"]
        self.assertEqual(len(set(taken + others)), 14)
        for rung in ladder["rungs"]:
            comparison = rung["comparison"]
            self.assertGreater(comparison["speed"]["low"], 1)
            self.assertGreaterEqual(comparison["processes"], 2)
            self.assertGreaterEqual(comparison["pairs"], 8)
        changed = [key for key in ladder["naive"] if ladder["naive"][key] != ladder["best"][key]]
        self.assertEqual(len(changed), len(taken))
        self.assertIn("the ladder", done.stdout)
        page = self.check_page(self.folder / "study.html")
        self.assertEqual(page.charts[0]["type"], "waterfall")
        self.assertEqual(len(page.charts[0]["bars"]), len(taken) + 2)

    def test_scaling_is_predicted_and_measured(self):
        done = run("study", "scaling", *SHORT, "--link-us", "5", "--run-dir", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = next(line for line in lines(self.folder) if line["kind"] == "scaling")
        self.assertEqual(line["link"], {"gigabits": 10, "microseconds": 5})
        self.assertGreater(line["alone"]["forward"], 0)
        page = self.check_page(self.folder / "study.html")
        efficiency = page.charts[-1]
        self.assertEqual(len(efficiency["series"]), 5)
        for series in efficiency["series"]:
            self.assertEqual(series["points"][0][0], 1)
            self.assertAlmostEqual(series["points"][0][1], 100)
            self.assertEqual(series["points"][-1][0], 10000)
        if not line["rows"]:
            self.assertIn("could not be made", page.text + done.stderr)
            return
        self.assertEqual([(row["what"], row["ranks"]) for row in line["rows"]],
                         [("step", 1), ("all-reduce 1 kB", 2), ("all-reduce 64 kB", 2),
                          ("step", 2), ("step", 2)])
        for row in line["rows"]:
            self.assertGreater(row["measured"], 0)
            self.assertGreater(row["predicted"], 0)
        # 64 kB cannot be there sooner than a link of 100 Mbit/s lets them pass, bursts aside.
        self.assertGreater(line["rows"][2]["measured"], 0.004)
        self.assertEqual(len(page.charts[0]["series"]), 3)

    def start(self, *names):
        process = subprocess.Popen([WICK, "study", *names, "--threads", "1", "--seconds", "60",
                                    "--run-dir", str(self.folder)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 60
        while len(children.read_text().split()) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        return process, [int(word) for word in children.read_text().split()]

    def test_an_interrupted_study_keeps_what_it_has(self):
        run("study", LIGHT, *SHORT, "--run-dir", self.folder)
        with open(self.folder / "study.jsonl", "a") as file:
            file.write('{"kind": "techn')  # as power goes off
        process, children = self.start(LIGHT, OTHER)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, out + err)
        self.assertIn(f"--run-dir {self.folder} --threads 1 --seconds 60 {LIGHT} {OTHER}", out)
        self.assertEqual(ids(self.folder), [LIGHT])
        self.check_page(self.folder / "study.html")
        for child in children:
            self.assertFalse(pathlib.Path(f"/proc/{child}").exists())

    def test_a_worker_that_dies_is_reported(self):
        process, children = self.start(OTHER)
        os.kill(children[1], signal.SIGKILL)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, out + err)
        self.assertIn("failed: its process ended by signal 9", out)

    def test_folders_that_will_not_do(self):
        (self.folder / "study.jsonl").write_text("[]\n")
        self.fails(1, "line 1 is not one of a study", "study", "shuffle", "--run-dir", self.folder)
        self.fails(1, "cannot make", "study", "shuffle", "--run-dir", "/dev/null/study")

    def test_lines_that_will_not_do(self):
        run("study", LIGHT, *SHORT, "--run-dir", self.folder)
        store = self.folder / "study.jsonl"
        good = store.read_text()
        interval = {"middle": 1, "low": 1, "high": 1, "confidence": 1}
        for missing, line in [
                ("cases", {"kind": "technique", "id": "fused-norm"}),
                ("workload", {"kind": "technique", "id": "fused-norm", "cases": [{}]}),
                ("learning", {"kind": "learning", "id": "fused-norm"}),
                ("off", {"kind": "learning", "id": "fused-norm", "learning": [
                    {"workload": "", "steps": 1, "seeds": 1}]}),
                ("total", {"kind": "ladder"}),
                ("rungs", {"kind": "ladder", "total": {}}),
                ("rows", {"kind": "sweep"}),
                ("workers", {"kind": "sweep", "rows": [{"rate": interval}]}),
                ("traces", {"kind": "memory"}),
                ("index 1", {"kind": "memory", "traces": [{"name": "a", "points": [[1]]}]}),
                ("rows", {"kind": "scaling"}),
                ("string", {"kind": "failure", "error": 1})]:
            with self.subTest(line=line):
                store.write_text(good + json.dumps(line) + "\n")
                done = run("study", LIGHT, *SHORT, "--run-dir", self.folder)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIn(f"{store}: line 3, of kind {line['kind']}: ", done.stderr)
                self.assertIn(missing, done.stderr)
                self.assertNotIn("json.exception", done.stderr)
        store.write_text(good.replace('"processor":"', '"processor":1,"was":"'))
        self.fails(2, "another one", "study", LIGHT, *SHORT, "--run-dir", self.folder)
        store.write_text(good + '{"kind": "technique", "id": 1}\n')
        self.fails(1, "line 3 is not one of a study", "study", LIGHT, "--run-dir", self.folder)

    def test_kernels_are_shown_against_the_limits(self):
        bench = self.folder / "bench.json"
        row = {"run_name": NASTY, "aggregate_name": "median", "bytes_per_second": 1e9,
               "flops_per_second": 1e10, "fraction_of_bound": 0.5}
        ceilings = {"memory": [{"footprint": 1e9, "bytes_per_second": 2e10}],
                    "flops_float32": 1e11}
        bench.write_text(json.dumps({"context": {"wick": {"ceilings": ceilings}},
                                     "benchmarks": [row]}))
        folder = self.folder / "study"
        done = run("study", LIGHT, *SHORT, "--run-dir", folder, "--bench", bench)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = self.check_page(folder / "study.html")
        self.assertEqual(len(page.charts[-1]["series"]), 2)
        self.assertEqual(page.charts[-1]["series"][0]["names"], [NASTY])
        bench.write_text("{}")
        self.fails(1, "is not what wick bench", "study", LIGHT, *SHORT, "--run-dir",
                   folder, "--bench", bench)


class Streams(StudyCase):
    def closed(self, which, *words):
        """What came of `words` where the streams that `which` names are closed."""
        return subprocess.run(["sh", "-c", f'"$@" {which}', "sh", *map(str, words)], text=True,
                              capture_output=True, timeout=600, cwd=self.folder)

    def test_files_hold_nothing_that_is_printed(self):
        write_images(self.folder)
        for which, code in [("<&- >&-", 74), ("<&- >&- 2>&-", 74), ("2>&-", 0)]:
            with self.subTest(which=which):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                done = self.closed(which, WICK, "train", "--model", "mlp", "--data", "mnist",
                                   "--data-dir", ".", "--max-steps", "6", "--threads", "1",
                                   "--run-dir", "run")
                metrics = (self.folder / "run" / "metrics.jsonl").read_text().splitlines()
                self.assertEqual([json.loads(line)["step"] for line in metrics][:6],
                                 list(range(1, 7)))
                self.assertEqual(done.returncode, code)
                if which == "<&- >&-":
                    self.assertIn("cannot write to standard output", done.stderr)

    def test_a_study_holds_nothing_that_is_printed(self):
        done = self.closed("<&- >&-", WICK, "study", LIGHT, *SHORT, "--run-dir", "study")
        self.assertIn("cannot write to standard output", done.stderr)
        self.assertEqual(ids(self.folder / "study"), [LIGHT])


class NewFolders(StudyCase):
    def test_every_program_gets_one_of_its_own(self):
        write_images(self.folder)
        train = [WICK, "train", "--model", "mlp", "--data", "mnist", "--data-dir", ".",
                 "--max-steps", "2", "--threads", "1"]
        for words, count in [(train, 6), ([WICK, "study", LIGHT, *SHORT], 3)]:
            started = [subprocess.Popen(words, cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT) for _ in range(count)]
            for process in started:
                out, _ = process.communicate(timeout=600)
                self.assertEqual(process.returncode, 0, out)
        whole = [name.parent for name in (self.folder / "runs").glob("*/weights.safetensors")]
        pages = [name.parent for name in (self.folder / "runs").glob("*/study.html")]
        self.assertEqual((len(whole), len(pages)), (6, 3))
        self.assertEqual(set((self.folder / "runs").iterdir()), {*whole, *pages})

    def test_nothing_is_left_of_a_command_that_fails(self):
        for words in [[WICK, "train", "--model", "mlp", "--data", "mnist", "--data-dir", "."],
                      [WICK, "train", "--ranks", "2", "--model", "mlp", "--data", "mnist",
                       "--data-dir", ".", "--threads", "1"],
                      [WICK, "study", LIGHT, "--device", "tpu"]]:
            with self.subTest(words=words):
                done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True,
                                      timeout=600)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(list(self.folder.iterdir()), [], done.stderr)


class Report(StudyCase):
    def train(self, name, *words, model="mlp"):
        folder = self.folder / name
        write_images(self.folder)
        done = run_program(WICK, "train", "--model", model, "--data", "mnist", "--data-dir",
                           self.folder, "--max-steps", "6", "--threads", "1", "--run-dir", folder,
                           *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder

    def test_runs_side_by_side(self):
        one, two = self.train(NASTY), self.train("two", "--optimizer", "sgd")
        with open(two / "metrics.jsonl", "a") as file:
            file.write('{"step": 7, "lo')  # a torn last line is passed over
        done = run("report", one, two, "--out", self.folder / "both.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        page = self.check_page(self.folder / "both.html")
        self.assertIn(NASTY, page.text)
        self.assertIn("sgd", page.text)
        self.assertIn("compiler", page.text)
        loss = page.charts[0]["series"]
        self.assertEqual([one["name"] for one in loss], [NASTY, "two"])
        self.assertEqual(len(loss[0]["points"]), 6)
        self.assertEqual(page.tags.count("img"), 2 * (24 + 1))
        shown = re.search(r"(\d+) of 400 test images right \(([\d.]+) %\)", page.text)
        accuracy = json.loads((one / "metrics.jsonl").read_text().splitlines()[-1])
        self.assertEqual(shown[2], f"{100 * accuracy['test_accuracy']:.2f}")

    def test_the_graph_of_the_model_is_drawn(self):
        folder = self.train("run", "--batch-size", "8", model="resnet20")
        done = run("report", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (folder / "report.html").read_text()
        drawn = xml.etree.ElementTree.fromstring(
            re.search(r'<svg class="graph".*?</svg>', page, re.S)[0])
        rows = [text.text.split("  ") for text in drawn.iter("text")]
        ops = int(re.search(r"The graph of the model: (\d+) ops", page)[1])
        self.assertEqual(len(rows), ops + 2)
        self.assertEqual((rows[0][0], rows[-1][0]), ("input", "result"))
        convolutions = [row for row in rows if row[0] == "conv2d"]
        self.assertEqual(len(convolutions), 19)
        self.assertEqual(len({row[2] for row in convolutions}), 19)  # the modules that they ran in
        # Each value has a line, and each reading of one an arrow: residuals are read twice.
        paths = [path.get("d") for path in drawn.iter("path")]
        self.assertEqual(len(paths), ops + 1)
        self.assertGreaterEqual(sum(path.count("l4 3") > 1 for path in paths), 9)

    def test_output_that_cannot_be_written(self):
        for words in [["report", self.train("run")], ["study", "--list"], ["study", "--help"]]:
            with self.subTest(words=words), open("/dev/full", "w") as full:
                done = subprocess.run([WICK, *map(str, words)], stdout=full, text=True,
                                      stderr=subprocess.PIPE, timeout=600)
                self.assertEqual(done.returncode, 74)
                self.assertIn("cannot write", done.stderr)

    def test_folders_that_hold_no_whole_run(self):
        self.fails(1, "holds no run", "report", self.folder)
        run_folder = self.train("run")
        metrics = (run_folder / "metrics.jsonl").read_text()
        (run_folder / "metrics.jsonl").write_text(metrics + "[1]\n")
        self.fails(1, "is not one of a run's metrics", "report", run_folder)
        (run_folder / "metrics.jsonl").write_text(metrics)
        weights = (run_folder / "weights.safetensors").read_bytes()
        (run_folder / "weights.safetensors").write_bytes(weights[:1000])
        done = run("report", run_folder)
        self.assertEqual(done.returncode, 0)
        self.assertIn("could not be run", done.stderr)
        self.assertIn("could not be run", self.check_page(run_folder / "report.html").text)
        (run_folder / "config.json").write_text('{"batch_size": "many"}')
        self.fails(2, "wrong kind", "report", run_folder)


@in_browser
class Drawn(StudyCase):
    def test_pages_draw_without_errors_and_requests(self):
        folder = self.folder / "study"
        run("study", LIGHT, OTHER, *SHORT, "--run-dir", folder)
        page = folder / "study.html"
        for width in (400, 1600):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    self.assertNotIn("CONSOLE", self.draw(page, width, dark))
        # What a page asks for is refused by its policy, and the console says so.
        asking = self.folder / "asking.html"
        asking.write_text(page.read_text().replace("<main", '<img src="https://a.test/x"><main'))
        self.assertIn("Content Security Policy", self.draw(asking, 400, False))

    def draw(self, page, width, dark):
        shot = self.folder / "shot.png"
        _, said = browse(page, f"--screenshot={shot}", width=width, height=1200, dark=dark)
        self.assertGreater(shot.stat().st_size, 10000)
        return said


class Worker(unittest.TestCase):
    def test_a_gpus_steps_are_replayed(self):
        if "simulated" not in run_program(WICK, "doctor").stdout:
            self.skipTest("no simulated GPU in this build")
        settings = {"device": "cuda:0", "model": "mlp", "batch": 16, "schedule": "cosine",
                    "cuda_graph": True}
        done = subprocess.run([WICK, "study-worker", json.dumps(settings)], input="run 6\n",
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("seconds", json.loads(done.stdout))


if __name__ == "__main__":
    unittest.main()
