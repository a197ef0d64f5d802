#!/usr/bin/env python3
"""Shows that `wick train --nvtx` tells a tool of its ranges: injects a library that records them.

usage: check_nvtx.py WICK    a program built with CUDA (preset cuda); needs no GPU
"""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CUDA = os.environ.get("CUDA_HOME", "/usr/local/cuda")


def record(wick, folder, flags):
    log = folder / "ranges"
    log.unlink(missing_ok=True)
    library = folder / "libinjection.so"
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-shared", "-fPIC", "-isystem",
                    f"{CUDA}/include", str(HERE / "injection.cpp"), "-o", str(library)], check=True)
    env = {**os.environ, "NVTX_INJECTION64_PATH": str(library), "WICK_NVTX_LOG": str(log)}
    subprocess.run([wick, "train", "--device", "cpu", "--model", "lenet", "--max-steps", "2",
                    "--eval-every", "0", "--run-dir", str(folder / "-".join(["run", *flags])),
                    *flags], env=env, check=True, stdout=subprocess.DEVNULL)
    return [line.split("\t") for line in log.read_text().splitlines()] if log.exists() else []


def stacks(lines):
    """The names that each range is within, outermost first, itself last."""
    open_ranges, found = collections.defaultdict(list), set()
    for thread, what, name in lines:
        if what == "push":
            open_ranges[thread].append(name)
            found.add(tuple(open_ranges[thread]))
        elif what == "pop":
            assert open_ranges[thread], f"thread {thread} ends a range that it did not begin"
            open_ranges[thread].pop()
    for thread, left in open_ranges.items():
        assert not left, f"thread {thread} did not end {left}"
    return found


def main():
    wick = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        assert not record(wick, folder, []), "ranges without --nvtx"
        lines = record(wick, folder, ["--nvtx"])
    assert [line[2] for line in lines if line[1] == "domain"] == ["wick"], "not in one domain"
    found = stacks(lines)
    pairs = {(stack[i], name) for stack in found for i in range(len(stack)) for name in stack[i:]}
    modules = {name for stack in found for name in stack if name.startswith("nn.Module: ")}
    assert len(modules) >= 5, f"modules: {modules}"
    assert any(outer in modules and inner == "conv2d" for outer, inner in pairs), "no conv2d"
    backwards = {name for stack in found for name in stack if "Backward (" in name}
    assert any(name.startswith("Conv2dBackward (") for name in backwards), f"got {backwards}"
    assert any(stack[-1] == "Optimizer.step" for stack in found), "no Optimizer.step"
    assert any(stack[-1] == "DataLoader.next" for stack in found), "no DataLoader.next"
    print(f"NVTX: {sum(line[1] == 'push' for line in lines)} ranges, {len(modules)} modules, all "
          f"begun and ended in order")


if __name__ == "__main__":
    main()
