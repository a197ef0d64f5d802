#!/usr/bin/env python3
"""Runs the same workloads in Wick and in PyTorch, taking turns (A B A B) in one run, and prints
each figure's median and the ratio of every pair: their median and quartiles.

  bench/peers/compare.py [--python PATH] [--workloads A,B] [--threads 2] [--seconds 10]
                         [--json FILE]

PATH is the interpreter whose torch is the peer (default /usr/bin/python3: Debian's). A ratio above
1 says Wick is faster, or for memory that it needs less.
"""

import argparse
import datetime
import json
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Iterations of one turn, and what a workload's time is divided by for its rate.
WORKLOADS = {
    "resnet18_32_b128": (1, 128, "images/s"),
    "resnet18_224_b16": (1, 16, "images/s"),
    "resnet18_32_b128_bf16": (1, 128, "images/s"),
    "resnet18_224_b16_bf16": (1, 16, "images/s"),
    "article_001": (1, 128, "images/s"),
    "article_001_tuned": (1, 128, "images/s"),
    "mlp_b64": (200, 64, "images/s"),
    "adamw_25m": (3, 24 * 2**20, "parameters/s"),
    "adamw_25m_fused": (3, 24 * 2**20, "parameters/s"),
    "softmax": (5, 1, "/s"),
    "layer_norm": (5, 1, "/s"),
    "gelu": (5, 1, "/s"),
    "cross_entropy": (5, 1, "/s"),
    "softmax_backward": (3, 1, "/s"),
    "layer_norm_backward": (3, 1, "/s"),
    "gelu_backward": (3, 1, "/s"),
    "cross_entropy_backward": (3, 1, "/s"),
}


# Only where asked for: torch.compile needs PyTorch 2.
OPTIONAL = {"article_001_compiled": (1, 128, "images/s")}


class Peer:
    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.read().split()[-1]

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} ended early")
        return line.strip()

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return float(self.read())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def start(workload, arguments):
    ours = [arguments.wick, workload, str(arguments.threads)]
    theirs = [arguments.python, str(HERE / "torch_peer.py"), workload, str(arguments.threads)]
    return ours, theirs


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def time_pairs(workload, arguments):
    iterations, units, unit = (WORKLOADS | OPTIONAL)[workload]
    ours, theirs = (Peer(command) for command in start(workload, arguments))
    try:
        for peer in (ours, theirs):  # first runs allocate, plan and page in
            peer.ask(f"run {iterations}")
            peer.ask(f"run {iterations}")
        pairs = []
        spent = 0.0
        while len(pairs) < 5 or spent < arguments.seconds:
            pair = ours.ask(f"run {iterations}"), theirs.ask(f"run {iterations}")
            spent += sum(pair)
            pairs.append(pair)
            if len(pairs) >= 200:
                break
        low, ratio, high = quartiles([b / a for a, b in pairs])
        rate = [iterations * units / statistics.median(side) for side in zip(*pairs)]
        return {"workload": workload, "unit": unit, "ours": rate[0], "peer": rate[1],
                "ratio": ratio, "interval": [low, high], "pairs": len(pairs),
                "versions": {"wick": ours.version, "torch": theirs.version}}
    finally:
        ours.close()
        theirs.close()


def peak_memory(workload, arguments):
    growth = []
    for command in start(workload, arguments):
        peer = Peer(command)
        growth.append(peer.ask("memory") / 1e6)
        peer.close()
    return {"workload": workload + " peak memory", "unit": "MB", "ours": growth[0],
            "peer": growth[1], "ratio": growth[1] / growth[0],
            "interval": [growth[1] / growth[0]] * 2, "pairs": 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--wick", default=str(ROOT / "build/release/bin/wick_peer"))
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10, help="of each pair of peers")
    parser.add_argument("--json", help="file for the results")
    arguments = parser.parse_args()
    names = arguments.workloads.split(",")
    for name in names:
        if name not in WORKLOADS | OPTIONAL:
            parser.error(f"unknown workload: {name}; known: {', '.join(WORKLOADS | OPTIONAL)}")

    results = []
    print(f"{'workload':34} {'Wick':>11} {'PyTorch':>11} {'ratio':>7}  quartiles")
    for name in names:
        rows = [time_pairs(name, arguments)]
        if name.startswith("resnet18"):
            rows.append(peak_memory(name, arguments))
        for row in rows:
            results.append(row)
            low, high = row["interval"]
            print(f"{row['workload']:34} {row['ours']:11.1f} {row['peer']:11.1f} "
                  f"{row['ratio']:7.2f}  {low:.2f} to {high:.2f} {row['unit']}", flush=True)
    version = results[0]["versions"]["torch"]
    print(f"PyTorch {version}, {arguments.threads} threads, {platform.machine()}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"date": datetime.date.today().isoformat(), "threads": arguments.threads,
                       "results": results}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
