#!/usr/bin/env python3
"""Writes torchvision_cases.h: what torchvision makes of one small image with the parameters given,
for transforms_reference_test.cpp. Needs PyTorch and torchvision; the file is kept, so that the
tests do not.

usage: make_torchvision_cases.py > torchvision_cases.h
"""
import numpy
import torch
import torchvision
from torchvision.transforms import InterpolationMode, functional
from torchvision.transforms.autoaugment import RandAugment, _apply_op

HEIGHT, WIDTH = 8, 10


def image():
    """Blocks, ramps and noise: [3, HEIGHT, WIDTH], uint8, the same on every machine."""
    y, x, c = numpy.meshgrid(range(HEIGHT), range(WIDTH), range(3), indexing="ij")
    noise = (x * 7919 + y * 104729 + c * 1299709) * 2654435761 % 4294967296 >> 25
    pixels = (noise + 11 * x + 7 * y * c) % 256
    pixels[2:4, 3:6] = (250, 3, 90)
    pixels[5:7, 6:9] = (128, 128, 128)
    pixels[0, 0] = (0, 0, 0)
    pixels[0, 1] = (255, 255, 255)
    return torch.from_numpy(pixels.astype(numpy.uint8)).permute(2, 0, 1).contiguous()


def cases(x):
    for factor in (0.37, 1.63):
        yield "brightness", factor, functional.adjust_brightness(x, factor)
        yield "contrast", factor, functional.adjust_contrast(x, factor)
        yield "saturation", factor, functional.adjust_saturation(x, factor)
        yield "sharpness", factor, functional.adjust_sharpness(x, factor)
    for turn in (-0.5, -0.13, 0.0, 0.31):
        yield "hue", turn, functional.adjust_hue(x, turn)
    yield "grayscale", 0, functional.rgb_to_grayscale(x, 3)
    yield "resize", 0, functional.resize(x, [5, 7], antialias=True)
    yield "resize", 0, functional.resize(x, [11, 9], antialias=True)
    yield "rotate_bilinear", 9.0, functional.rotate(x, 9.0, InterpolationMode.BILINEAR)
    # Where they change something: not the whole range, and pixels enough.
    dark = functional.adjust_brightness(x, 0.37)
    yield "autocontrast of brightness", 0.37, functional.autocontrast(dark)
    yield "equalize of 4 x 4 tiles", 0, functional.equalize(x.repeat(1, 4, 4))[:, :HEIGHT, :WIDTH]
    for name, (magnitudes, signed) in operations().items():
        magnitude = float(magnitudes[22]) if magnitudes.ndim > 0 else 0.0
        moves = name.startswith(("Shear", "Translate", "Rotate"))
        for sign in (1, -1) if moves else (-1,) if signed else (1,):
            yield name, sign * magnitude, _apply_op(x, name, sign * magnitude,
                                                    InterpolationMode.NEAREST, None)


def operations():
    return RandAugment()._augmentation_space(31, (HEIGHT, WIDTH))


def text(x):
    """The bytes of a [3, H, W] image, channels last, as hexadecimal digits in a C++ string."""
    digits = x.permute(1, 2, 0).contiguous().numpy().tobytes().hex()
    lines = [digits[i:i + 90] for i in range(0, len(digits), 90)]
    return "\n".join(f'     "{line}"' for line in lines)


def main():
    x = image()
    print(f"""#pragma once

// Written by make_torchvision_cases.py with torchvision {torchvision.__version__.split("+")[0]}.

namespace wick::data {{

/// What torchvision's `name` makes of kReferenceImage, told `parameter`: bytes in hexadecimal,
/// channels last.
struct ReferenceCase {{
  const char* name;
  double parameter;
  int height, width;
  const char* pixels;
}};

inline constexpr ReferenceCase kReferenceImage = {{"image", 0, {HEIGHT}, {WIDTH},
{text(x)}}};

inline constexpr ReferenceCase kReferenceCases[] = {{""")
    for name, parameter, result in cases(x):
        height, width = result.shape[1:]
        print(f'    {{"{name}", {parameter!r}, {height}, {width},\n{text(result)}}},')
    print("""};

/// RandAugment's magnitudes of each operation, in its order, at steps 3, 9 and 22 of 31 on that
/// image.
inline constexpr double kReferenceMagnitudes[][3] = {""")
    for magnitudes, _ in operations().values():
        steps = [float(magnitudes[i]) if magnitudes.ndim > 0 else 0.0 for i in (3, 9, 22)]
        print(f"    {{{', '.join(map(repr, steps))}}},")
    print("""};

}  // namespace wick::data""")


if __name__ == "__main__":
    main()
