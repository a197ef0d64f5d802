#!/usr/bin/env python3
"""Training over two hosts: hosts.py PATH-OF-WICK. The hosts are network namespaces of this machine,
which `wick launch --hosts` enters by `ip netns exec` where it would else use ssh. Ends with 77,
which ctest takes for skipped, where this user may not make network namespaces."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "program"))
from jobs import Job, left_over, sha256  # noqa: E402
from mnist import write_images  # noqa: E402

SKIPPED = 77
WICK = str(pathlib.Path(sys.argv.pop(1)).resolve())
A, B = (f"wick-{os.getpid()}-{name}" for name in "ab")
RANKS = f"{A}:2,{B}:1"


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def make_hosts():
    for name in (A, B):
        ip("netns", "add", name)
    ip("link", "add", "net", "netns", A, "type", "veth", "peer", "name", "net", "netns", B)
    for name, address in ((A, "10.77.0.1/24"), (B, "10.77.0.2/24")):
        ip("-n", name, "addr", "add", address, "dev", "net")
        for device in ("lo", "net"):
            ip("-n", name, "link", "set", device, "up")


def remove_hosts():
    for name in (A, B):
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


class TwoHosts(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        write_images(self.folder)
        self.train = ["train", "--model", "mlp", "--data", "mnist", "--data-dir",
                      str(self.folder), "--workers", "1", "--threads", "1", "--batch-size", "60"]
        self.there = ["--hosts", RANKS, "--rsh", "ip netns exec", "--master-addr", "10.77.0.1"]

    def tearDown(self):
        self.temporary.cleanup()

    def test_ranks_run_on_their_hosts(self):
        done = subprocess.run([WICK, "launch", *self.there, "--", "sh", "-c",
                               "echo $RANK $LOCAL_RANK $(ip -4 -o addr show dev net)"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(done.stdout.splitlines())
        self.assertEqual(len(lines), 3, lines)
        for line, expected in zip(lines,
                                  [("0 0", "0.1/24"), ("1 1", "0.1/24"), ("2 0", "0.2/24")]):
            self.assertTrue(line.startswith(expected[0]) and expected[1] in line, line)

    def test_a_run_with_a_killed_rank_ends_with_the_weights_of_one_host(self):
        one = self.folder / "one"
        words = [*self.train, "--epochs", "3"]
        subprocess.run([WICK, *words, "--ranks", "3", "--run-dir", str(one)], check=True,
                       capture_output=True, timeout=120)
        run = self.folder / "run"
        job = Job(WICK, *words, "--run-dir", str(run), *self.there, "--max-restarts", "1")
        job.wait_for_step(run, 40)
        job.kill_a_rank(2)
        code, stderr = job.wait(120)
        self.assertEqual(code, 0, stderr)
        self.assertIn(f"rank 2 of 3 (on {B}) was killed by SIGKILL", stderr)
        self.assertIn("restart 1 of 1", stderr)
        self.assertEqual(sha256(run / "weights.safetensors"), sha256(one / "weights.safetensors"))

    def test_nothing_outlives_a_killed_launcher(self):
        run = self.folder / "run"
        job = Job(WICK, *self.train, "--epochs", "100000", "--eval-every", "0", "--run-dir",
                  str(run), *self.there)
        job.wait_for_step(run, 2)
        job.process.send_signal(signal.SIGKILL)
        job.wait(10)
        end = time.monotonic() + 10
        while left_over(job.mark) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(left_over(job.mark), [])

    def test_a_host_that_is_cut_off(self):
        """Its interface goes down: the others must end within the time-out, and say who is gone."""
        run = self.folder / "run"
        job = Job(WICK, *self.train, "--epochs", "100000", "--eval-every", "0", "--run-dir",
                  str(run), "--rank-timeout", "2", *self.there)
        try:
            job.wait_for_step(run, 2)
            ip("-n", B, "link", "set", "net", "down")
            code, stderr = job.wait(60)
        finally:
            ip("-n", B, "link", "set", "net", "up")
        self.assertNotIn(code, (0, -9))
        self.assertIn("rank 2", stderr)
        self.assertEqual(left_over(job.mark), [])

    def test_no_such_host(self):
        done = subprocess.run([WICK, "launch", *self.there[2:], "--hosts", f"{A},nowhere", "--",
                               "sleep", "60"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 255, done.stderr)
        self.assertIn("host nowhere could not be reached", done.stderr)


if __name__ == "__main__":
    try:
        if shutil.which("ip") is None:
            raise OSError("there is no program ip (Debian's iproute2)")
        make_hosts()
    except OSError as error:
        remove_hosts()
        print(f"skipped: two hosts need network namespaces, which only root may make: {error}")
        sys.exit(SKIPPED)
    try:
        unittest.main()
    finally:
        remove_hosts()
