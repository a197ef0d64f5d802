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
