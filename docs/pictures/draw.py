#!/usr/bin/env python3
"""Draws the pictures of README.md and docs/, each for a light and a dark page. The figures are read
from the tables of bench/results/.

usage: draw.py          writes the SVG files beside this script
       draw.py --check  fails where a file is not what would be written
"""
import math
import pathlib
import re
import sys

from svg import DARK, LIGHT, Picture

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "bench" / "results"


def rows(name):
    """Cells of each row of the tables in a file of results, by the row's first cell."""
    lines = (RESULTS / name).read_text().splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    return {row[0]: row[1:] for row in cells}


def bar(picture, y, name, value, scale, color, left):
    picture.words(left - 8, y + 16, name, 14, anchor="end")
    picture.rectangle(left, y, value * scale, 22, color, None, 2)
    picture.words(left + value * scale + 6, y + 16, f"{value:.2f}", 14, bold=True)


def speed(theme):
    picture = Picture(960, 330, "Wick beside PyTorch 2.15, and the ladder of wick study", theme)
    peers, ladder = rows("peers.md"), rows("study.md")
    picture.words(0, 22, "Training speed, PyTorch 2.15 = 1", 17, bold=True)
    scale, left = 58, 216
    bars = [(name, float(peers[row][column].split()[0])) for name, row, column in (
        ("article 001's script", "written as in article 001", 2),
        ("the same, tuned", "tuned as the articles advise, PyTorch eager", 2),
        ("ResNet-18, 32×32", "ResNet-18, 32×32, batch 128, training step, images/s", 5),
        ("ResNet-18, 224×224", "ResNet-18, 224×224, batch 16, training step, images/s", 5),
        ("MLP with AdamW", "MLP 784-512-512-10, batch 64, AdamW step, images/s", 5))]
    for i, (name, value) in enumerate(bars):
        bar(picture, 44 + 44 * i, name, value, scale, "bar", left)
    picture.line((left + scale, 36), (left + scale, 258), color="ink", dashed=True)
    picture.words(left + scale, 276, "PyTorch", 13, "faint", "middle")
    picture.words(0, 312, "2 cores of an AMD EPYC; PyTorch eager or compiled, the faster", 13,
                  "faint")

    picture.words(500, 22, "The ladder of wick study: times as fast", 17, bold=True)
    *steps, (_, (last,)) = [row for row in ladder.items() if row[0] not in ("technique", "---")]
    y, reached, left, scale = 40, 1.0, 704, 34
    bar(picture, y, "the articles' script", reached, scale, "other", left)
    for name, (ratio,) in steps:
        y += 29
        reached *= float(ratio)
        bar(picture, y, f"{name} ×{ratio}", reached, scale, "other", left)
    bar(picture, y + 29, "last beside first, measured", float(last), scale, "bar", left)
    return picture


def ratios(title, values, note, theme):
    """Bars of ratios, by name, to the left and right of 1, on a scale of logarithms."""
    names, numbers = zip(*values)
    bottom = 44 + 26 * len(values)
    picture = Picture(860, bottom + 58, title, theme)
    picture.words(0, 22, title, 17, bold=True)
    least, most = math.log(min(0.9, *numbers)), math.log(max(numbers))
    scale = 560 / (most - least)
    one = 230 - least * scale
    for tick in (0.5, 1, 2, 5, 10, 20, 50):
        x = one + math.log(tick) * scale
        if least <= math.log(tick) <= most:
            picture.line((x, 36), (x, bottom), color="ink" if tick == 1 else "line", dashed=True)
            picture.words(x, bottom + 18, f"{tick:g}", 13, "faint", "middle")
    for i, (name, number) in enumerate(values):
        y, length = 42 + 26 * i, math.log(number) * scale
        picture.words(220, y + 15, name, 14, anchor="end")
        picture.rectangle(one + min(0, length), y, max(abs(length), 1.5), 20,
                          "bar" if number >= 1 else "other", None, 2)
        picture.words(one + max(0, length) + 6, y + 15, f"{number:.3g}", 14, bold=True)
    picture.words(0, bottom + 46, note, 13, "faint")
    return picture


def all_reduce(theme):
    text = (RESULTS / "all_reduce.md").read_text().split("quiet, 22 November 2026")[1]
    table = text.split("```")[1]
    values = [(size, float(ratio)) for size, ratio in
              re.findall(r"^ *(\d+ \w+) +[\d.]+ +[\d.]+ +([\d.]+)$", table, re.MULTILINE)]
    return ratios("Times as fast as torch.distributed: all-reduce of two processes", values,
                  "bench/peers/all_reduce.py, two cores of an Intel Xeon, PyTorch 2.15 with Gloo",
                  theme)


def transforms(theme):
    text = (RESULTS / "transforms.md").read_text()
    values = [(name.replace("_", " "), float(ratio)) for name, ratio in
              re.findall(r"^(\w+) +224 +[\d,]+ +[\d,]+ +([\d.]+)$", text, re.MULTILINE)]
    return ratios("Times as fast as torchvision: images of 224 x 224 on one core",
                  sorted(values, key=lambda value: -value[1]),
                  "bench/peers/transforms.py, AMD EPYC, torchvision 0.29", theme)


