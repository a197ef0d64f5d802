"""Running jobs of several ranks in tests."""
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import time


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def lines(folder):
    """The metrics of a run, without a line that is being written."""
    text = (pathlib.Path(folder) / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.split("\n")[:-1]]


def left_over(mark):
    """The processes, zombies aside, whose environment holds `mark`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass  # gone, or another user's
    return found


class Job:
    """A program under way, all of whose processes can be found."""

    def __init__(self, *words, **variables):
        self.mark = f"WICK_TEST_JOB=job-{os.getpid()}-{time.monotonic_ns()}"
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, **variables, name: value})

    def ranks(self):
        """The processes of ranks, by rank."""
        found = {}
        for pid in left_over(self.mark):
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for variable in variables:
                if variable.startswith(b"RANK="):
                    found[int(variable[5:])] = pid
        return found

    def wait_for_step(self, folder, step):
        """Until the run in `folder` has done `step`."""
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        while not (metrics.exists() and f'"step":{step},' in metrics.read_text()):
            if self.process.poll() is not None:
                raise AssertionError(f"ended before step {step}: {self.process.stderr.read()}")
            time.sleep(0.002)

    def kill_a_rank(self, rank, how=signal.SIGKILL):
        os.kill(self.ranks()[rank], how)

    def wait(self, seconds):
        """Its exit code and what it wrote to standard error."""
        try:
            _, stderr = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, stderr
