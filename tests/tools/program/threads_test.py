"""Tests that a run has the same bytes for any number of threads: threads_test.py PATH-OF-WICK."""

import functools
import sys
import unittest

from jobs import sha256
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
run = functools.partial(run_program, WICK)


class Threads(InFolder):
    program = WICK

    def weights(self, threads, words):
        folder = self.folder / "-".join([threads, *words]).replace("--", "")
        done = run("train", "--run-dir", folder, "--data", "shapes10", "--max-steps", "4",
                   "--batch-size", "16", "--eval-every", "0", "--threads", threads, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sha256(folder / "weights.safetensors")

    def test_weights_do_not_depend_on_their_number(self):
        for words in (["--model", "resnet20"], ["--model", "vit"],
                      ["--model", "resnet20", "--amp", "bf16"]):
            with self.subTest(words=words):
                found = {self.weights(threads, words) for threads in "1237"}
                self.assertEqual(len(found), 1)


if __name__ == "__main__":
    unittest.main()