def layers(theme):
    picture = Picture(900, 410, "The layers of the source tree", theme)
    rows = (
        (("tools", "the program wick"), ("bench", "wick bench, peers"), ("tests", "")),
        (("train", "step, trainer, run folder, recipe"),),
        (("optim", "optimizers, schedules"), ("data", "loader, transforms"),
         ("dist", "process groups, reducer")),
        (("nn", "modules, layers, models"),),
        (("core", "tensors, autograd, apply (the one door), allocator, streams, profiler"),),
        (("kernels/cpu", "AVX2, AVX-512, AMX"), ("kernels/cuda", "one file per family"),
         ("kernels/sim", "the simulated GPU")),
        (("core/base", "dtype, shape, device, view: what kernels may know"),),
    )
    left, right, height = 90, 780, 48
    for i, row in enumerate(rows):
        y, width = 12 + 56 * i, (right - left - 10 * (len(row) - 1)) / len(row)
        for j, (name, what) in enumerate(row):
            picture.box(left + j * (width + 10), y, width, height, name, *([what] if what else []),
                        fill="strong" if name == "core" else "box",
                        edge="edge" if name == "core" else "line")
    picture.line((60, 20), (60, 392), arrow=True)
    picture.parts.append('<g transform="rotate(-90 44 206)">')
    picture.words(44, 206, "includes point down", 14, "faint", "middle")
    picture.parts.append("</g>")
    picture.line((790, 68), (802, 68), (802, 284), (790, 284))
    picture.words(812, 172, "wick.h", 15, bold=True)
    picture.words(812, 191, "includes", 13, "faint")
    picture.words(812, 207, "these", 13, "faint")
    return picture


def step(theme):
    picture = Picture(1000, 372, "One training step", theme)
    lanes = (("Loader", "host threads"), ("Copy stream", "the prefetcher's"),
             ("Compute stream", ""), ("Reduction", "stream, with"), )
    for i, (name, where) in enumerate(lanes):
        y = 30 + 84 * i
        picture.rectangle(0, y, 1000, 76, "box", None)
        picture.words(12, y + 34, name, 15, bold=True)
        picture.words(12, y + 53, where, 13, "faint")
    picture.words(12, 30 + 84 * 3 + 68, "several ranks", 13, "faint")
    picture.words(140, 20, "time", 13, "faint")
    picture.line((172, 16), (985, 16), arrow=True)

    def box(x, lane, width, *text, **how):
        how = {"fill": "strong", "edge": "edge", **how}
        picture.box(x, 36 + 84 * lane, width, 64, *text, **how)

    later = {"fill": "box", "edge": "line", "dashed": True}
    box(140, 0, 160, "decode, collate", "into pinned memory")
    box(420, 0, 200, "the next batches", **later)
    box(300, 1, 105, "copy", "uint8 bytes")
    box(664, 1, 140, "the next batch", **later)
    box(392, 2, 106, "prepare", "normalise")
    box(506, 2, 134, "forward", "each op by apply")
    box(648, 2, 172, "loss, backward", "gradients fire hooks")
    box(828, 2, 162, "update", "norm, then one", "kernel per group")
    box(668, 3, 74, "bucket")
    box(750, 3, 74, "bucket")
    picture.line((220, 100), (220, 152), (296, 152), arrow=True)
    picture.line((352, 184), (352, 236), (388, 236), arrow=True)
    picture.line((705, 268), (705, 284), arrow=True)
    picture.line((787, 268), (787, 284), arrow=True)
    picture.line((824, 320), (909, 320), (909, 272), arrow=True)
    return picture


def simulated_gpu(theme):
    picture = Picture(940, 430, "One CUDA source, two builds", theme)
    picture.box(250, 10, 440, 56, "kernels/cuda, core/cuda", "one source: kernels, streams, graphs",
                fill="strong", edge="edge")
    picture.line((380, 66), (160, 112), arrow=True)
    picture.line((560, 66), (640, 112), arrow=True)
    picture.words(200, 84, "nvcc", 14, "faint", "end")
    picture.words(620, 84, "g++ or clang, WICK_GPU=sim", 14, "faint")
    picture.box(20, 116, 270, 72, "a GPU", "driver, cuBLASLt, cuDNN, NCCL",
                "an NVIDIA H100 has run it")
    picture.rectangle(320, 116, 610, 206, "box", "edge")
    picture.words(625, 138, "kernels/sim: the simulated GPU", 15, anchor="middle", bold=True)
    cells = (("threads", "one fiber each, block by", "block, in chosen orders"),
             ("streams", "as late as events allow,", "or in a seeded random order"),
             ("memory", "guarded; NaN where", "nothing was written"),
             ("libraries", "the CPU's kernels in place", "of cuBLASLt, cuDNN, NCCL"))
    for i, (name, *what) in enumerate(cells):
        picture.box(334 + 296 * (i % 2), 150 + 84 * (i // 2), 286, 76, name, *what, fill="strong")
    picture.line((155, 188), (155, 352), arrow=True)
    picture.line((625, 322), (625, 352), arrow=True)
    picture.box(20, 356, 270, 64, "values and times", "tools/gpu_check.sh", dashed=True)
    picture.box(320, 356, 610, 64, "values, races, bounds, counts; never a time",
                "AddressSanitizer, ThreadSanitizer, integer checks, the preset count")
    return picture


PICTURES = (speed, all_reduce, transforms, layers, step, simulated_gpu)


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__)
        return 2
    stale = []
    for draw in PICTURES:
        for theme, suffix in ((LIGHT, ""), (DARK, "_dark")):
            path = HERE / f"{draw.__name__}{suffix}.svg"
            text = draw(theme).text()
            if not path.exists() or path.read_text() != text:
                stale.append(path.name)
                if not arguments:
                    path.write_text(text)
    if arguments and stale:
        print(f"docs/pictures: not as draw.py draws them: {', '.join(stale)}: run draw.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
