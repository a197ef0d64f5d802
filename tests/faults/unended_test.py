"""A try that does not end is told of with the place of each thread, and leaves no process behind.

unended_test.py
"""
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools" / "program"))
from jobs import left_over  # noqa: E402
import unended  # noqa: E402

# As a launcher does: the child is in a session of its own, and the parent waits for it.
WAITS = ["sh", "-c", "setsid sleep 600 & wait"]


class Unended(unittest.TestCase):
    def setUp(self):
        self.mark = f"try-{os.getpid()}-{time.monotonic_ns()}"
        self.environment = {**os.environ, "WICK_TEST_TRY": self.mark}

    def run_words(self, words, **options):
        return unended.run(words, 1, env=self.environment, **options)

    def expect_all_told_and_gone(self, words, **options):
        with self.assertRaises(unended.Unended) as raised:
            self.run_words(words, **options)
        text = str(raised.exception)
        self.assertIn("no end within 1 s with cores", text)
        self.assertIn("(sleep): state", text)
        self.assertIn("(sh): state", text)
        end = time.monotonic() + 5
        while left_over(self.mark) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(left_over(self.mark), [])

    def test_all_that_a_program_has_started_is_told_and_ended(self):
        self.expect_all_told_and_gone(WAITS)

    @unittest.skipIf(shutil.which("strace") is None, "no strace")
    def test_what_strace_follows_ends_with_it(self):
        self.expect_all_told_and_gone(["strace", "-f", "-qq", "-o", os.devnull, *WAITS],
                                      is_traced=True)

    def test_a_program_without_a_core_has_longer(self):
        core = str(min(os.sched_getaffinity(0)))
        busy = subprocess.Popen(["taskset", "-c", core, sys.executable, "-c",
                                 "import time\nwhile time.process_time() < 3: pass"])
        self.addCleanup(busy.wait)
        # Some tenths of a second of work, which gets some thousandths of the core for 3 s.
        work = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"]
        done = self.run_words(["taskset", "-c", core, "chrt", "--idle", "0", *work])
        self.assertEqual(done.returncode, 0)

    def test_a_program_that_ends_is_as_it_was(self):
        done = self.run_words(["sh", "-c", "echo out; echo err >&2; exit 3"])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "out\n", "err\n"))


if __name__ == "__main__":
    unittest.main()
