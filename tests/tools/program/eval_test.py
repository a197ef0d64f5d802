"""Tests `wick eval`: eval_test.py PATH-OF-WICK."""

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
MNIST = ["--data", "mnist", "--data-dir", data_folder.name]


class Eval(InFolder):
    program = WICK

    def test_graphs_find_what_eager_runs_find(self):
        folder = self.folder / "run"
        done = run("train", "--run-dir", folder, "--model", "resnet20", *MNIST, "--threads", "1",
                   "--batch-size", "16", "--max-steps", "8", "--eval-every", "0")
        self.assertEqual(done.returncode, 0, done.stderr)

        def evaluate(*words):
            done = run("eval", "--run-dir", folder, "--json", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)

        eager = evaluate()
        self.assertEqual(evaluate("--compile", "fuse"), eager)
        full = evaluate("--compile", "full")
        # Folded norms round otherwise: the loss shows that the passes ran.
        self.assertNotEqual(full["test_loss"], eager["test_loss"])
        self.assertAlmostEqual(full.pop("test_loss"), eager.pop("test_loss"), delta=1e-5)
        self.assertEqual(full, eager)


if __name__ == "__main__":
    unittest.main()
