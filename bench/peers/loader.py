#!/usr/bin/env python3
"""The loader beside PyTorch's: MNIST (uint8 to normalised float) and CIFAR-10 (cropped, flipped,
normalised), batches of 64, shuffled, images of noise in memory. PyTorch's DataLoader reads them as
torchvision's datasets do, with its best number of workers, whose start is not counted; and, as
`by hand`, MNIST without a DataLoader, whole batches being indexed out of one tensor.

usage: loader.py BENCH_LOADER [MOST_WORKERS [ROUNDS]]    bench_loader, PyTorch's workers (4), rounds
of taking turns (3)

Run with a Python that has PyTorch, torchvision and Pillow.
"""
import json
import os
import statistics
import subprocess
import sys
import time

BATCH = 64


def datasets(torch, torchvision, image, numpy):
    """Each workload's data set: __getitem__ is that of torchvision's MNIST and CIFAR10."""
    transforms = torchvision.transforms

    class Images(torch.utils.data.Dataset):
        def __init__(self, data, mode, transform):
            self.data, self.mode, self.transform = data, mode, transform
            self.targets = [i % 10 for i in range(len(data))]

        def __len__(self):
            return len(self.data)

        def __getitem__(self, index):
            picture = image.fromarray(self.data[index], mode=self.mode)
            return self.transform(picture), self.targets[index]

    noise = numpy.random.default_rng(1)
    digits = noise.integers(0, 256, (20000, 28, 28), dtype=numpy.uint8)
    photos = noise.integers(0, 256, (20000, 32, 32, 3), dtype=numpy.uint8)
    normalize = transforms.Normalize((0.5, 0.5, 0.5), (0.3, 0.3, 0.3))
    return {
        "mnist": Images(digits, "L", transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])),
        "cifar": Images(photos, "RGB", transforms.Compose(
            [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
             transforms.ToTensor(), normalize])),
    }


def epoch_rate(batches):
    start, images = time.perf_counter(), 0
    for x, _ in batches:
        images += len(x)
    return images / (time.perf_counter() - start)


def loader_rate(torch, dataset, workers):
    """Of the second epoch, when workers have been started."""
    loader = torch.utils.data.DataLoader(dataset, BATCH, shuffle=True, num_workers=workers,
                                         persistent_workers=workers > 0)
    for _ in zip(range(2), loader):
        pass
    return epoch_rate(loader)


def by_hand(torch, dataset):
    x = torch.from_numpy(dataset.data).unsqueeze(1)
    y = torch.tensor(dataset.targets)
    for index in torch.randperm(len(x)).split(BATCH):
        yield x[index].float().div_(255).sub_(0.1307).div_(0.3081), y[index]


def wick_rates(program, name):
    """By workload and workers; for training, the ratio and the seconds of a step."""
    report = subprocess.run([program, name], check=True, capture_output=True, text=True).stdout
    for row in map(json.loads, report.splitlines()):
        if name == "training":
            yield "ratio", row["loaded_over_in_memory"]
            yield "step", row["step_seconds_in_memory"]
        else:
            yield row["workers"], row["images_per_second"]


def medians(rounds):
    """Of each key's values in rounds of (key, value) pairs."""
    found = {}
    for pairs in rounds:
        for key, value in pairs:
            found.setdefault(key, []).append(value)
    return {key: statistics.median(values) for key, values in found.items()}


def main():
    import warnings

    import numpy
    import torch
    import torchvision
    from PIL import Image

    warnings.filterwarnings("ignore")  # on more workers than cores, which are tried on purpose
    program = sys.argv[1]
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    print(f"images per second, medians of {rounds} rounds in turns; PyTorch {torch.__version__}, "
          f"torchvision {torchvision.__version__}; load average {os.getloadavg()[0]:.1f}")
    print(f"{'':8} {'wick':>12} {'workers':>8} {'PyTorch':>12} {'workers':>8} {'ratio':>7}")
    for name, dataset in datasets(torch, torchvision, Image, numpy).items():
        each = [(list(wick_rates(program, name)),
                 [(workers, loader_rate(torch, dataset, workers)) for workers in [0, 1, 2, most]])
                for _ in range(rounds)]
        ours, theirs = (medians(side) for side in zip(*each))
        own, best = (max(rates, key=rates.get) for rates in (ours, theirs))
        print(f"{name:8} {ours[own]:12,.0f} {own if own >= 0 else 'auto':>8} "
              f"{theirs[best]:12,.0f} {best:8} {ours[own] / theirs[best]:7.1f}")
        print(f"{'':8} wick by workers (-1: auto): " +
              ", ".join(f"{w}: {rate:,.0f}" for w, rate in ours.items()))
        print(f"{'':8} PyTorch by workers: " +
              ", ".join(f"{w}: {rate:,.0f}" for w, rate in theirs.items()))
        if name == "mnist":
            rate = max(epoch_rate(by_hand(torch, dataset)) for _ in range(3))
            print(f"{'':8} PyTorch by hand: {rate:,.0f}")
    training = medians(list(wick_rates(program, "training")) for _ in range(rounds))
    print(f"a training step with loaded data takes {training['ratio']:.3f} of one on data in "
          f"memory ({1e3 * training['step']:.1f} ms); load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
