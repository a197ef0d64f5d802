"""A picture for tests of the program."""
import struct
import zlib


def png(size, slope=0):
    """A grey image, `size` pixels square, with each column lighter by `slope` than the last."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = (b"\0" + bytes((127 + slope * x) % 256 for x in range(size))) * size
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", size, size, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def colors(data):
    """How many pixels of a PNG of 8 bits and 3 or 4 channels have each colour."""
    width, height, depth, kind = struct.unpack(">2I2B", data[16:26])
    assert depth == 8 and kind in (2, 6), (depth, kind)
    packed, place = b"", 8
    while place < len(data):
        size = struct.unpack(">I", data[place:place + 4])[0]
        if data[place + 4:place + 8] == b"IDAT":
            packed += data[place + 8:place + 8 + size]
        place += size + 12
    raw, step = zlib.decompress(packed), 3 if kind == 2 else 4
    above, counts = bytearray(width * step), {}
    for y in range(height):
        begin = y * (width * step + 1)
        how, row = raw[begin], bytearray(raw[begin + 1:begin + 1 + width * step])
        for x in range(len(row)) if how else ():
            left = row[x - step] if x >= step else 0
            corner = above[x - step] if x >= step else 0
            guesses = (0, left, above[x], (left + above[x]) // 2)
            guess = guesses[how] if how < 4 else min(
                (left, above[x], corner), key=lambda each: abs(left + above[x] - corner - each))
            row[x] = (row[x] + guess) & 255
        above = row
        for x in range(0, len(row), step):
            color = tuple(row[x:x + step])
            counts[color] = counts.get(color, 0) + 1
    return counts
