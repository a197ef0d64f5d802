"""What tests of programs share."""
import os
import pathlib
import subprocess
import tempfile
import unittest


def run_program(program, *words, cwd=None, **variables):
    """What came of `program` with `words`, in this environment with `variables`."""
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=600,
                          cwd=cwd, env={**os.environ, **variables})


class InFolder(unittest.TestCase):
    """Tests with a folder of their own, `self.folder`."""
    program = None  # that `fails` runs

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def fails(self, code, text, *words, **variables):
        """It ends with `code` and one line of error that holds `text`."""
        done = run_program(self.program, *words, **variables)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
