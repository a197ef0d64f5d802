"""A try that does not end is told of with the place of each thread, and leaves no process behind.

unended_test.py
"""
import os
import pathlib
import shutil
import sys
import time
import unittest
import unittest.mock

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
        judged = [True, True]
        with unittest.mock.patch("unended.lacks_cores", lambda *_: judged.pop()):
            done = self.run_words(["sleep", "2.5"])
        self.assertEqual((done.returncode, judged), (0, []))

    def test_a_program_that_ends_while_it_is_judged_has_ended(self):
        def judge(*_):
            time.sleep(1)
            return False

        with unittest.mock.patch("unended.lacks_cores", judge):
            self.assertEqual(self.run_words(["sleep", "1.5"]).returncode, 0)

    def lacks_cores(self, *readings):
        """What is said of one thread, of which the system tells these readings in turn."""
        told = [{(1, 1): reading} for reading in readings]
        with unittest.mock.patch("unended.threads", lambda _: told.pop(0)), \
                unittest.mock.patch("time.sleep"):
            return unended.lacks_cores([1], {(1, 1): 2}, 1)

    def test_a_thread_lacks_a_core_by_its_state_and_by_what_it_waited(self):
        idle = ("S", 0.5, "0 2000000000 0")
        ready = ("R", 0.5, "0 2000000000 0")
        busy = ("R", 1.4, "0 2000000000 0")
        waited = ("R", 0.5, "0 2600000000 0")
        self.assertFalse(self.lacks_cores(idle, idle, idle, idle))
        self.assertFalse(self.lacks_cores(ready, ready, busy, busy))
        self.assertTrue(self.lacks_cores(waited))
        self.assertTrue(self.lacks_cores(ready, ready, ready))
        # The wait ended, and was counted, while the thread was looked at.
        self.assertTrue(self.lacks_cores(ready, ready, busy, waited))

    def test_what_the_system_tells_of_this_thread_is_read(self):
        state, used, schedule = unended.threads([os.getpid()])[os.getpid(), os.getpid()]
        self.assertEqual(state, "R")
        self.assertAlmostEqual(used, time.process_time(), delta=1)
        self.assertEqual(len(schedule.split()), 3)

    def test_a_program_that_ends_is_as_it_was(self):
        done = self.run_words(["sh", "-c", "echo out; echo err >&2; exit 3"])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "out\n", "err\n"))


if __name__ == "__main__":
    unittest.main()
