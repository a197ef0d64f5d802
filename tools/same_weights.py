#!/usr/bin/env python3
"""Compares the weights that two builds of `wick train` end with, over ten configurations.

usage: same_weights.py PROGRAM [OTHER]   prints the SHA-256 of each run's weights; with OTHER, ends
                                         with 1 if a hash or a line of metrics differs

Hashes depend on the processor: kernels are chosen by its instruction set. So they are compared
between builds on one machine, and never stored.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

BASE = ["--model", "lenet", "--data", "shapes10", "--batch-size", "32", "--threads", "1",
        "--workers", "0", "--seed", "5"]
# Each configuration is one command, or several that share a run folder.
CONFIGURATIONS = {
    "plain": [["--max-steps", "6"]],
    "bf16": [["--max-steps", "6", "--amp", "bf16"]],
    "fp16": [["--max-steps", "6", "--amp", "fp16", "--clip-norm", "1"]],
    "ema": [["--max-steps", "6", "--ema", "0.9"]],
    "accumulate": [["--max-steps", "6", "--accumulate", "3", "--label-smoothing", "0.1"]],
    "mixup": [["--max-steps", "6", "--mixup", "0.2", "--cutmix", "1", "--optimizer", "sgd",
               "--warmup", "0.01"]],
    "recomputed": [["--max-steps", "6", "--model", "resnet20", "--checkpoint-activations", "on",
                    "--schedule", "cosine", "--warmup", "0.01"]],
    "two ranks": [["--max-steps", "6", "--model", "resnet20", "--ranks", "2", "--sync-batch-norm",
                   "--zero"]],
    "plateau": [["--max-steps", "6", "--schedule", "plateau", "--optimizer", "lamb"]],
    "resume": [["--max-steps", "3", "--amp", "bf16", "--ema", "0.9", "--schedule", "multistep"],
               ["--resume", "--max-steps", "6"]],
}
VARYING = ("images_per_second", "data_wait", "memory_bytes")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def metrics(path):
    lines = []
    with open(path, encoding="utf-8") as file:
        for text in file:
            values = json.loads(text)
            lines.append({key: v for key, v in values.items() if key not in VARYING})
    return lines


def run(program, commands):
    """The hash of the weights and the metrics that `commands` leave, without their times."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = os.path.join(folder, "run")
        for flags in commands:
            base = [] if "--resume" in flags else BASE
            if "--model" in flags:
                base = base[2:]
            subprocess.run([program, "train", "--run-dir", run_dir, *base, *flags], check=True,
                           stdout=subprocess.DEVNULL)
        return (digest(os.path.join(run_dir, "weights.safetensors")),
                metrics(os.path.join(run_dir, "metrics.jsonl")))


def main(programs):
    if len(programs) not in (1, 2):
        sys.exit(__doc__)
    differences = 0
    for name, commands in CONFIGURATIONS.items():
        results = [run(program, commands) for program in programs]
        same = all(result == results[0] for result in results)
        differences += not same
        print(f"{name:<12} {results[0][0]}{'' if same else '  DIFFERS'}", flush=True)
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
