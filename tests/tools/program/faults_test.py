"""Tests what `wick` says and leaves behind where something goes wrong around it:
faults_test.py PATH-OF-WICK."""

import functools
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from jobs import lines
from mnist import write_images
from png import png
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
run = functools.partial(run_program, WICK)
PNG = png(32)

data_folder = tempfile.TemporaryDirectory()
write_images(pathlib.Path(data_folder.name))
MNIST = ["--data", "mnist", "--data-dir", data_folder.name]
SHORT = ["--model", "mlp", *MNIST, "--max-steps", "4", "--batch-size", "100"]


class FaultCase(InFolder):
    program = WICK

    def wick(self, *words, code=0, **variables):
        """What it wrote to standard output and error."""
        done = run(*words, **variables)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def train(self, name, *words, size=SHORT):
        self.wick("train", "--run-dir", self.folder / name, *size, *words)
        return self.folder / name


class Words(FaultCase):
    def test_a_flag_is_no_value(self):
        self.fails(2, "--run-dir: the value is missing: got --resume", "train", "--run-dir",
                   "--resume")
        self.fails(2, "--data-dir: the value is empty", "eval", "--run-dir", "x", "--data-dir=")
        self.fails(2, "--out: the value is empty", "report", "x", "--out", "")
        self.fails(2, "--run-dir: the value is empty", "study", "--run-dir", "")
        self.fails(2, "a word is empty", "report", "")


class Nan(FaultCase):
    def test_the_doctor_repeats_the_steps_before_it(self):
        wild = self.folder / "wild"
        self.wick("train", "--run-dir", wild, *SHORT[:-4], "--max-steps", "60", "--optimizer",
                  "sgd", "--schedule", "constant", "--lr", "1e6", code=3)
        files = lambda: {path: path.read_bytes() for path in wild.rglob("*") if path.is_file()}
        before = files()
        for _ in range(2):
            said, _ = self.wick("doctor", "--nan", wild, code=3)
            self.assertRegex(said, r"^step [1-9]\d* of .*wild \(batch [1-9]\d* of epoch \d+\): "
                                   r"\w+(\(.*\))?.*: NaN in result 0: got \d+ ")
        self.assertEqual(before, files())

    def test_the_doctor_looks_at_ops_of_compiled_steps(self):
        folder = self.folder / "compiled"
        self.wick("train", "--run-dir", folder, *SHORT[:-4], "--max-steps", "60", "--optimizer",
                  "sgd", "--schedule", "constant", "--lr", "1e6", "--compile", "full", code=3)
        said, _ = self.wick("doctor", "--nan", folder, code=3)
        self.assertRegex(said, r": NaN in result 0: got \d+ ")

    def test_the_doctor_finds_none(self):
        calm = self.train("calm")
        said, _ = self.wick("doctor", "--nan", calm)
        self.assertRegex(said, r"^steps \d+ to 4 of .*calm: no NaN\n$")
        (self.folder / "empty").mkdir()
        self.fails(1, "config.json", "doctor", "--nan", self.folder / "empty")


class Resume(FaultCase):
    def test_threads_stay(self):
        stored = lambda folder: json.loads((folder / "config.json").read_text())["threads"]
        for words in [["--max-restarts", "1"], ["--ranks", "2"]]:
            folder = self.train(words[0], "--threads", "2", *words)
            self.assertEqual(stored(folder), 2)
            _, said = self.wick("train", "--run-dir", folder, "--resume", "--max-steps", "5",
                                *words, OMP_NUM_THREADS="1")
            self.assertEqual(stored(folder), 2)
            self.assertNotIn("threads", said)
            self.assertIn("max_steps: was 4, is 5", said)
        _, said = self.wick("train", "--run-dir", folder, "--resume", "--threads", "1")
        self.assertIn("ranks: was 2, is 1", said)
        self.assertIn("threads: was 2, is 1", said)
        self.assertIn("other bytes", said)

    def test_other_data_is_said(self):
        folder = self.train("run")
        other = self.folder / "other"
        other.mkdir()
        write_images(other, seed=7)
        _, said = self.wick("train", "--run-dir", folder, "--resume")
        self.assertEqual(said, "")
        _, said = self.wick("train", "--run-dir", folder, "--resume", "--data-dir", other)
        self.assertIn("wick: resume: the data is not what it was", said)


