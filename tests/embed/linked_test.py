#!/usr/bin/env python3
"""What a program that trains is linked to, and how large the library makes it.

linked_test.py COMPILER BUILD INSTALLED: the build folder of tests/embed, and the installed package.
"""
import pathlib
import re
import subprocess
import sys

SYSTEM = {"linux-vdso", "ld-linux-x86-64", "libc", "libm", "libstdc++", "libgcc_s"}
IMAGE_READERS = {"libjpeg", "libpng16", "libz"}
MOST_BYTES = {"plugin": 12 << 20, "static program": 15 << 20}


def libraries(program):
    lines = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^\s*(?:/\S+/)?([^\s/]+?)\.so[.\d]* ", lines, re.M))


def stripped(built, name):
    subprocess.run(["strip", "-o", name, built], check=True)
    return name


def static_program(compiler, build, installed, name):
    """The README's program, with no shared library at all."""
    archive = next(installed.glob("lib*/**/libwick.a"))
    [compiled] = build.glob("CMakeFiles/embed.dir/main.cpp.o")
    # The linker warns of dlopen and getaddrinfo, which training does not call.
    linked = subprocess.run(
        [compiler, "-static", "-s", "-o", name, compiled, "-Wl,--whole-archive", archive,
         "-Wl,--no-whole-archive", "-ljpeg", "-lpng", "-lz", "-lm", "-lpthread"],
        capture_output=True, text=True)
    assert linked.returncode == 0, linked.stderr
    subprocess.run([name], check=True)
    return name


def main():
    compiler, build, installed = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    linked = libraries(build / "embed")
    assert {"libc", "libstdc++"} <= linked <= SYSTEM | IMAGE_READERS, f"linked to {sorted(linked)}"
    built = {"plugin": stripped(build / "libplugin.so", build / "stripped.so"),
             "static program": static_program(compiler, build, installed, build / "static")}
    for what, path in built.items():
        size = path.stat().st_size
        print(f"{what}: {size} bytes, at most {MOST_BYTES[what]}")
        assert size <= MOST_BYTES[what], f"{what} is too large"


if __name__ == "__main__":
    main()
