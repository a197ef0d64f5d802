"""Makes files of MNIST's format for tests."""

import random
import struct


def write_images(folder, seed=0):
    """A tenth of a second of MNIST: noise, with a bright band whose height is the class."""
    for name, count in [("train", 2000), ("t10k", 400)]:
        noise = random.Random(count + seed)
        images = bytearray(struct.pack(">4I", 0x803, count, 28, 28))
        labels = bytearray(struct.pack(">2I", 0x801, count))
        for i in range(count):
            image = bytearray(noise.getrandbits(8 * 784).to_bytes(784, "little"))
            label = noise.randrange(10)
            image[70 * label:70 * (label + 1)] = b"\xff" * 70
            images += image
            labels.append(label)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(labels)
