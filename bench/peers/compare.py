#!/usr/bin/env python3
"""Runs the same workloads in Wick and in PyTorch, taking turns (A B A B) in one run, and prints
each figure's median and the ratio of every pair: their median and quartiles.

  bench/peers/compare.py [--python PATH] [--workloads A,B] [--threads 2] [--seconds 10]
                         [--device cpu|cuda] [--styles tuned,written,compiled,own,onednn]
                         [--busy N] [--json FILE]

PATH is the interpreter whose torch is the peer (default /usr/bin/python3: Debian's). A ratio above
1 says Wick is faster, or for memory that it needs less. Styles are ways to write it in PyTorch
(torch_peer.py says which; what two of them do not change runs in one); of torch.compile's modes,
and for inference also of frozen ones and TorchScript, the fastest is taken. The bound is what the
GPU could do at most, by the faster of both libraries' copies, matrix products and small kernels,
replayed as a graph, in this run. `_graph`: a step that both capture by hand and replay.
`_compiled`: Wick's step by graph::compile_step; beside it style `own` is Wick's eager one. Style
`onednn` has products by oneDNN beside Wick's. A workload may be a pattern: 'product_*'. ResNets
have more rows: the seconds from a program's start to the end of its first step, the peak memory of
later ones, and on a GPU how often those asked the driver for memory.

--busy N lets N processes spin beside, as other programs of a machine that is not idle.
"""

