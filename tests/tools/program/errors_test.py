"""Tests what the program says of likely mistakes: errors_test.py PATH-OF-WICK. Texts are compared
as a whole. The texts that docs/errors.md explains are among those of the tests."""

import json
import pathlib
import re
import sys
import unittest

from mnist import write_images
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[3]

# Words, the exit code, and all of the text behind "wick: ".
WORDS = [
    ("trian", 2, "unknown word trian. Did you mean train? See wick --help"),
    ("train --epoch 3", 2, "unknown flag --epoch. Did you mean --epochs? See wick train --help"),
    ("train mlp", 2, "unknown word mlp. See wick train --help"),
    ("tune", 2, "tune: expected lr, batch or loader. See wick tune --help"),
    ("tune rate", 2, "unknown word rate. See wick tune --help"),
    ("data", 2, "data: expected pack, check or fetch. See wick data --help"),
    ("study fusednorm", 2,
     "study: unknown technique fusednorm. Did you mean fused-norm? See wick study --list"),
    ("man trian", 2, "man: there is no command trian. See wick --help"),
    ("launch", 2, "launch: what to start is missing: wick launch --ranks 2 -- train ..."),
    ("launch -- no-such-program", 127, "the process could not be started: no-such-program"),
]
VALUES = [
    ("train --lr", 2, "--lr: the value is missing"),
    ("train --lr abc", 2, "--lr: expected a number, got abc"),
    ("train --lr -1", 2, "--lr: out of range: got -1, expected 1e-12 to 1e+06"),
    ("train --batch-size 0", 2, "--batch-size: out of range: got 0, expected 1 to 1e+06"),
    ("train --batch-size 1.5", 2, "--batch-size: expected a whole number, got 1.5"),
    ("train --epochs --json", 2,
     "--epochs: the value is missing: got --json, which is a flag (a value like it is given as "
     "--epochs=--json)"),
    ("train --betas 0.9", 2, "--betas: got 1 numbers, expected two, as 0.9,0.999"),
    ("train --betas 0.9,1.5", 2, "--betas: got 1.5, expected 0 or more, below 1"),
    ("train --mixup -1", 2, "--mixup: out of range: got -1, expected 0, or 1e-04 to 1000"),
    ("train --workers many", 2, "--workers: expected a whole number or auto, got many"),
    ("train --ranks two", 2, "--ranks: expected a whole number, got two"),
    ("train --ranks 0", 2, "--ranks: out of range: got 0, expected 1 to 256"),
    ("study --threads 0", 2, "--threads: out of range: got 0, expected 1 to 1024"),
    ("data pack --data mnist --out x.pack --quality 101", 2,
     "--quality: out of range: got 101, expected 1 to 100"),
    ("tune lr --start-lr 1 --end-lr 0.1", 2,
     "--start-lr: got 1, expected less than the 0.1 of --end-lr"),
    ("tune batch --memory lots", 2,
     '--memory: not a size: got "lots", expected one like 600MB or 1.5GiB'),
    ("train --model resnet", 2,
     '--model: unknown value: got "resnet", expected one of mlp, lenet, resnet20, resnet18, '
     "resnet34, resnet50, vit. Did you mean resnet20?"),
    ("train --amp fp8", 2,
     '--amp: unknown value: got "fp8", expected one of off, bf16, fp16. Did you mean fp16?'),
    ("train --device gpu", 2, '--device: got "gpu", expected auto, cpu, cuda or cuda:N'),
    ("train --checkpoint-activations most", 2,
     '--checkpoint-activations: unknown value: got "most", expected off, on or budget=SIZE'),
    ("train --checkpoint-every soon", 2,
     '--checkpoint-every: got "soon", expected steps, as in 500, or minutes, as in 15min'),
    ("train --augment random_crop(a)", 2,
     '--augment: transforms: cannot read the list: got "random_crop(a)", expected names with '
     "numbers, as in random_crop(4), horizontal_flip."),
    ("train --augment flip", 2,
     '--augment: transform: unknown name: got "flip", expected one of random_crop, '
     "random_resized_crop, resize, center_crop, horizontal_flip, vertical_flip, color_jitter, "
     "grayscale, rand_augment, random_erasing, cutout, none, basic, color, randaugment."),
]
TOGETHER = [
    ("train --momentum 0.9", 2, "--momentum: not with optimizer adamw, which has no momentum"),
    ("train --schedule-power 3", 2, "--schedule-power: not with schedule onecycle"),
    ("train --warmup 100 --epochs 3", 2,
     "--warmup: longer than the run: got 100 epochs, expected less than epochs, 3"),
    ("train --prefetch-factor 2 --workers 0", 2,
     "--prefetch-factor: not with workers 0, which load nothing ahead"),
    ("train --ranks 3 --batch-size 100", 2,
     "--batch-size: 100 images of a step cannot be shared evenly among 3 ranks: expected 99 or "
     "102"),
    ("train --resume", 2, "--resume: needs --run-dir, the folder of the run to go on with"),
    ("train --data mnist", 2,
     "--data-dir: data mnist needs it, the folder that holds its files, or first: wick data fetch "
     "mnist"),
    ("eval", 2, "--run-dir is required"),
    ("eval --run-dir x --compile fast", 2,
     "--compile: got fast, expected off, fuse or full"),
    ("report", 2, "RUN is required"),
]
FILES = [
    ("train --config no/such.json", 2,
     "config: cannot read no/such.json: No such file or directory"),
    ("train --config list.json", 2,
     'config: list.json: not a JSON object, such as {"batch_size": 32}'),
    ("train --config key.json", 2,
     'config: key.json: unknown key "batchsize". Did you mean batch_size?'),
    ("train --config kind.json", 2,
     'config: kind.json: "epochs" has a value of the wrong kind: got string "many"'),
    ("train --config twice.json", 2, 'config: twice.json: a key comes twice: string "lr"'),
    ("train --data mnist --data-dir no/such", 1,
     "mnist: no file train-images-idx3-ubyte found: looked in no/such, no/such/mnist, "
     "no/such/MNIST, no/such/raw, no/such/MNIST/raw"),
    ("train --data imagefolder --data-dir empty", 1,
     "imagefolder: no folder train found: looked in empty and its sub-folders, expected "
     "train/CLASS/NAME.jpg"),
    ("train --data packed --data-dir list.json", 1,
     "list.json: not a packed file: got 2 bytes, expected a header of 192"),
    ("train --run-dir list.json/run", 1,
     "run folder: cannot make list.json/run: Not a directory"),
    ("eval --run-dir empty", 1,
     "run folder: empty holds no run: expected empty/config.json"),
    ("inspect no/such", 1, "cannot read no/such: No such file or directory"),
    ("doctor --flight no/such", 1, "flight logs: cannot read no/such: No such file or directory"),
]
RUNS = [
    ("train --run-dir run", 1,
     "run folder: run already holds a run: go on with it by --resume, or name another folder"),
    ("train --resume --run-dir no/such", 1,
     "run folder: no/such holds no run: expected no/such/config.json"),
    ("train --resume --run-dir run --lr 0.5", 2,
     "--resume: lr cannot change: got 0.5, the run has 0.002"),
    ("train --resume --run-dir run --model lenet", 2,
     '--resume: model cannot change: got "lenet", the run has "mlp"'),
    ("train --resume --run-dir run --max-steps 1", 2,
     "--resume: the run has done 2 steps, more than the 1 that are asked for by --epochs and "
     "--max-steps"),
]


