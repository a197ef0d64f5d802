"""Tests a program that trains its own model on its own data: text_test.py PATH-OF-PROGRAM.
Killed at a random moment and resumed, and by two ranks, it ends with the same weights."""
import hashlib
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(sys.argv[1])
TRIES = 5


def weights(folder):
    return hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()


def train(folder, **variables):
    return subprocess.Popen([PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1", **variables})


def finish(process):
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, f"ended with {process.returncode}"
    accuracy = float(re.search(r"accuracy ([\d.]+)", out).group(1))
    assert accuracy > 0.9, f"accuracy {accuracy}, expected above 0.9"


def train_whole(folder):
    begin = time.monotonic()
    finish(train(folder))
    return time.monotonic() - begin


def train_killed(folder, seconds):
    """Kills the program after some part of its `seconds`, until it gets to the end."""
    for _ in range(TRIES):
        process = train(folder)
        time.sleep(random.uniform(0.1, 0.9) * seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finish(train(folder))


def train_on_two_ranks(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [train(folder, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=port) for rank in range(2)]
    for process in ranks:
        finish(process)


def main():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        seconds = train_whole(root / "whole")
        train_killed(root / "killed", seconds)
        assert weights(root / "killed") == weights(root / "whole"), "a resumed run differs"
        train_on_two_ranks(root / "ranks")
        train_on_two_ranks(root / "again")
        assert weights(root / "ranks") == weights(root / "again"), "two runs of two ranks differ"
    print("embedded training: resumed to the same bytes; two ranks agree")


if __name__ == "__main__":
    main()
