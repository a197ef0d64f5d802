"""Tests a program with a model and a data set of its own: own_program_test.py PATH-OF-PROGRAM. The
program has Wick's whole command line."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
OWN = ["--model", "perceptron", "--data", "halves", "--threads", "1"]


def run(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=120,
                          check=False)


def succeeds(*words):
    done = run(*words)
    assert done.returncode == 0, f"{words}: {done.returncode}: {done.stderr}"
    return done.stdout


def fails(part, *words):
    done = run(*words)
    assert done.returncode == 2 and part in done.stderr, f"{words}: {done.stderr}"


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "run"
        out = succeeds("train", *OWN, "--epochs", "5", "--run-dir", folder)
        assert "1000 samples of the shape [6] to train on" in out, out
        again = json.loads(succeeds("eval", "--run-dir", folder, "--json"))
        assert again["test_accuracy"] > 0.9, again
        longer = succeeds("train", "--run-dir", folder, "--resume", "--epochs", "6", "--ranks", "2")
        assert "going on after step 100 of 120" in longer, longer
        found = json.loads(succeeds("tune", "lr", *OWN, "--num-iter", "20", "--json", "--run-dir",
                                    pathlib.Path(name) / "tune"))
        assert len(found["points"]) > 2, found
        study = pathlib.Path(name) / "study"
        words = ["alias-memory", "--threads", "1", "--seconds", "0.02", "--run-dir", study]
        assert "page    " in succeeds("study", *words)
        assert (study / "study.html").exists(), list(study.iterdir())
        assert "perceptron" in succeeds("train", "--help")
        fails("resnet20, resnet18, resnet34, resnet50, vit, perceptron", "train", "--model", "nope")
        fails("--augment: not with data halves", "train", *OWN, "--augment", "none",
              "--run-dir", pathlib.Path(name) / "refused")
    print("a program of its own: trained, evaluated, resumed by two ranks, tuned, studied")


if __name__ == "__main__":
    main()