def explained():
    """The texts that docs/errors.md explains, in their parts between the gaps."""
    for row in re.findall(r"^\| `(.+?)` \|", (ROOT / "docs/errors.md").read_text(), re.M):
        yield [part.strip() for part in row.split("…") if part.strip()]


def library_texts():
    """The texts in the tests of the library's errors, with neighbouring strings joined."""
    for source in (ROOT / "tests/errors").glob("*.cpp"):
        text = re.sub(r'"\s*"', "", source.read_text())
        yield from (found.replace('\\"', '"') for found in re.findall(r'"((?:[^"\\\n]|\\.)+)"',
                                                                       text))


class Errors(InFolder):
    def compare(self, cases):
        for words, code, text in cases:
            with self.subTest(words=words):
                done = run_program(WICK, *words.split(), cwd=self.folder)
                self.assertEqual((done.returncode, done.stderr), (code, f"wick: {text}\n"))

    def setUp(self):
        super().setUp()
        (self.folder / "empty").mkdir()
        for name, text in [("list", "[]"), ("key", json.dumps({"batchsize": 3})),
                           ("kind", json.dumps({"epochs": "many"})), ("twice", '{"lr":1,"lr":2}')]:
            (self.folder / f"{name}.json").write_text(text)

    def test_words(self):
        self.compare(WORDS)

    def test_values(self):
        self.compare(VALUES)

    def test_flags_that_do_not_go_together(self):
        self.compare(TOGETHER)

    def test_files(self):
        self.compare(FILES)

    def test_runs(self):
        write_images(self.folder)
        words = "train --model mlp --data mnist --data-dir . --batch-size 100 --max-steps 2"
        done = run_program(WICK, *words.split(), "--eval-every", 0, "--threads", 1, "--run-dir",
                           "run", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.compare(RUNS)

    def test_commands_are_as_the_user_typed_them(self):
        done = run_program(WICK, "trian", WICK_COMMAND="../wick")
        self.assertEqual(done.stderr, "wick: unknown word trian. Did you mean train? "
                         "See ../wick --help\n")
        done = run_program(WICK, "tune", "lr", "--help", WICK_COMMAND="./wick")
        self.assertIn("Usage: ./wick tune lr ", done.stdout)

    def test_the_page_explains_texts_that_exist(self):
        texts = list(library_texts())
        texts += [text for cases in (WORDS, VALUES, TOGETHER, FILES, RUNS) for *_, text in cases]
        rows = list(explained())
        self.assertGreater(len(rows), 30)
        for parts in rows:
            with self.subTest(parts=parts):
                pattern = re.compile(".*".join(re.escape(part) for part in parts))
                self.assertTrue(any(pattern.search(text) for text in texts))


if __name__ == "__main__":
    unittest.main()