class BadImages(FaultCase):
    def setUp(self):
        super().setUp()
        self.images = self.folder / "images"
        for split in ["train", "test"]:
            for name in ["a", "b"]:
                (self.images / split / name).mkdir(parents=True)
                for i in range(4):
                    (self.images / split / name / f"{i}.png").write_bytes(PNG)
        (self.images / "test" / "b" / "\x1b[31m.png").write_bytes(PNG[:60])
        self.words = ["--model", "lenet", "--data", "imagefolder", "--data-dir", self.images,
                      "--image-size", "28", "--epochs", "1", "--batch-size", "8", "--threads", "1"]

    def test_bad_test_images_are_counted(self):
        said, _ = self.wick("train", *self.words, "--run-dir", self.folder / "run",
                            "--on-bad-sample", "skip")
        self.assertIn("left out 1 test images that cannot be read, the last: ", said)
        said, _ = self.wick("eval", "--run-dir", self.folder / "run")
        self.assertIn("of 8 images", said)
        self.assertIn("left out 1 test images", said)
        self.assertNotIn("\x1b", said)
        found = json.loads(self.wick("eval", "--run-dir", self.folder / "run", "--json")[0])
        self.assertEqual((found["images"], found["skipped_images"]), (8, 1))
        _, said = self.wick("report", self.folder / "run")
        self.assertEqual(said, "")
        self.assertIn("of 8 test images right", (self.folder / "run/report.html").read_text())

    def test_names_are_shown_without_their_control_characters(self):
        said, _ = self.wick("data", "check", "--data", "imagefolder", "--data-dir", self.images,
                            code=1)
        self.assertIn("\\x1b[31m.png", said)
        self.assertNotIn("\x1b", said)


class Files(FaultCase):
    def test_nothing_else_is_replaced(self):
        folder = self.train("run")
        metrics = (folder / "metrics.jsonl").read_text()
        self.fails(2, "is there, and no page", "report", folder, "--no-evaluation", "--out",
                   folder / "metrics.jsonl")
        pack = ["data", "pack", *MNIST, "--out"]
        self.fails(2, "is there, and no packed file", *pack, folder / "metrics.jsonl")
        self.assertEqual((folder / "metrics.jsonl").read_text(), metrics)
        for _ in range(2):
            self.wick("report", folder, "--no-evaluation", "--out", folder / "page.html")
            self.wick(*pack, folder / "images.pack")
        self.fails(2, "is the data that is to be packed", "data", "pack", "--data", "packed",
                   "--data-dir", folder / "images.pack", "--out", folder / "images.pack")

    def test_weights_that_are_not_finite(self):
        folder = self.train("run")
        weights = bytearray((folder / "weights.safetensors").read_bytes())
        weights[-4:] = b"\x00\x00\xc0\x7f"
        (folder / "bad.safetensors").write_bytes(weights)
        self.fails(3, "eval: the test loss is nan", "eval", "--run-dir", folder, "--weights",
                   folder / "bad.safetensors")


