#!/usr/bin/env python3
"""Compiles each CUDA source with nvcc, kernels for the generations that are supported, and fails on
a warning or on a kernel that spills registers and is not listed in tools/known_spills.txt.

  tools/compile_kernels.py [--arch 80,90] [--jobs 2] [FILE...]

FILE may be a header of kernels/optim: the rule of an optimizer, of which CMake makes a source.
A line of the list is FILE, KERNEL (a part of its mangled name) and the reason, between blanks.
"""
import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "nvcc"
RULES = ROOT / "kernels" / "optim"
TEMPLATE = ROOT / "kernels" / "cuda" / "optim.cu.in"
KNOWN = ROOT / "tools" / "known_spills.txt"
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def known_spills():
    lines = [line.split(maxsplit=2) for line in KNOWN.read_text().splitlines()
             if line.strip() and not line.startswith("#")]
    for line in lines:
        if len(line) != 3:
            sys.exit(f"{KNOWN}: needs a file, a kernel and a reason: got {' '.join(line)}")
    return [tuple(line[:2]) for line in lines]


def spills_in(output):
    """(kernel, architecture, bytes) of each kernel that ptxas says spills."""
    kernel, found = ("", ""), []
    for line in output.splitlines():
        if match := ENTRY.search(line):
            kernel = match.groups()
        elif (match := SPILL.search(line)) and match.groups() != ("0", "0"):
            found.append((*kernel, int(match[1]) + int(match[2])))
    return found


def source_of(path):
    """What to compile: the file, or of an optimizer's rule the source that CMake makes of it."""
    if path.parent != RULES:
        return path
    source = BUILD / f"optim_{path.stem}.cu"
    source.write_text(TEMPLATE.read_text().replace("@RULE@", path.stem))
    return source


def compile_one(nvcc, path, architectures):
    path = source_of(path)
    command = [nvcc, "-std=c++20", "--expt-relaxed-constexpr", f"-I{BUILD / 'include'}",
               "-DWICK_HAS_CUDA=1", "-Werror", "all-warnings", "--resource-usage",
               "-DNDEBUG", "-UNDEBUG"]  # as a release build has them
    if path.suffix == ".cpp":
        command += ["-Xcompiler", "-Wall,-Wextra,-Werror"]
    for arch in architectures:
        command += ["-gencode", f"arch=compute_{arch},code=sm_{arch}"]
    result = subprocess.run([*command, "-c", "-o", str(BUILD / (path.name + ".o")), str(path)],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode, result.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="80,90")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        sys.exit("compile_kernels: there is no nvcc on this machine: install the CUDA toolkit")
    known = known_spills()
    (BUILD / "include").mkdir(parents=True, exist_ok=True)
    link = BUILD / "include" / "wick"
    if not link.is_symlink():
        link.symlink_to(ROOT)
    files = [f.resolve() for f in arguments.files] or sorted(
        f for pattern in ("kernels/cuda/*.c*", "kernels/optim/*.h", "core/cuda/*.cpp",
                          "dist/detail/nccl.cpp", "dist/detail/nccl_api.cpp")
        for f in ROOT.glob(pattern) if f.suffix in (".cu", ".cpp") or f.parent == RULES)
    if not files:
        sys.exit("compile_kernels: no kernels found")
    failures = kernels = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = {pool.submit(compile_one, nvcc, f, arguments.arch.split(",")): f for f in files}
        for job in concurrent.futures.as_completed(jobs):
            path = jobs[job].relative_to(ROOT)
            status, output = job.result()
            kernels += len(ENTRY.findall(output))
            if status != 0:
                failures += 1
                print(f"{path}: does not compile\n{output}")
                continue
            unknown = [s for s in spills_in(output)
                       if not any(str(path) == f and part in s[0] for f, part in known)]
            for kernel, arch, size in unknown:
                print(f"{path}: {kernel} spills {size} bytes on {arch}, and is not listed")
            failures += bool(unknown)
            print(f"{path}: {'FAILED' if unknown else 'ok'}", flush=True)
    if kernels == 0 and failures == 0:
        sys.exit("compile_kernels: nvcc said nothing of any kernel")
    print(f"{kernels} kernels in {len(files)} files, {failures} files failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
