"""Tests which words the program takes, and what they mean for a run folder that is there already:
flags_test.py PATH-OF-WICK."""

import functools
import json
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from jobs import lines
from mnist import write_images
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
run = functools.partial(run_program, WICK)

data_folder = tempfile.TemporaryDirectory()
write_images(pathlib.Path(data_folder.name))
MLP = ["--model", "mlp", "--data", "mnist", "--data-dir", data_folder.name, "--threads", "1"]
SMALL = [*MLP, "--batch-size", "100", "--max-steps", "2", "--eval-every", "0"]


class FlagsCase(InFolder):
    program = WICK

    def succeeds(self, *words, **variables):
        done = run(*words, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def train(self, name, *words):
        self.succeeds("train", "--run-dir", self.folder / name, *SMALL, *words)
        return self.folder / name


class Words(FlagsCase):
    def test_help_shows_the_basic_flags_and_on_request_all(self):
        for words in [["train"], ["tune", "lr"], ["profile"]]:
            short = self.succeeds(*words, "--help")
            whole = self.succeeds(*words, "--help-all", "--no-such-flag")
            self.assertEqual(whole, self.succeeds(*words, "--help-all"))
            self.assertIn("--batch-size", short)
            self.assertIn("--batch-size", whole)
            self.assertNotIn("--label-smoothing", short)
            self.assertIn("--label-smoothing", whole)

    def test_an_empty_word_is_no_decay(self):
        for words in [["--ema", ""], ["--ema", "", "--json"], ["--ema", "0.5", "--lr", ""]]:
            self.fails(2, "the value is empty", "train", "--print-config", *words)
        self.fails(2, "--ema: the value is empty", "tune", "lr", "--ema", "")
        for words in [["--ema="], ["--ema=", "--json"], ["--json", "--ema"]]:
            values = json.loads(self.succeeds("train", "--print-config", *words))
            self.assertEqual(values["ema"], 0.999)

    def test_those_of_tune_are_checked_before_anything_is_made(self):
        wrong = {"lr": ["--num-iter 010", "--num-iter 0x10", "--num-iter 1", "--num-iter many",
                        "--num-iter 9223372036854775808", "--num-iter ", "--start-lr 0",
                        "--start-lr nan", "--start-lr 1e-13", "--start-lr 10", "--start-lr ",
                        "--end-lr 1e7", "--end-lr inf", "--end-lr -1", "--smoothing 1",
                        "--smoothing -0.1", "--smoothing nan", "--smoothing "],
                 "batch": ["--noise-batches -5", "--noise-batches 1", "--noise-batches 010",
                           "--noise-batches ", "--most 0", "--most 0x10", "--seconds -1",
                           "--seconds nan", "--seconds ", "--memory ", "--memory much"],
                 "loader": ["--workers 257", "--workers 010", "--workers 0:4:0", "--workers 4:0",
                            "--workers ", "--workers auto", "--pin maybe", "--seconds nan",
                            "--seconds 0", "--seconds "]}
        run_dir = self.folder / "run"
        absent = ["--data", "mnist", "--data-dir", self.folder / "absent"]
        for what, cases in wrong.items():
            for flag, word in (case.split(" ") for case in [*cases, "--lr nan"]):
                with self.subTest(what=what, flag=flag, word=word):
                    self.fails(2, f"{flag}: ", "tune", what, *absent, "--run-dir", run_dir,
                               flag, word)
            self.fails(1, "holds no run", "tune", what, *absent, "--resume", "--run-dir", run_dir)
            self.fails(1, "absent", "tune", what, *absent, "--run-dir", run_dir)
        self.assertFalse(run_dir.exists())


class Resuming(FlagsCase):
    def config(self, **values):
        path = self.folder / "config.json"
        path.write_text(json.dumps(values))
        return path

    def test_a_config_file_outweighs_what_the_run_had(self):
        folder = self.train("run")
        words = ["train", "--resume", "--run-dir", folder, "--config"]
        self.fails(2, "lr cannot change: got 0.5", *words, self.config(lr=0.5))
        self.succeeds(*words, self.config(max_steps=3))
        self.assertEqual(lines(folder)[-1]["step"], 3)
        self.succeeds(*words, self.config(max_steps=3), WICK_MAX_STEPS="4")
        self.assertEqual(lines(folder)[-1]["step"], 4)
        self.succeeds(*words, self.config(max_steps=4, resume=False, run_dir="other"),
                      "--max-steps", "5")
        self.assertEqual(lines(folder)[-1]["step"], 5)

    def test_a_config_file_may_name_a_run_that_was_moved(self):
        folder = self.train("run").rename(self.folder / "moved")
        self.succeeds("train", "--config",
                      self.config(resume=True, run_dir=str(folder), max_steps=3))
        self.assertEqual(lines(folder)[-1]["step"], 3)
        self.assertFalse((self.folder / "run").exists())

    def test_a_folder_with_remains_of_a_run_is_not_free(self):
        whole = self.train("run")
        words = [*SMALL, "--seed", "1", "--run-dir", whole]
        (whole / "config.json").unlink()
        metrics = (whole / "metrics.jsonl").read_bytes()
        self.fails(1, "already holds a run", "train", *words)
        (whole / "metrics.jsonl").unlink()
        self.fails(1, "already holds a run", "train", *words)
        self.fails(1, "already holds a run", "tune", "lr", *words)
        for step in ["step-0", "step-2"]:
            (whole / "checkpoints" / step).rename(self.folder / step)
        self.fails(1, "already holds a run", "train", *words)
        (whole / "weights.safetensors").unlink()
        (whole / "metrics.jsonl").write_bytes(metrics)
        self.fails(1, "already holds a run", "train", *words)
        (whole / "metrics.jsonl").unlink()
        self.succeeds("train", *words)


class PrintedCommands(FlagsCase):
    """What the program says to go on with is what a shell takes."""

    def command(self, out, before):
        found = re.search(f"{before}: wick (.*)", out)
        self.assertTrue(found, out)
        return found[1]

    def shell(self, command):
        done = subprocess.run(["sh", "-c", f"{shlex.quote(WICK)} {command}"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_folders_of_any_name(self):
        for name in ["plain-1.x", "it's $HOME", '"a\\b *~é"']:
            with self.subTest(name=name):
                folder = self.folder / name
                process = subprocess.Popen([WICK, "train", *MLP, "--epochs", "1", "--batch-size",
                                            "2", "--eval-every", "0", "--run-dir", folder],
                                           stdout=subprocess.PIPE, text=True)
                while not (folder / "metrics.jsonl").exists():
                    self.assertIsNone(process.poll(), "ended before it could be stopped")
                    time.sleep(0.002)
                process.send_signal(signal.SIGINT)
                out, _ = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130, out)
                out = self.shell(self.command(out, "go on with"))
                self.assertIn("going on after step", out)
                self.assertIn("accuracy", self.shell(self.command(out, "evaluate it again with")))
                out = self.succeeds("data", "pack", "--data", "mnist", "--data-dir",
                                    data_folder.name, "--out", self.folder / f"{name}.pack")
                command = self.command(out, "train on it with")
                self.shell(f"{command} --print-config")
                self.assertEqual(shlex.split(command)[-1], str(self.folder / f"{name}.pack"))


if __name__ == "__main__":
    unittest.main()
