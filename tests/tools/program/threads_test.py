"""Tests that a run has the same bytes for any number of threads, and in float32 on every
instruction set: threads_test.py PATH-OF-WICK PATH-OF-RECURRENT-PROGRAM."""

import pathlib
import sys
import unittest

from jobs import sha256
from programs import InFolder, run_program

WICK, RECURRENT = sys.argv[1:3]
del sys.argv[1:3]
PROGRAMS = {"lstm": RECURRENT}  # models that are not Wick's own
HAS_AVX512 = " avx512vl " in pathlib.Path("/proc/cpuinfo").read_text()


class Threads(InFolder):
    program = WICK

    def weights(self, model, *words, threads=1, isa=""):
        """The digest of the weights after 200 steps."""
        with self.subTest(model=model, words=words, threads=threads, isa=isa):
            folder = self.folder / "-".join([model, str(threads), isa, *words])
            done = run_program(PROGRAMS.get(model, WICK), "train", "--run-dir", folder, "--data",
                               "shapes10", "--max-steps", "200", "--batch-size", "8",
                               "--eval-every", "0", "--threads", threads, "--model", model, *words,
                               WICK_CPU_ISA=isa)
            self.assertEqual(done.returncode, 0, done.stderr)
            return sha256(folder / "weights.safetensors")

    def same(self, model, *words):
        one = self.weights(model, *words)
        for threads in 2, 3, 7:
            self.assertEqual(self.weights(model, *words, threads=threads), one, threads)
        return one

    def check(self, model):
        one = self.same(model)
        if HAS_AVX512:
            self.assertEqual(self.weights(model, isa="avx2"), one)

    def test_resnet20(self):
        self.check("resnet20")

    def test_vit(self):
        self.check("vit")

    def test_lstm(self):
        self.check("lstm")

    def test_bfloat16_does_not_depend_on_the_number_of_threads(self):
        self.same("resnet20", "--amp", "bf16")


if __name__ == "__main__":
    unittest.main()
