#!/usr/bin/env python3
"""Whether the results of all op cases in float32 have the same bits by AVX2 and by AVX-512:
same_bits_test.py PATH-OF-CORE_OPS_TEST. Ends with 77 where the processor has no AVX-512."""

import os
import pathlib
import subprocess
import sys
import tempfile

CASES = "*.values_float32:*.gradients_float32"


def digests(program, isa, folder):
    """The lines that the program notes, in order; None if one of its tests fails."""
    path = folder / isa
    environment = os.environ | {"WICK_CPU_ISA": isa, "WICK_CASE_DIGESTS": str(path)}
    done = subprocess.run([program, f"--gtest_filter={CASES}", "--gtest_brief=1"], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(f"{isa}: the test fails:\n{done.stdout[-4000:]}")
        return None
    return path.read_text().splitlines()


def main():
    if " avx512vl " not in pathlib.Path("/proc/cpuinfo").read_text():
        print("this processor has no AVX-512")
        return 77
    with tempfile.TemporaryDirectory() as name:
        narrow, wide = (digests(sys.argv[1], isa, pathlib.Path(name)) for isa in ("avx2", "avx512"))
    if narrow is None or wide is None:
        return 1
    differing = [line for line, other in zip(narrow, wide) if line != other]
    for line in differing[:20]:
        print("other bits by AVX-512:", line.rsplit(" ", 1)[0])
    print(f"{len(narrow)} results, {len(differing)} differ")
    enough = len(narrow) == len(wide) and len(narrow) > 1000
    return 0 if enough and not differing else 1


if __name__ == "__main__":
    sys.exit(main())
