#!/usr/bin/env python3
"""Builds the program with CUDA in build/nvcc, each kernel anew and for the generations that are
supported. Fails on a warning, on a kernel that spills registers and is not listed in
tools/known_spills.txt, and on one that needs more than 64 registers without __launch_bounds__: a
block of 1,024 threads of it could not be launched.

  tools/compile_kernels.py [--arch 80,90] [FILE...]

With FILE (a source of kernels/cuda, or a rule of kernels/optim) only its object is made.
A line of the list is FILE, KERNEL (a part of its mangled name) and the reason, between blanks.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "nvcc"
OBJECTS = pathlib.Path("CMakeFiles/wick_cuda_kernels.dir")
KNOWN = ROOT / "tools" / "known_spills.txt"
OBJECT = re.compile(rf"Building CUDA object {OBJECTS}/(\S+)\.o")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
BOUNDED = re.compile(r"__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*(\w+)\(")
FREE_REGISTERS = 64  # that 1,024 threads of a multiprocessor may have each
RULE = re.compile(r"generated/optim/(\w+)\.cu")


def known_spills():
    lines = [line.split(maxsplit=2) for line in KNOWN.read_text().splitlines()
             if line.strip() and not line.startswith("#")]
    for line in lines:
        if len(line) != 3:
            sys.exit(f"{KNOWN}: needs a file, a kernel and a reason: got {' '.join(line)}")
    return [tuple(line[:2]) for line in lines]


def object_of(path):
    """The object of a source; an optimizer's rule has one of a source that CMake makes of it."""
    path = path.resolve().relative_to(ROOT)
    if path.parent == pathlib.Path("kernels/optim"):
        path = pathlib.Path("generated/optim") / f"{path.stem}.cu"
    return OBJECTS / f"{path}.o"


def run(*command):
    """Runs a command, shows what it prints, and returns the lines; ends where it fails."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          cwd=ROOT) as process:
        for line in process.stdout:
            if not line.startswith(("ptxas info", "    ")) or "error" in line:
                print(line, end="", flush=True)
            lines.append(line)
    if process.returncode != 0:
        sys.exit(f"compile_kernels: failed: {' '.join(map(str, command))}")
    return lines


def bounded_kernels():
    """Names of the kernels whose sources tell how many threads a block has."""
    sources = [path.read_text() for path in (ROOT / "kernels" / "cuda").rglob("*")
               if path.suffix in (".cu", ".h")]
    return set(BOUNDED.findall("\n".join(sources)))


def spills_in(lines):
    """The number of kernels, (file, kernel, architecture, bytes) of each that spills, and (file,
    kernel, registers) of each that needs more than FREE_REGISTERS."""
    path, kernel, kernels, found, large = "", ("", ""), 0, [], []
    for line in lines:
        if match := OBJECT.search(line):
            path = RULE.sub(r"kernels/optim/\1.h", match[1])
        elif match := ENTRY.search(line):
            kernel = match.groups()
            kernels += 1
        elif (match := SPILL.search(line)) and match.groups() != ("0", "0"):
            found.append((path, *kernel, int(match[1]) + int(match[2])))
        if (match := REGISTERS.search(line)) and int(match[1]) > FREE_REGISTERS:
            large.append((path, kernel[0], int(match[1])))
    return kernels, found, large


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="80,90")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    known = known_spills()
    run("cmake", "--preset", "cuda", "-B", BUILD, "-DWICK_TESTS=OFF", "-DWICK_BENCH=OFF",
        f"-DCMAKE_CUDA_ARCHITECTURES={arguments.arch.replace(',', ';')}",
        "-DCMAKE_CUDA_FLAGS=--resource-usage")
    targets = [object_of(path) for path in arguments.files]
    for path in [BUILD / target for target in targets] or (BUILD / OBJECTS).rglob("*.o"):
        path.unlink(missing_ok=True)  # nvcc speaks of a kernel only when it compiles one
    kernels, spills, large = spills_in(run("cmake", "--build", BUILD, "--target",
                                    *(map(str, targets) if targets else ["wick_cli"])))
    if kernels == 0:
        sys.exit("compile_kernels: nvcc said nothing of any kernel")
    unknown = [s for s in spills if not any(s[0] == f and part in s[1] for f, part in known)]
    for path, kernel, arch, size in unknown:
        print(f"{path}: {kernel} spills {size} bytes on {arch}, and is not listed")
    bounded = bounded_kernels()
    unbounded = [k for k in large if not any(name in k[1] for name in bounded)]
    for path, kernel, registers in unbounded:
        print(f"{path}: {kernel} needs {registers} registers, and has no __launch_bounds__")
    print(f"{kernels} kernels compiled, {len(unknown)} spill and are not listed, "
          f"{len(unbounded)} need bounds")
    return 1 if unknown or unbounded else 0


if __name__ == "__main__":
    sys.exit(main())
