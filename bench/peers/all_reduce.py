#!/usr/bin/env python3
"""All-reduce of float32 between two processes of this machine, beside torch.distributed with Gloo:
microseconds, the medians of rounds in turns. Then the memory traffic at the largest size beside
what two processes reach at once in a triad (a = b + 3 c).

usage: all_reduce.py BENCH_ALL_REDUCE [LARGEST [ROUNDS]]    megabytes (256), rounds (3)

Run with a Python that has PyTorch; WICK_NO_SHARED_MEMORY=1 measures wick over TCP.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

RANKS = 2


def torch_rank():
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"file://{os.environ['TORCH_FILE']}", rank=rank,
                            world_size=RANKS)
    for line in sys.stdin:
        _, size, repetitions = line.split()
        x = torch.zeros(int(size) // 4)
        times = []
        dist.barrier()
        for i in range(int(repetitions) + 2):
            begin = time.perf_counter()
            dist.all_reduce(x)
            if i >= 2:
                times.append(time.perf_counter() - begin)
        print(1e6 * statistics.median(times), flush=True)


class Ranks:
    """Two processes that do the same."""

    def __init__(self, command, **variables):
        self.processes = []
        for rank in range(RANKS):
            environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank),
                               WORLD_SIZE=str(RANKS), **variables)
            self.processes.append(subprocess.Popen(command, env=environment, text=True,
                                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def do(self, what, size, repetitions):
        for process in self.processes:
            process.stdin.write(f"{what} {size} {repetitions}\n")
            process.stdin.flush()
        return [float(process.stdout.readline()) for process in self.processes]

    def end(self):
        for process in self.processes:
            process.stdin.close()
            process.wait()


def named(size):
    for unit, name in ((1 << 20, "MB"), (1 << 10, "kB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def main():
    if sys.argv[1:] == ["--torch-rank"]:
        return torch_rank()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    largest = int(sys.argv[2] if len(sys.argv) > 2 else 256) << 20
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        wick = Ranks([sys.argv[1]], WICK_RENDEZVOUS_FILE=str(folder / "wick"))
        torch = Ranks([sys.executable, __file__, "--torch-rank"], TORCH_FILE=str(folder / "torch"))
        sizes = [1 << n for n in range(10, largest.bit_length(), 3) if 1 << n < largest] + [largest]
        print(f"all_reduce of {RANKS} processes, float32, microseconds; {rounds} rounds")
        print(f"{'':>8}{'wick':>12}{'PyTorch':>12}{'ratio':>8}")
        for size in sizes:
            repetitions = max(3, min(200, (64 << 20) // size))
            ours, theirs = [], []
            for _ in range(rounds):
                ours.append(max(wick.do("reduce", size, repetitions)))
                theirs.append(max(torch.do("reduce", size, repetitions)))
            a, b = statistics.median(ours), statistics.median(theirs)
            print(f"{named(size):>8}{a:>12.1f}{b:>12.1f}{b / a:>8.2f}", flush=True)
        triads = [sum(wick.do("triad", 256 << 20, 5)) for _ in range(rounds)]
        triad = statistics.median(triads)
        print(f"triad of {RANKS} processes at once: {triad / 1e9:.1f} GB/s")
        # Each rank reads and writes its tensor; it hands over what the other reduces, and gets
        # back what the other has reduced: a half each, written once and read once.
        tensors, messages = RANKS * 2 * largest, RANKS * 2 * largest
        for what, count in (("the tensors", tensors), ("tensors and messages", tensors + messages)):
            rate = count / (a * 1e-6)
            print(f"{named(largest)}: {rate / 1e9:.1f} GB/s of {what}, {100 * rate / triad:.0f} % "
                  "of the triad")
        wick.end()
        torch.end()
    return None


if __name__ == "__main__":
    sys.exit(main())
