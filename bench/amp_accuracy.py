#!/usr/bin/env python3
"""What mixed precision costs in accuracy: trains the same runs in float32 and under autocast, some
seeds each, and prints the test accuracies and their means.

  bench/amp_accuracy.py --data-dir FOLDER [--model resnet20] [--data cifar10] [--epochs 5]
                        [--seeds 3] [--amp bf16] [--run-dir FOLDER] [-- FLAGS OF wick train]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def accuracy(arguments, amp, seed, folder):
    """Test accuracy in percent at the end of one run."""
    run = folder / f"{arguments.model}-{amp}-{seed}"
    command = [arguments.wick, "train", "--model", arguments.model, "--data", arguments.data,
               "--epochs", str(arguments.epochs), "--amp", amp, "--seed", str(seed),
               "--eval-every", str(arguments.epochs), "--run-dir", str(run), "--json"]
    if arguments.data_dir:
        command += ["--data-dir", arguments.data_dir]
    done = subprocess.run(command + arguments.flags, stdout=subprocess.PIPE, text=True, check=True)
    return 100 * json.loads(done.stdout.splitlines()[-1])["test_accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wick", default=str(ROOT / "build/release/bin/wick"))
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--data-dir")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--amp", default="bf16", choices=["bf16", "fp16"])
    parser.add_argument("--run-dir", help="folder to keep the runs in")
    parser.add_argument("flags", nargs="*", help="more flags of wick train, after --")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.run_dir or temporary)
        found = {"off": [], arguments.amp: []}
        for seed in range(arguments.seeds):
            for amp, values in found.items():
                values.append(accuracy(arguments, amp, seed, folder))
                name = "float32" if amp == "off" else amp
                print(f"seed {seed}  {name:8} {values[-1]:6.2f} %", flush=True)
    means = {amp: statistics.mean(values) for amp, values in found.items()}
    print(f"mean    float32  {means['off']:6.2f} %")
    print(f"mean    {arguments.amp:8} {means[arguments.amp]:6.2f} %")
    print(f"difference       {means[arguments.amp] - means['off']:+6.2f} points")
    return 0


if __name__ == "__main__":
    sys.exit(main())
