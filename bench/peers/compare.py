#!/usr/bin/env python3
"""Runs the same workloads in Wick and in PyTorch, taking turns (A B A B) in one run, and prints
each figure's median and the ratio of every pair: their median and quartiles.

  bench/peers/compare.py [--python PATH] [--workloads A,B] [--threads 2] [--seconds 10]
                         [--device cpu|cuda] [--styles written,tuned,compiled] [--json FILE]

PATH is the interpreter whose torch is the peer (default /usr/bin/python3: Debian's). A ratio above
1 says Wick is faster, or for memory that it needs less. Styles are ways to write it in PyTorch
(torch_peer.py says which); of torch.compile's modes the fastest is taken. The bound is what the
machine could do at most, by the faster of both libraries' copies and matrix products in this run.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import signal
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


# Only where asked for: torch.compile needs PyTorch 2, and the other does not matter in every run.
OPTIONAL = {"article_001_compiled": (1, 128, "images/s"),
            "adamw_25m_vanished": (3, 24 * 2**20, "parameters/s")}

# Iterations, units and unit as above; floating-point operations and bytes that a unit needs at
# least. A step's: the matrix products of a forward and a backward pass. A row operation's, forward
# and backward: each tensor that is given or wanted moved once.
ELEMENTS = 8192 * 4096
LOGITS = 8192 * 50257
GPU_WORKLOADS = {
    "resnet50_224_b256_bf16": (10, 256, "images/s", 24.5e9, 0),
    "resnet18_224_b128_bf16": (20, 128, "images/s", 10.9e9, 0),
    "resnet18_32_b128_bf16": (20, 128, "images/s", 3.34e9, 0),
    "mlp_b64": (200, 64, "images/s", 0, 0),
    "adamw_100m": (10, 105e6, "parameters/s", 0, 28),
    "softmax_bf16_backward": (20, 1, "/s", 0, 5 * 2 * ELEMENTS),
    "layer_norm_bf16_backward": (20, 1, "/s", 0, 5 * 2 * ELEMENTS),
    "gelu_bf16_backward": (20, 1, "/s", 0, 5 * 2 * ELEMENTS),
    "cross_entropy_50257_bf16_backward": (5, 1, "/s", 0, 3 * 2 * LOGITS),
}
CEILINGS = {"ceiling_copy": (10, 2 * 4 * 2**28, "bytes/s"),
            "ceiling_matmul": (10, 2 * 8192**3, "FLOP/s")}
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune")


FAILURES = (RuntimeError, BrokenPipeError, ValueError)  # of a peer that ends or says other things


class Peer:
    """A program that answers each line with one. Between answers it is stopped, with all that it
    started: workers that load ahead would take the cores from whoever's turn it is."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True)
        try:
            self.version = self.read().split()[-1]
            self.signal(signal.SIGSTOP)
        except BaseException:
            self.end()
            raise

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} ended early")
        return line.strip()

    def ask(self, command):
        self.signal(signal.SIGCONT)
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = float(self.read())
        self.signal(signal.SIGSTOP)
        return answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.signal(signal.SIGKILL)
        self.process.wait()


def start(workload, style, arguments):
    threads, device = str(arguments.threads), arguments.device
    ours = [arguments.wick, workload, threads, device]
    theirs = [arguments.python, str(HERE / "torch_peer.py"), workload, threads, device, style]
    return ours, theirs


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def warm_up(peer, iterations):
    """First runs allocate, plan, compile and page in."""
    peer.ask(f"run {iterations}")
    peer.ask(f"run {iterations}")


def fastest_mode(workload, iterations, arguments):
    """torch.compile's mode that is the fastest here."""
    seconds, failed = {}, {}
    for mode in COMPILE_MODES:
        style = f"compiled:{mode}"
        try:
            with Peer(start(workload, style, arguments)[1]) as peer:
                warm_up(peer, iterations)
                seconds[style] = min(peer.ask(f"run {iterations}") for _ in range(3))
        except FAILURES as error:
            failed[style] = str(error)
    if not seconds:
        raise RuntimeError(f"{workload}: no mode of torch.compile works: {failed}")
    return min(seconds, key=seconds.get)


def bound_of(workload, ceilings):
    """The least seconds that a unit of the workload can take, or None."""
    _, _, _, flops, size = GPU_WORKLOADS.get(workload, (0, 0, "", 0, 0))
    if not ceilings or not (flops or size):
        return None
    return max(flops / ceilings["ceiling_matmul"], size / ceilings["ceiling_copy"])


