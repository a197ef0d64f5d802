#!/usr/bin/env python3
"""What becomes of a job when something goes wrong: drills.py PATH-OF-WICK [--kills N] [--seed S].

Ranks of `wick train` are started by hand, with torchrun's variables, and then killed, stopped,
kept waiting or lied to. Each drill prints a line, with the seconds in which all had noticed; the
script fails if somebody lives on, ends well, does not name the one to blame, or with --strict needs
longer than is promised: 5 s after a kill, a second more than the time-out else."""

import argparse
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools/program"))
from jobs import left_over  # noqa: E402
from mnist import write_images  # noqa: E402

PATIENCE = 60  # seconds, for machines with other work to do
TIMEOUT = 2
START = 1  # second for processes to start, where that counts


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Drill:
    """Ranks of one run, which would go on for hours."""

    def __init__(self, options, folder, ranks, timeout=600, port=None):
        self.options = options
        self.folder = folder
        self.ranks = ranks
        self.port = port or free_port()
        self.mark = f"drill-{os.getpid()}-{time.monotonic_ns()}"
        self.run_dir = folder / self.mark
        self.flight = folder / f"flight-{self.mark}"
        self.flight.mkdir()
        self.words = [options.wick, "train", "--run-dir", str(self.run_dir), "--model", "mlp",
                      "--data", "mnist", "--data-dir", str(folder), "--batch-size", "60",
                      "--threads", "1", "--workers", "1", "--epochs", "100000", "--eval-every",
                      "0", "--schedule", "constant", "--rank-timeout", str(timeout)]
        self.processes = {}

    def variables(self, rank, **changes):
        all_variables = {
            "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self.ranks,
            "LOCAL_WORLD_SIZE": self.ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.port,
            "WICK_JOB_TOKEN": "secret", "WICK_FLIGHT_DIR": self.flight, "OMP_NUM_THREADS": 1,
            "DRILL": self.mark, **changes}
        return {**os.environ, **{name: str(value) for name, value in all_variables.items()}}

    def start(self, rank, **changes):
        self.processes[rank] = subprocess.Popen(
            self.words, env=self.variables(rank, **changes), stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)

    def start_all(self):
        for rank in range(self.ranks):
            self.start(rank)

    def wait_for_steps(self, step=1):
        metrics = self.run_dir / "metrics.jsonl"
        end = time.monotonic() + PATIENCE
        while not (metrics.exists() and f'"step":{step},' in metrics.read_text()):
            for rank, process in self.processes.items():
                if process.poll() is not None:
                    raise AssertionError(f"rank {rank} ended: {process.stderr.read()}")
            if time.monotonic() > end:
                raise AssertionError("the ranks do not come to train")
            time.sleep(0.005)

    def expect_end(self, ranks, text, within):
        """All of `ranks` fail with a sentence that holds `text`. Returns the seconds it took."""
        start = time.monotonic()
        for rank in ranks:
            process = self.processes[rank]
            try:
                _, stderr = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"rank {rank} lives on") from None
            well = process.returncode in (1, 76) and text in stderr
            if not well or len(stderr.splitlines()) > 3:
                raise AssertionError(f"rank {rank}: exit code {process.returncode}, expected 1 or "
                                     f"76 and \"{text}\" in: {stderr}")
        seconds = time.monotonic() - start
        if self.options.strict and seconds > within:
            raise AssertionError(f"took {seconds:.2f} s, more than {within}")
        return seconds

    def doctor(self):
        done = subprocess.run([self.options.wick, "doctor", "--flight", str(self.flight)],
                              capture_output=True, text=True, timeout=PATIENCE)
        return done.stdout + done.stderr

    def finish(self):
        """Ends what is left; True if nothing was, of those that should have ended."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.communicate()
        left = left_over(self.mark)
        shutil.rmtree(self.run_dir, ignore_errors=True)
        if left:
            raise AssertionError(f"processes left over: {left}")


def drill_kill(options, folder, noise):
    ranks = noise.choice([2, 3, 4])
    victim = noise.randrange(ranks)
    drill = Drill(options, folder, ranks)
    try:
        drill.start_all()
        drill.wait_for_steps()
        time.sleep(noise.random() * 0.3)
        drill.processes[victim].kill()
        others = [rank for rank in range(ranks) if rank != victim]
        seconds = drill.expect_end(others, f"rank {victim}", within=5)
        told = drill.doctor()
        if f"to blame: rank {victim}" not in told:
            raise AssertionError(f"wick doctor, of rank {victim}: {told}")
    finally:
        drill.finish()
    return f"rank {victim} of {ranks} killed: the others knew", seconds


def drill_stop(options, folder, noise):
    drill = Drill(options, folder, 3, timeout=TIMEOUT)
    victim = noise.randrange(3)
    try:
        drill.start_all()
        drill.wait_for_steps()
        drill.processes[victim].send_signal(signal.SIGSTOP)
        others = [rank for rank in range(3) if rank != victim]
        seconds = drill.expect_end(others, f"rank {victim}", within=TIMEOUT + 1)
    finally:
        drill.finish()
    return f"rank {victim} stopped, time-out {TIMEOUT} s: the others knew", seconds


def drill_absent(options, folder, _):
    drill = Drill(options, folder, 3, timeout=TIMEOUT)
    try:
        drill.start(0)
        drill.start(1)
        seconds = drill.expect_end([0], "rank 2", within=TIMEOUT + START + 1)
        seconds += drill.expect_end([1], "rank", within=1)
    finally:
        drill.finish()
    return f"rank 2 never came, time-out {TIMEOUT} s: the others knew", seconds


def drill_port_in_use(options, folder, _):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        drill = Drill(options, folder, 2, timeout=TIMEOUT, port=other.getsockname()[1])
        try:
            drill.start_all()
            seconds = drill.expect_end([0], str(drill.port), within=TIMEOUT + START + 1)
            seconds += drill.expect_end([1], "rank", within=TIMEOUT + START + 1)
        finally:
            drill.finish()
    return "port in use: all knew", seconds


def drill_wrong_token(options, folder, _):
    drill = Drill(options, folder, 2, timeout=TIMEOUT)
    try:
        drill.start(0)
        drill.start(1, WICK_JOB_TOKEN="guessed")
        seconds = drill.expect_end([1], "token", within=TIMEOUT + START + 1)
        seconds += drill.expect_end([0], "rank 1", within=TIMEOUT + START + 1)
    finally:
        drill.finish()
    return "wrong job token: turned away", seconds


def drill_stranger(options, folder, noise):
    drill = Drill(options, folder, 2)
    strangers = []
    try:
        drill.start(0)
        end = time.monotonic() + PATIENCE
        for words in [b"GET / HTTP/1.1\r\n\r\n", b"", noise.randbytes(4096)]:
            while True:
                try:
                    strangers.append(socket.create_connection(("127.0.0.1", drill.port), 1))
                    strangers[-1].sendall(words)
                    break
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.02)
        start = time.monotonic()
        drill.start(1)
        drill.wait_for_steps()
        seconds = time.monotonic() - start
    finally:
        for stranger in strangers:
            stranger.close()
        drill.finish()
    return "three strangers connected: the job trains all the same", seconds


def drill_variables(options, folder, _):
    drill = Drill(options, folder, 2, timeout=TIMEOUT)
    start = time.monotonic()
    try:
        for changes, text in [({"RANK": "2"}, "RANK"), ({"RANK": "x"}, "RANK"),
                              ({"WORLD_SIZE": "0"}, "WORLD_SIZE"),
                              ({"WORLD_SIZE": ""}, "WORLD_SIZE"),
                              ({"MASTER_PORT": "70000"}, "MASTER_PORT")]:
            drill.start(0, **changes)
            drill.expect_end([0], text, within=TIMEOUT + START)
    finally:
        drill.finish()
    return "wrong variables: each named", time.monotonic() - start


def drill_mpirun(options, folder, _):
    """A short run under mpirun, where Open MPI is installed."""
    if shutil.which("mpirun") is None:
        return "mpirun: not installed, skipped", 0
    drill = Drill(options, folder, 4)
    words = drill.words + ["--max-steps", "5"]
    start = time.monotonic()
    done = subprocess.run(
        ["mpirun", "-n", "4", "--oversubscribe", *words], capture_output=True, text=True,
        timeout=2 * PATIENCE, env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "DRILL": drill.mark,
                                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    drill.finish()
    if done.returncode != 0 or "ranks     4" not in done.stdout:
        raise AssertionError(f"mpirun: {done.stdout}{done.stderr}")
    return "mpirun -n 4 trains", time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wick")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strict", action="store_true")
    options = parser.parse_args()
    options.wick = str(pathlib.Path(options.wick).resolve())
    noise = random.Random(options.seed)
    drills = [drill_kill] * options.kills + [
        drill_stop, drill_absent, drill_port_in_use, drill_wrong_token, drill_stranger,
        drill_variables, drill_mpirun]
    failed = 0
    longest = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_images(folder)
        for drill in drills:
            try:
                text, seconds = drill(options, folder, noise)
                print(f"{text} after {seconds:.2f} s" if seconds else text, flush=True)
                if drill is drill_kill:
                    longest = max(longest, seconds)
            except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"FAILED {drill.__name__}: {error}", flush=True)
    print(f"{len(drills)} drills, {failed} failed; after a kill the last knew within "
          f"{longest:.2f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