import argparse
import concurrent.futures
import datetime
import fnmatch
import json
import math
import os
import pathlib
import platform
import select
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Iterations of one turn, and what a workload's time is divided by for its rate.
WORKLOADS = {
    "resnet18_32_b128": (1, 128, "images/s"),
    "resnet18_224_b16": (1, 16, "images/s"),
    "resnet18_infer_224_b1": (20, 1, "images/s"),
    "resnet18_32_b128_bf16": (1, 128, "images/s"),
    "resnet18_224_b16_bf16": (1, 16, "images/s"),
    "article_001": (1, 128, "images/s"),
    "article_001_tuned": (1, 128, "images/s"),
    "mlp_b64": (200, 64, "images/s"),
    "mlp_b64_compiled": (200, 64, "images/s"),
    "resnet18_32_b128_compiled": (1, 128, "images/s"),
    "encoder_6": (1, 8, "sequences/s"),
    "encoder_6_compiled": (1, 8, "sequences/s"),
    "lstm_2x512": (1, 64 * 32, "steps/s"),
    "gru_2x512": (1, 64 * 32, "steps/s"),
    "embedding_1m": (2, 1, "steps/s"),
    "embedding_1m_sparse": (50, 1, "steps/s"),
    "add_1k": (10000, 1, "/s"),
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
OPTIONAL |= {f"attention_{length}{bits}{backward}": (2, 2048, "tokens/s")
             for length in (128, 512, 1024, 2048, 4096)
             for bits in ("", "_bf16") for backward in ("", "_backward")}
# Matrix products of [m, k] and [k, n], of which t says that it lies transposed: squares, linear
# layers forward and backward, heads of attention, convolutions as products, few rows or columns.
PRODUCTS = ("128x128x128nn 256x256x256nn 512x512x512nn 512x512x512nt 1024x1024x1024nn "
            "1024x1024x1024tn 2048x2048x2048nn 64x512x784nt 64x512x512nt 64x512x512nn 64x10x512nt "
            "512x784x64tn 512x512x64tn 1024x3072x768nt 1024x768x3072nt 1024x768x768nt "
            "768x3072x1024tn 197x197x64nt 197x64x197nn 512x512x64nt 16384x64x576nn 4096x128x1152nn "
            "1024x256x2304nn 256x512x4608nn 64x576x16384tn 1x4096x4096nt 8x1024x1024nt "
            "4096x8x1024nn 1000x1000x16nn 33x67x129nn").split()
OPTIONAL |= {f"product_{sizes}{bits}": (max(1, 10**10 // work), 2 * work, "FLOP/s")
             for sizes in PRODUCTS for work in [math.prod(map(int, sizes[:-2].split("x")))]
             for bits in ("", "_bf16")}

CEILINGS = {"ceiling_matmul": (10, 2 * 8192**3, "FLOP/s"),
            "ceiling_copy": (10, 2 * 4 * 2**28, "bytes/s"),
            "ceiling_launch": (10, 1000, "kernels/s")}


def least(flops=0, size=0, kernels=0):
    """What a unit of a workload needs at least, by the ceiling that bounds it."""
    return {"ceiling_matmul": flops, "ceiling_copy": size, "ceiling_launch": kernels}


# As above, and what a unit needs at least. A ResNet's step: the matrix products of a forward and a
# backward pass, and the bytes of its activations where convolutions are fused with their norms. The
# small network's: ten kernels, one after the other. A row operation's, forward and backward: each
# tensor that is given or wanted moved once; of cross entropy, logits and their gradients.
ELEMENTS = 8192 * 4096
LOGITS = 8192 * 50257
GPU_WORKLOADS = {
    "resnet50_224_b256_bf16": (10, 256, "images/s", least(24.30e9, 263e6)),
    "resnet18_224_b128_bf16": (20, 128, "images/s", least(10.65e9, 52e6)),
    "resnet18_32_b128_bf16": (20, 128, "images/s", least(3.33e9, 14.2e6)),
    "resnet50_224_b256_bf16_graph": (10, 256, "images/s", least(24.30e9, 263e6)),
    "resnet18_224_b128_bf16_graph": (20, 128, "images/s", least(10.65e9, 52e6)),
    "resnet18_32_b128_bf16_graph": (20, 128, "images/s", least(3.33e9, 14.2e6)),
    "article_001": (1, 128, "images/s", {}),
    "article_001_tuned": (1, 128, "images/s", {}),
    "mlp_b64": (200, 64, "images/s", least(3.3e6, 0.32e6, 10 / 64)),
    "mlp_b64_graph": (200, 64, "images/s", least(3.3e6, 0.32e6, 10 / 64)),
    "adamw_100m": (100, 105e6, "parameters/s", least(size=28)),
    "adamw_1000_tensors": (100, 1e6, "parameters/s", {}),  # which caches hold
    "softmax_bf16_backward": (200, 1, "/s", least(size=5 * 2 * ELEMENTS)),
    "layer_norm_bf16_backward": (200, 1, "/s", least(size=5 * 2 * ELEMENTS)),
    "gelu_bf16_backward": (200, 1, "/s", least(size=5 * 2 * ELEMENTS)),
    "cross_entropy_50257_bf16_backward": (50, 1, "/s", least(size=2 * 2 * LOGITS)),
    "allocator_pair": (10, 1000, "/s", {}),
    "add_1k": (10000, 1, "/s", {}),
}
STYLES = ("tuned", "written", "compiled", "own", "onednn")
LIBRARIES = {"own": "Wick", "onednn": "oneDNN"}  # of the peer, by style
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune")
INFERENCE_MODES = ("default", "default-freezing", "max-autotune", "max-autotune-freezing", "jit")
# Seconds. The first answer comes after a step, for which a GPU's engines are tried; who compiles
# may take as long as the CPU.
FIRST_ANSWER_WITHIN = {"cuda": 150, "cpu": 300}
ANSWERS_WITHIN = {"cuda": 60, "cpu": 300}

FAILURES = (RuntimeError, BrokenPipeError, ValueError)  # of a peer that ends or says other things


class Peer:
    """A program that answers each line with one. Between answers it is stopped, with all that it
    started: workers that load ahead would take the cores from whoever's turn it is."""

    live = set()

    def __init__(self, command, device, environment=None):
        self.answers_within = FIRST_ANSWER_WITHIN[device]
        begin = time.monotonic()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True, env=os.environ | (environment or {}))
        Peer.live.add(self)
        try:
            self.version = self.read().split()[-1]
            self.start_seconds = time.monotonic() - begin  # with a first iteration
            self.signal(signal.SIGSTOP)
            self.answers_within = ANSWERS_WITHIN[device]
        except BaseException:
            self.end()
            raise

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def read(self):
        if not select.select([self.process.stdout], [], [], self.answers_within)[0]:
            raise RuntimeError(f"no answer within {self.answers_within} s")
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
        Peer.live.discard(self)


class Busy:
    """Processes that spin as long as this lasts."""

    live = []

    def __init__(self, count):
        for _ in range(count):
            Busy.live.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in Busy.live:
            process.kill()
            process.wait()


def end_all(*_):
    """As a program that is told to end; what it started would go on."""
    for peer in list(Peer.live):
        peer.signal(signal.SIGKILL)
    for process in Busy.live:
        process.kill()
    os._exit(143)


def start_wick(workload, arguments):
    command = [arguments.wick, workload, str(arguments.threads), arguments.device]
    return Peer(command, arguments.device)


def start_onednn(workload, arguments):
    program = pathlib.Path(arguments.wick).with_name("onednn_peer")
    peer = Peer([str(program), workload], arguments.device,
                {"OMP_NUM_THREADS": str(arguments.threads)})
    peer.style = "onednn"
    return peer


def start_torch(workload, style, arguments):
    command = [arguments.python, str(HERE / "torch_peer.py"), workload, str(arguments.threads),
               arguments.device, style]
    compiles = style.startswith("compiled")
    peer = Peer(command, "cpu" if compiles else arguments.device)
    peer.style = style
    return peer


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def fastest_mode(workload, iterations, arguments):
    """The peer in torch.compile's mode that is the fastest here. All modes compile at once."""
    failed = []

    def compiled(mode):
        try:
            return start_torch(workload, f"compiled:{mode}", arguments)
        except FAILURES as error:
            failed.append(f"{mode}: {error}")
            return None

    with concurrent.futures.ThreadPoolExecutor() as pool:
        modes = INFERENCE_MODES if "_infer_" in workload else COMPILE_MODES
        peers = [peer for peer in pool.map(compiled, modes) if peer]
    seconds = {}
    for peer in peers:
        try:
            peer.ask(f"run {iterations}")
            seconds[peer] = min(peer.ask(f"run {iterations}") for _ in range(3))
        except FAILURES as error:
            failed.append(f"{peer.style}: {error}")
            peer.end()
    if not seconds:
        raise RuntimeError("no mode of torch.compile works: " + "; ".join(failed))
    for text in failed:
        print(f"{workload:34} compiled         left out: {text}", flush=True)
    best = min(seconds, key=seconds.get)
    for peer in seconds:
        if peer is not best:
            peer.end()
    return best


def bound_of(workload, ceilings):
    """The least seconds that a unit of the workload can take, or None."""
    needs = GPU_WORKLOADS[workload][3] if workload in GPU_WORKLOADS else {}
    needs = {name: amount for name, amount in needs.items() if amount}
    if not needs or not needs.keys() <= ceilings.keys():
        return None
    return max(amount / ceilings[name] for name, amount in needs.items())


def peer_of(workload, style, arguments):
    if style == "compiled":
        return fastest_mode(workload, known(arguments.device)[workload][0], arguments)
    if style == "own":
        peer = start_wick(workload.removesuffix("_compiled"), arguments)
        peer.style = style
        return peer
    if style == "onednn":
        return start_onednn(workload, arguments)
    return start_torch(workload, style, arguments)


def compare(workload, style, arguments, ceilings):
    """The rows of one workload."""
    with start_wick(workload, arguments) as ours, \
            peer_of(workload, style, arguments) as theirs:
        style = theirs.style
        yield time_pairs(workload, style, ours, theirs, arguments, ceilings)
        if not workload.startswith("resnet"):
            return

        def row(what, unit, values):
            ratio = values[1] / values[0] if values[0] else None
            return {"workload": f"{workload} {what}", "style": style, "unit": unit,
                    "ours": values[0], "peer": values[1], "ratio": ratio,
                    "interval": [ratio] * 2, "pairs": 1, "bound": None, "fraction": None}

        peers = (ours, theirs)
        if not style.startswith("compiled"):  # whose modes compiled at once
            yield row("start", "s", [peer.start_seconds for peer in peers])
        yield row("peak memory", "MB", [peer.ask("memory") / 1e6 for peer in peers])
        if arguments.device == "cuda":
            yield row("requests", "calls", [peer.ask("requests") - peer.requests for peer in peers])


def time_pairs(workload, style, ours, theirs, arguments, ceilings):
    iterations, units, unit = known(arguments.device)[workload][:3]
    for peer in (ours, theirs):
        peer.ask(f"run {iterations}")  # first runs allocate, plan and page in
        if arguments.device == "cuda":
            peer.requests = peer.ask("requests")
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
    bound = bound_of(workload, ceilings)
    return {"workload": workload, "style": style, "unit": unit, "ours": rate[0],
            "peer": rate[1], "ratio": ratio, "interval": [low, high], "pairs": len(pairs),
            "bound": 1 / bound if bound else None,
            "fraction": rate[0] * bound if bound else None,
            "version": f"{LIBRARIES.get(style, 'PyTorch')} {theirs.version}"}


def has_style(workload, style):
    """Whether that is another way to write the workload than the tuned one."""
    if style == "own":
        return workload.endswith("_compiled")
    if style == "onednn":
        return workload.startswith("product_")
    if style == "written":
        return workload.startswith(("resnet", "mlp", "adamw")) and not workload.endswith("_graph")
    return style == "tuned" or not (workload in ("allocator_pair", "add_1k")
                                    or workload.startswith("article")
                                    or workload.endswith("_graph"))


def known(device):
    """By name, as `device` runs them."""
    if device == "cuda":
        return WORKLOADS | OPTIONAL | GPU_WORKLOADS | CEILINGS
    return GPU_WORKLOADS | WORKLOADS | OPTIONAL | CEILINGS


def show(row):
    low, high = row["interval"]
    ratio = "     -" if row["ratio"] is None else f"{row['ratio']:6.2f}"
    bound = f"{row['bound']:12.4g} {row['fraction']:5.0%}" if row["bound"] else " " * 18
    quarter = f"{low:.2f} to {high:.2f} " if row["pairs"] > 1 else ""
    print(f"{row['workload']:34} {row['style']:16} {row['ours']:11.4g} {row['peer']:11.4g} "
          f"{ratio} {bound}  {quarter}{row['unit']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--wick", default=str(ROOT / "build/release/bin/wick_peer"))
    parser.add_argument("--workloads", help="names, with commas between (default: all)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--styles", default="tuned", help="of the peer, with commas between")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10, help="of each pair of peers")
    parser.add_argument("--busy", type=int, default=0, help="processes that spin beside")
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--ceilings", help="results of an earlier run here, whose ceilings hold")
    arguments = parser.parse_args()
    usual = GPU_WORKLOADS if arguments.device == "cuda" else WORKLOADS
    names = [] if arguments.workloads else list(usual)
    for pattern in arguments.workloads.split(",") if arguments.workloads else ():
        found = fnmatch.filter(known(arguments.device), pattern)
        if not found:
            parser.error(f"unknown workload: {pattern}; known: "
                         f"{', '.join(known(arguments.device))}")
        names += found
    styles = arguments.styles.split(",")
    for style in styles:
        if style not in STYLES:
            parser.error(f"unknown style: {style}; known: {', '.join(STYLES)}")

    signal.signal(signal.SIGTERM, end_all)
    results, ceilings, failed = [], {}, 0

    def keep(row):
        show(row)
        results.append(row)
        if arguments.json:  # at once: who is stopped keeps what was measured
            part = arguments.json + ".part"
            with open(part, "w") as file:
                json.dump({"date": datetime.date.today().isoformat(), "results": results,
                           "threads": arguments.threads, "device": arguments.device,
                           "busy": arguments.busy}, file, indent=1)
            os.replace(part, arguments.json)

    print(f"{'workload':34} {'style':16} {'Wick':>11} {'peer':>11} {'ratio':>6} "
          f"{'bound':>12} {'of it':>5}  quartiles")
    if arguments.ceilings and os.path.exists(arguments.ceilings):
        for row in json.loads(pathlib.Path(arguments.ceilings).read_text())["results"]:
            if row["workload"] in CEILINGS:
                ceilings[row["workload"]] = max(row["ours"], row["peer"])
    work = [(name, "tuned") for name in CEILINGS
            if arguments.device == "cuda" and name not in ceilings]
    work += [(name, style) for style in styles for name in names if has_style(name, style)]
    with Busy(arguments.busy):
        for name, style in work:
            try:
                for row in compare(name, style, arguments, ceilings):
                    keep(row)
                    if name in CEILINGS:
                        ceilings[name] = max(row["ours"], row["peer"])
            except FAILURES as error:  # the rest goes on
                print(f"{name:34} {style:16} failed: {error}", flush=True)
                failed += 1
    for style in dict.fromkeys(row["style"] for row in results):
        ratios = [row["ratio"] for row in results if row["style"] == style and row["pairs"] > 1]
        if len(ratios) > 1:
            print(f"{style}: geometric mean of {len(ratios)} ratios "
                  f"{statistics.geometric_mean(ratios):.2f}, lowest {min(ratios):.2f}")
    versions = {row["version"] for row in results if "version" in row}
    print(f"{', '.join(sorted(versions))}, {arguments.device}, "
          f"{arguments.threads} threads, {platform.machine()}"
          + (f", beside {arguments.busy} busy processes" if arguments.busy else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
