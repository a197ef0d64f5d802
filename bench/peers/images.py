#!/usr/bin/env python3
"""From JPEG files of 500 x 375 pixels to normalised images of 224 x 224, beside torchvision:
images per second on one core, the medians of rounds in turns.

usage: images.py BENCH_IMAGES [SECONDS [ROUNDS]]    bench_images, seconds per measurement (0.5),
rounds of taking turns (5)

Run with a Python that has PyTorch, torchvision and Pillow.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def write_images(folder, count=16):
    """Made to be as hard to compress as photographs are: some 50 kilobytes each."""
    import numpy
    from PIL import Image

    noise = numpy.random.default_rng(1)
    for i in range(count):
        pixels = numpy.zeros((375, 500, 3))
        for size, weight in [(4, 90), (12, 60), (40, 40), (120, 22), (375, 8)]:
            patch = Image.fromarray(noise.integers(0, 256, (size, size, 3), dtype=numpy.uint8))
            large = numpy.asarray(patch.resize((500, 375), Image.BICUBIC))
            pixels += (large - 128.0) / 128 * weight
        image = Image.fromarray(numpy.clip(pixels + 128, 0, 255).astype(numpy.uint8))
        image.save(folder / f"{i}.jpg", quality=90)
    return sorted(folder.glob("*.jpg"))


def rate(function, paths, seconds):
    count, begin = 0, time.perf_counter()
    while True:
        function(paths[count % len(paths)])
        count += 1
        passed = time.perf_counter() - begin
        if passed > seconds:
            return count / passed


def peers():
    import torch
    import torchvision
    from PIL import Image
    from torchvision.transforms import v2

    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    normalize = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]
    cuts = {"train": [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()],
            "test": [v2.Resize(256, antialias=True), v2.CenterCrop(224)]}

    def pillow(cut):
        chain = v2.Compose([*cuts[cut], v2.PILToTensor(), *normalize])
        return lambda path: chain(Image.open(path).convert("RGB"))

    def tensors(cut):
        chain = v2.Compose([*cuts[cut], *normalize])
        return lambda path: chain(torchvision.io.decode_jpeg(torchvision.io.read_file(str(path))))

    return {cut: {"Pillow": pillow(cut), "decode_jpeg": tensors(cut)} for cut in cuts}


def main():
    import torch
    import torchvision

    program = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.5
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "train" / "a"
        folder.mkdir(parents=True)
        paths = write_images(folder)
        sizes = sum(path.stat().st_size for path in paths) / len(paths)
        found = {}
        for _ in range(rounds):
            for way in ("train", "test", "whole", "decode"):
                done = subprocess.run([program, way, name, str(seconds)], check=True,
                                      capture_output=True, text=True)
                found.setdefault(("wick", way), []).append(float(done.stdout))
            for way, functions in peers().items():
                for label, function in functions.items():
                    found.setdefault((label, way), []).append(rate(function, paths, seconds))
    rates = {key: statistics.median(values) for key, values in found.items()}
    print(f"images per second on one core, {sizes / 1000:.0f} kB each; torchvision "
          f"{torchvision.__version__}; load average {os.getloadavg()[0]:.1f}")
    print(f"{'':8} {'wick':>8} {'Pillow':>8} {'decode_jpeg':>12} {'ratio':>7}")
    for way in ("train", "test"):
        pillow, tensors = rates["Pillow", way], rates["decode_jpeg", way]
        own = rates["wick", way]
        print(f"{way:8} {own:8.0f} {pillow:8.0f} {tensors:12.0f} {own / max(pillow, tensors):7.1f}")
    print(f"train, all decoded first {rates['wick', 'whole']:.0f}; decoding alone "
          f"{rates['wick', 'decode']:.0f}")


if __name__ == "__main__":
    main()
