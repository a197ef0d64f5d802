#!/usr/bin/env python3
"""Transforms of images beside torchvision's: images per second of one core's time, 224 x 224 and
32 x 32 pixels of three channels, the better of torchvision's on uint8 tensors and on Pillow's
images.

usage: transforms.py WICK_BENCH [SECONDS]    wick-bench, and seconds per measurement (0.2)

Run with a Python that has PyTorch, torchvision and Pillow.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def peers(side):
    """Each transform's name, and its ways in torchvision."""
    import numpy
    import torch
    from PIL import Image
    from torchvision.transforms import functional as f
    from torchvision.transforms import v2

    noise = numpy.random.default_rng(1)
    pixels = noise.integers(0, 256, (side, side, 3), dtype=numpy.uint8)
    photo = noise.integers(0, 256, (375, 500, 3), dtype=numpy.uint8)
    batch = torch.zeros(64, 3, side, side, dtype=torch.uint8)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    normalize = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)])
    # v2's crop and flip of a batch do the same to all its images.
    whole_batch = v2.Compose([v2.RandomCrop(side, side // 8), v2.RandomHorizontalFlip(), normalize])

    functions = {
        "brightness": lambda x: f.adjust_brightness(x, 1.3),
        "contrast": lambda x: f.adjust_contrast(x, 1.3),
        "saturation": lambda x: f.adjust_saturation(x, 1.3),
        "hue": lambda x: f.adjust_hue(x, 0.1),
        "sharpness": lambda x: f.adjust_sharpness(x, 1.3),
        "grayscale": lambda x: f.to_grayscale(x, 3) if isinstance(x, Image.Image)
        else f.rgb_to_grayscale(x, 3),
        "autocontrast": f.autocontrast,
        "equalize": f.equalize,
        "solarize": lambda x: f.solarize(x, 178.5),
        "posterize": lambda x: f.posterize(x, 5),
        "rotate": lambda x: f.rotate(x, 9),
        "horizontal_flip": f.hflip,
        "vertical_flip": f.vflip,
        "random_crop": v2.RandomCrop(side, side // 8),
        "random_resized_crop": v2.RandomResizedCrop(side, antialias=True),
        "color_jitter": v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
        "random_erasing": v2.RandomErasing(1.0),
        "randaugment": v2.RandAugment(),
    }
    tensor = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
    image = Image.fromarray(pixels)
    for name, function in functions.items():
        ways = [lambda function=function: function(tensor)]
        if name != "random_erasing":  # which takes tensors only
            ways.append(lambda function=function: function(image))
        yield name, 1, ways
    photo_tensor = torch.from_numpy(photo).permute(2, 0, 1)  # channels last, the faster layout
    photo_image = Image.fromarray(photo)
    yield "resize", 1, [lambda: v2.functional.resize(photo_tensor, [side], antialias=True),
                        lambda: f.resize(photo_image, [side])]
    yield "normalize", 1, [lambda: normalize(tensor),
                           lambda: f.normalize(f.to_tensor(image), mean, std)]
    yield "batch_crop_flip_normalize", 64, [lambda: whole_batch(batch)]


def rate(function, seconds):
    """Calls per second of processor time, as wick-bench counts: the median of three."""
    function()
    rates = []
    for _ in range(3):
        calls, start = 0, time.process_time()
        while time.process_time() - start < seconds / 3:
            function()
            calls += 1
        rates.append(calls / (time.process_time() - start))
    return statistics.median(rates)


def wick_rates(program):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, "--device", "cpu", "--threads", "1", "--filter", "^transform/",
                        "--json", file.name], check=True, stdout=subprocess.DEVNULL)
        report = json.loads(pathlib.Path(file.name).read_text())
    rates = {}
    for run in report["benchmarks"]:
        if run.get("aggregate_name") != "median":
            continue
        _, name, side = run["run_name"].split("/")
        images = 64 if name.startswith("batch") else 1
        rates[name, int(side)] = 1e9 * images / run["cpu_time"]
    return rates


def main():
    import torch
    import torchvision

    program = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.2
    torch.set_num_threads(1)
    ours = wick_rates(program)
    print(f"images per second of one core's time; torchvision {torchvision.__version__}")
    print(f"{'transform':26} {'pixels':>6} {'wick':>12} {'torchvision':>12} {'ratio':>7}")
    for side in (224, 32):
        for name, images, ways in peers(side):
            theirs = images * max(rate(way, seconds) for way in ways)
            own = ours[name, side]
            print(f"{name:26} {side:6} {own:12,.0f} {theirs:12,.0f} {own / theirs:7.1f}")


if __name__ == "__main__":
    main()
