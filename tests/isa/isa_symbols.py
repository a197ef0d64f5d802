#!/usr/bin/env python3
"""Finds functions that the linker could mix up between instruction sets.

Objects built for AVX-512 may define weak functions (inline functions and templates) only in the
namespaces of their own instruction set: of a weak function that several objects define, the linker
keeps any one copy, and an AVX-512 copy kills a machine that has only AVX2.

usage: isa_symbols.py ISA OBJECT...        e.g. isa_symbols.py avx512 a.o b.o
       isa_symbols.py --self-test CXX      checks, with the compiler CXX, that the check can fail
"""
import os
import subprocess
import sys
import tempfile

# Emitted by clang into every object that may terminate; it has no vector code.
HARMLESS = {"__clang_call_terminate"}


def violations(isa, objects):
    """Lines "object: symbol" for each weak function outside the namespaces of `isa`."""
    own = [f"{len(name)}{name}" for name in (f"cpu_{isa}", f"Eigen_{isa}")]
    found = []
    for path in objects:
        listing = subprocess.run(["nm", "--defined-only", path], check=True, text=True,
                                 capture_output=True).stdout
        for line in listing.splitlines():
            kind, symbol = line.split()[-2:]
            if kind == "W" and symbol not in HARMLESS and not any(n in symbol for n in own):
                found.append(f"{path}: {symbol}")
    return found


def self_test(compiler):
    good = "namespace wick::cpu_avx512 { inline int f(int x) { return x + 1; } int (*g)(int) = f; }"
    bad = "inline int f(int x) { return x + 1; } int (*g)(int) = f;"
    with tempfile.TemporaryDirectory() as folder:
        for source, expected in ((good, 0), (bad, 1)):
            output = os.path.join(folder, "probe.o")
            subprocess.run([compiler, "-std=c++20", "-xc++", "-c", "-o", output, "-"],
                           input=source, text=True, check=True)
            found = len(violations("avx512", [output]))
            if found != expected:
                print(f"self-test: found {found} violations, expected {expected}, in: {source}")
                return 1
    print("self-test passed")
    return 0


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--self-test":
        return self_test(arguments[1])
    if len(arguments) < 2:
        print(__doc__)
        return 2
    found = violations(arguments[0], arguments[1:])
    for line in found:
        name = subprocess.run(["c++filt", line.split()[-1]], text=True, capture_output=True).stdout
        print(f"{line}\n  {name.strip()}")
    print(f"{len(arguments) - 1} objects, {len(found)} weak functions outside {arguments[0]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