class Signals(FaultCase):
    def end(self, number, *words):
        """Exit code and output of a run that is sent `number` in its second epoch."""
        folder = self.folder / "run"
        process = subprocess.Popen(
            [WICK, "train", "--run-dir", folder, "--model", "mlp", *MNIST, "--epochs", "500",
             "--batch-size", "100", "--eval-every", "0", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        metrics = folder / "metrics.jsonl"
        while not (metrics.exists() and '"step":25,' in metrics.read_text()):
            self.assertIsNone(process.poll(), "ended before it could be stopped")
            time.sleep(0.002)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def test_a_hang_up_saves(self):
        code, out, err = self.end(signal.SIGHUP)
        self.assertEqual(code, 130, err)
        self.assertRegex(out, "stopped after step .*go on with: wick train --run-dir .* --resume")

    def test_the_hint_names_the_ranks(self):
        code, out, err = self.end(signal.SIGINT, "--ranks", "2")
        self.assertEqual(code, 130, err)
        self.assertRegex(out, "go on with: wick train --run-dir .* --resume --ranks 2\n")

    def test_a_stop_before_the_first_step_is_no_promise(self):
        """130 is: there is a checkpoint."""
        variables = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        waiting = subprocess.Popen([WICK, "train", *SHORT, "--run-dir", self.folder / "run"],
                                   stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **variables})
        time.sleep(1)  # it looks for rank 0, which is not there
        waiting.send_signal(signal.SIGINT)
        _, said = waiting.communicate(timeout=60)
        self.assertEqual(waiting.returncode, 1)
        self.assertEqual(said, "wick: stopped before the first step, with nothing to save\n")


class Saving(FaultCase):
    """A disk that takes no more while a run is under way, which a limit of files' sizes plays."""

    def start(self, *words):
        self.run_dir = self.folder / "run"
        self.said = open(self.folder / "said", "w+")
        self.addCleanup(self.said.close)
        self.process = subprocess.Popen(
            [WICK, "train", "--run-dir", self.run_dir, "--model", "mlp", *MNIST, "--epochs",
             "5000", "--batch-size", "100", "--eval-every", "0", "--checkpoint-every", "7",
             *words], stdout=subprocess.DEVNULL, stderr=self.said)
        self.addCleanup(self.process.kill)
        self.wait_for(lambda: self.newest() >= 21)

    def wait_for(self, condition):
        while not condition():
            self.assertIsNone(self.process.poll(), self.text())
            time.sleep(0.002)

    def newest(self):
        names = [path.name for path in (self.run_dir / "checkpoints").glob("step-*")]
        return max((int(name[5:]) for name in names), default=-1)

    def text(self):
        return (self.folder / "said").read_text()

    def limit(self, size):
        most = resource.RLIM_INFINITY
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, most))

    def goes_on(self):
        before = self.newest()
        _, said = self.wick("train", "--run-dir", self.run_dir, "--resume", "--max-steps",
                            before + 3, "--epochs", "1000")
        self.assertNotIn("was not used", said)
        self.assertEqual(lines(self.run_dir)[-1]["step"], before + 3)

    def test_a_run_outlives_a_full_disk(self):
        self.start()
        self.limit(5000)
        self.wait_for(lambda: "; the run goes on, and tries again\n" in self.text())
        step = self.newest()
        self.limit(resource.RLIM_INFINITY)
        self.wait_for(lambda: self.newest() > step)
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(60), 130, self.text())
        steps = [line["step"] for line in lines(self.run_dir)]
        self.assertEqual(steps, list(range(1, steps[-1] + 1)))
        self.goes_on()

    def test_a_last_checkpoint_that_cannot_be_written_is_an_error(self):
        self.start()
        self.limit(5000)
        self.wait_for(lambda: "checkpoint: could not be written" in self.text())
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(60), 74, self.text())
        self.assertTrue(self.text().splitlines()[-1].startswith("wick: "))
        self.goes_on()

    def test_a_run_fails_at_once_if_it_is_asked_to(self):
        self.start("--on-failed-save", "fail")
        self.limit(5000)
        self.assertEqual(self.process.wait(60), 74, self.text())
        self.assertEqual(len(self.text().splitlines()), 1, self.text())
        self.goes_on()

    def test_the_clock_saves_and_the_best_is_named(self):
        folder = self.train("run", "--checkpoint-every", "0.00001min", "--keep-best", "--epochs",
                            "3", size=["--model", "mlp", *MNIST, "--batch-size", "100"])
        out, _ = self.wick("train", "--run-dir", folder, "--resume", "--epochs", "4")
        self.assertRegex(out, "best .*/checkpoints/step-[0-9]+, with test loss ")


