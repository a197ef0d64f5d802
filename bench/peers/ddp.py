#!/usr/bin/env python3
"""Training steps of 1 and 2 ranks of this machine beside PyTorch's DistributedDataParallel with
Gloo, in turns: milliseconds, medians, and the medians and quartiles of each pair's ratio. All ranks
together have the same images per step and share --threads, each having at least one. Then what the
wrapper costs at one rank, beside the plain model in turns, what DataParallel with two replicas on
the CPU costs so, and which part of the exchange of gradients happened before the last of them was
there. --trace FOLDER leaves a picture of one step of 2 ranks there, WORKLOAD.json, for Perfetto or
chrome://tracing.

usage: ddp.py [--python PATH] [--bench PATH] [--rounds 7] [--threads 2]
              [--workloads mlp,resnet18] [--trace FOLDER]

PATH of --python is the interpreter whose torch is the peer (default: this one).
"""
import argparse
import itertools
import json
import multiprocessing.connection
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Images per step of all ranks, and steps of one turn.
WORKLOADS = {"mlp": (128, 30), "resnet18": (32, 2)}


def torch_rank(workload, images, threads):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{os.environ['TORCH_FILE']}", rank=rank,
                            world_size=ranks)
    if workload == "mlp":
        nn = torch.nn
        model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                              nn.Linear(512, 10))
        x = torch.randn(images, 784)
    else:
        from torch_resnet import resnet

        model = resnet(18, classes=10, small_input=True).to(memory_format=torch.channels_last)
        x = torch.randn(images, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    target = torch.randint(0, 10, (images,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    loss_function = torch.nn.CrossEntropyLoss()
    print("ready", torch.__version__, flush=True)
    for line in sys.stdin:
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(int(line.split()[1])):
            optimizer.zero_grad(set_to_none=True)
            loss_function(model(x), target).backward()
            optimizer.step()
        print(time.perf_counter() - begin, flush=True)


class Ranks:
    """Processes that do the same; none of them outlives it."""

    def __init__(self, command, count, threads, variables):
        self.processes = []
        try:
            for rank in range(count):
                environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank),
                                   WORLD_SIZE=str(count), **variables)
                self.processes.append(subprocess.Popen(
                    [*command, str(max(1, threads // count))], env=environment, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            self.version = self.answers()[0].split()[-1]
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def answers(self):
        """A line of each rank. If one ends instead, nobody waits for the others."""
        lines = {}
        while len(lines) < len(self.processes):
            open_pipes = {p.stdout: rank for rank, p in enumerate(self.processes)
                          if rank not in lines}
            for pipe in multiprocessing.connection.wait(list(open_pipes)):
                rank = open_pipes[pipe]
                lines[rank] = pipe.readline()
                if not lines[rank]:  # why, it has said on standard error
                    process = self.processes[rank]
                    raise SystemExit(f"ddp.py: rank {rank} of {len(self.processes)} of "
                                     f"{process.args[0]} ended with exit code {process.wait()}")
        return [line for _, line in sorted(lines.items())]

    def ask(self, what, *arguments):
        """The largest of what they answer. All have the same argument, or each its own."""
        for process, argument in zip(self.processes, itertools.cycle(arguments)):
            try:
                process.stdin.write(f"{what} {argument}\n")
                process.stdin.flush()
            except BrokenPipeError:  # it has ended, which answers() tells
                pass
        return max(float(line) for line in self.answers())

    def end(self):
        for process in self.processes:
            process.kill()
            process.communicate()


def in_turns(a, b, rounds):
    """Medians of what a() and b() return in turns; of b's shares of a, median and quartiles."""
    a(), b()  # first runs allocate and plan
    pairs = [(a(), b()) for _ in range(rounds)]
    ratios = statistics.quantiles([y / x for x, y in pairs], n=4, method="inclusive")
    return *(statistics.median(side) for side in zip(*pairs)), ratios


def own_figures(ranks, workload, count, steps, rounds):
    """Sentences on what the wrapper costs, or what happens at the same time."""
    what = "plain" if count == 1 else "sharded"
    _, _, (low, ratio, high) = in_turns(lambda: ranks.ask(what, steps),
                                        lambda: ranks.ask("run", steps), rounds)
    if count == 1:
        _, _, (least, times, most) = in_turns(lambda: ranks.ask("plain", steps),
                                              lambda: ranks.ask("replicas", steps), rounds)
        return [f"{workload}: DataParallel with two replicas takes {times:.3f} of the plain "
                f"model's time ({least:.3f} to {most:.3f})",
                f"{workload}: the wrapper at one rank takes {ratio:.4f} of the plain model's time "
                f"({low:.4f} to {high:.4f})"]
    share, in_graphs = ranks.ask("overlap", 5), ranks.ask("compiled_overlap", 5)
    _, _, (least, compiled, most) = in_turns(lambda: ranks.ask("run", steps),
                                             lambda: ranks.ask("compiled", steps), rounds)
    return [f"{workload}: with the optimizer's state shared by 2 ranks a step takes "
            f"{1 / ratio:.2f} of the time ({1 / high:.2f} to {1 / low:.2f})",
            f"{workload}: a compiled step of 2 ranks takes {compiled:.4f} of the time "
            f"({least:.4f} to {most:.4f})",
            f"{workload}: {100 * share:.0f} % of the exchange of 2 ranks happens before the last "
            f"gradient is there, {100 * in_graphs:.0f} % in compiled steps"]


def write_trace(ranks, path):
    with tempfile.TemporaryDirectory() as folder:
        parts = [pathlib.Path(folder, str(rank)) for rank in range(len(ranks.processes))]
        ranks.ask("trace", *parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(sum((json.loads(part.read_text()) for part in parts), [])))


def main():
    if sys.argv[1:2] == ["--torch-rank"]:
        return torch_rank(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bench", default=str(ROOT / "build/release/bin/bench_ddp"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2, help="of all ranks together")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--trace", type=pathlib.Path)
    arguments = parser.parse_args()
    others = []
    print(f"{'milliseconds per step':24}{'wick':>10}{'PyTorch':>10}{'ratio':>8}  quartiles")
    for workload in arguments.workloads.split(","):
        images, steps = WORKLOADS[workload]
        for count in (1, 2):
            words = [workload, str(images // count)]
            with tempfile.TemporaryDirectory() as folder:
                files = {"WICK_RENDEZVOUS_FILE": folder + "/wick", "TORCH_FILE": folder + "/torch"}
                with Ranks([arguments.bench, *words], count, arguments.threads, files) as ours:
                    peer = [arguments.python, __file__, "--torch-rank", *words]
                    with Ranks(peer, count, arguments.threads, files) as theirs:
                        version = theirs.version
                        a, b, (low, ratio, high) = in_turns(lambda: ours.ask("run", steps),
                                                            lambda: theirs.ask("run", steps),
                                                            arguments.rounds)
                    print(f"{workload + f', {count} ranks':24}{1e3 * a / steps:10.2f}"
                          f"{1e3 * b / steps:10.2f}{ratio:8.2f}  {low:.2f} to {high:.2f}",
                          flush=True)
                    others += own_figures(ours, workload, count, steps, 2 * arguments.rounds)
                    if arguments.trace and count > 1:
                        write_trace(ours, arguments.trace / f"{workload}.json")
    print("\n".join(others))
    print(f"PyTorch {version}, {arguments.threads} threads in all, load {os.getloadavg()[0]:.1f}")
    return None


if __name__ == "__main__":
    sys.exit(main())