def time_pairs(workload, style, arguments, ceilings):
    iterations, units, unit = known()[workload][:3]
    if style == "compiled":
        style = fastest_mode(workload, iterations, arguments)
    commands = start(workload, style, arguments)
    with Peer(commands[0]) as ours, Peer(commands[1]) as theirs:
        for peer in (ours, theirs):
            warm_up(peer, iterations)
        pairs = []
        spent = 0.0
        while len(pairs) < 5 or spent < arguments.seconds:
            pair = ours.ask(f"run {iterations}"), theirs.ask(f"run {iterations}")
            spent += sum(pair)
            pairs.append(pair)
            if len(pairs) >= 200:
                break
        versions = {"wick": ours.version, "torch": theirs.version}
    low, ratio, high = quartiles([b / a for a, b in pairs])
    rate = [iterations * units / statistics.median(side) for side in zip(*pairs)]
    bound = bound_of(workload, ceilings)
    return {"workload": workload, "style": style, "unit": unit, "ours": rate[0],
            "peer": rate[1], "ratio": ratio, "interval": [low, high], "pairs": len(pairs),
            "bound": 1 / bound if bound else None,
            "fraction": rate[0] * bound if bound else None, "versions": versions}


def peak_memory(workload, style, arguments):
    growth = []
    for command in start(workload, style, arguments):
        with Peer(command) as peer:
            growth.append(peer.ask("memory") / 1e6)
    return {"workload": workload + " peak memory", "style": style, "unit": "MB",
            "ours": growth[0], "peer": growth[1], "ratio": growth[1] / growth[0],
            "interval": [growth[1] / growth[0]] * 2, "pairs": 1, "bound": None, "fraction": None}


def known():
    return WORKLOADS | OPTIONAL | GPU_WORKLOADS | CEILINGS


def show(row):
    low, high = row["interval"]
    bound = f"{row['bound']:12.4g} {row['fraction']:5.0%}" if row["bound"] else " " * 18
    print(f"{row['workload']:34} {row['style']:16} {row['ours']:11.4g} {row['peer']:11.4g} "
          f"{row['ratio']:6.2f} {bound}  {low:.2f} to {high:.2f} {row['unit']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--wick", default=str(ROOT / "build/release/bin/wick_peer"))
    parser.add_argument("--workloads", help="names, with commas between (default: all)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--styles", default="tuned", help="of the peer, with commas between")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10, help="of each pair of peers")
    parser.add_argument("--json", help="file for the results")
    arguments = parser.parse_args()
    usual = GPU_WORKLOADS if arguments.device == "cuda" else WORKLOADS
    names = arguments.workloads.split(",") if arguments.workloads else list(usual)
    for name in names:
        if name not in known():
            parser.error(f"unknown workload: {name}; known: {', '.join(known())}")
    styles = arguments.styles.split(",")
    for style in styles:
        if style not in ("written", "tuned", "compiled"):
            parser.error(f"unknown style: {style}; known: written, tuned, compiled")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the peers
    results, ceilings, failed = [], {}, 0

    def keep(row):
        show(row)
        results.append(row)
        if arguments.json:  # at once: who is stopped keeps what was measured
            with open(arguments.json, "w") as file:
                json.dump({"date": datetime.date.today().isoformat(), "results": results,
                           "threads": arguments.threads, "device": arguments.device}, file,
                          indent=1)

    print(f"{'workload':34} {'style':16} {'Wick':>11} {'PyTorch':>11} {'ratio':>6} "
          f"{'bound':>12} {'of it':>5}  quartiles")
    if arguments.device == "cuda":
        for name in CEILINGS:
            row = time_pairs(name, "tuned", arguments, {})
            ceilings[name] = max(row["ours"], row["peer"])
            keep(row)
    for name in names:
        for style in styles:
            try:
                row = time_pairs(name, style, arguments, ceilings)
                keep(row)
                if name.startswith("resnet"):
                    keep(peak_memory(name, row["style"], arguments))
            except FAILURES as error:  # the rest goes on
                print(f"{name:34} {style:16} failed: {error}", flush=True)
                failed += 1
    versions = {row["versions"]["torch"] for row in results if "versions" in row}
    print(f"PyTorch {', '.join(sorted(versions))}, {arguments.device}, "
          f"{arguments.threads} threads, {platform.machine()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
