"""Tests which words the program takes, and what they mean for a run folder that is there already:
flags_test.py PATH-OF-WICK."""

import functools
import json
import pathlib
import sys
import tempfile
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
    def test_an_empty_word_is_no_decay(self):
        for words in [["--ema", ""], ["--ema", "", "--json"], ["--ema", "0.5", "--lr", ""]]:
            self.fails(2, "the value is empty", "train", "--print-config", *words)
        self.fails(2, "--ema: the value is empty", "tune", "lr", "--ema", "")
        for words in [["--ema="], ["--ema=", "--json"], ["--json", "--ema"]]:
            values = json.loads(self.succeeds("train", "--print-config", *words))
            self.assertEqual(values["ema"], 0.999)


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


if __name__ == "__main__":
    unittest.main()