class Tuning(FaultCase):
    """Searches that are killed go on where they were."""
    size = ["--model", "mlp", *MNIST, "--batch-size", "100", "--threads", "1", "--workers", "0"]

    def interrupt(self, folder, condition, *words):
        """Kills a search as soon as `condition` is true of its progress, which is returned."""
        process = subprocess.Popen([WICK, "tune", *map(str, words), "--run-dir", folder],
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        progress = folder / "tune_progress.json"
        while not (progress.exists() and condition(json.loads(progress.read_text()))):
            self.assertIsNone(process.poll(), "ended before it could be stopped")
            time.sleep(0.001)
        process.kill()
        process.wait()
        return json.loads(progress.read_text())

    def resume(self, what, folder, *words):
        self.wick("tune", what, "--run-dir", folder, "--resume", *words)
        found = json.loads((folder / f"tune_{what}.json").read_text())
        out, _ = self.wick("tune", what, "--run-dir", folder, "--resume")
        self.assertIn("the search has ended before", out)
        return found

    def test_rates(self):
        words = ["lr", *self.size, "--num-iter", "300", "--end-lr", "0.1", "--amp", "fp16", "--ema",
                 "0.9", "--mixup", "0.2", "--optimizer", "adamw"]
        self.wick("tune", *words, "--run-dir", self.folder / "whole")
        folder = self.folder / "run"
        self.interrupt(folder, lambda found: len(found.get("points") or []) >= 30, *words,
                       "--checkpoint-every", "3")
        self.fails(2, "--resume: --num-iter was 300", "tune", "lr", "--run-dir", folder,
                   "--resume", "--num-iter", "40")
        self.fails(2, "--resume: seed: was 0, is 7", "tune", "lr", "--run-dir", folder,
                   "--resume", "--seed", "7")
        self.fails(1, 'holds a search of wick tune \"lr\", expected batch', "tune", "batch",
                   "--run-dir", folder, "--resume")
        found = self.resume("lr", folder)
        self.assertEqual(found, json.loads((self.folder / "whole/tune_lr.json").read_text()))
        self.assertFalse((folder / "tune_lr").exists())

    def test_batches(self):
        folder = self.folder / "run"
        words = ["batch", *self.size, "--most", "2000", "--seconds", "0", "--noise-batches", "4"]
        before = self.interrupt(folder, lambda found: len(found.get("trials") or []) >= 3, *words)
        found = self.resume("batch", folder)
        known = {trial["batch"]: trial for trial in before["trials"]}
        kept = [trial for trial in found["trials"] if trial["batch"] in known]
        self.assertEqual(kept, list(known.values()))  # times included
        self.assertEqual(found["gradient_noise_scale"], before["noise"]["batch"])
        self.assertEqual(found["largest"], 2000)

    def test_loading(self):
        folder = self.folder / "run"
        words = ["loader", *self.size[:-2], "--workers", "0,1", "--seconds", "0.05"]
        before = self.interrupt(folder, lambda found: (found.get("measured") or 0) >= 2, *words)
        found = self.resume("loader", folder)
        self.assertEqual(len(found["trials"]), len(before["trials"]))
        self.assertGreaterEqual(found["in_memory_images_per_second"], before["in_memory"])
        rate = lambda values: values["trials"][0]["training_images_per_second"]
        self.assertGreaterEqual(rate(found), rate(before))

    def test_no_search(self):
        folder = self.train("run")
        self.fails(1, "holds no search to go on with", "tune", "lr", "--resume", "--run-dir",
                   folder)
        self.wick("tune", "lr", *self.size, "--num-iter", "12", "--run-dir", self.folder / "lr")
        (self.folder / "lr/tune_lr.json").unlink()
        (self.folder / "lr/tune_progress.json").write_text('{"tune": "lr", "flags": {"--num-iter": '
                                                           '"many"}}')
        self.fails(1, "tune_progress.json is damaged", "tune", "lr", "--run-dir",
                   self.folder / "lr", "--resume")


class Limits(FaultCase):
    def limited(self, limit, value, *words):
        def lower():
            resource.setrlimit(limit, (value, value))
        return subprocess.run([WICK, *map(str, words)], capture_output=True, text=True, timeout=120,
                              preexec_fn=lower)

    def test_few_open_files(self):
        words = ["train", *SHORT, "--ranks", "2", "--threads", "1", "--workers", "0", "--run-dir"]
        start = time.monotonic()
        for files in range(8, 40, 3):
            done = self.limited(resource.RLIMIT_NOFILE, files, *words, self.folder / str(files))
            self.assertNotIn("terminate", done.stderr)
            if done.returncode != 0:
                self.assertRegex(done.stderr, "Too many open files|cannot be loaded|GLIBC|cannot")
        self.assertLess(time.monotonic() - start, 100)


if __name__ == "__main__":
    unittest.main()
