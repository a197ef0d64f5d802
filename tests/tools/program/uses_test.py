"""Holds each flag of `wick train` against each data set and each model: what the flag asks for
happens, or a sentence refuses it: uses_test.py PATH-OF-WICK."""

import functools
import json
import pathlib
import sys
import tempfile
import unittest

from jobs import lines, sha256
from mnist import write_images
from png import png
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
run = functools.partial(run_program, WICK)
SMALL = ["--batch-size", "4", "--max-steps", "2", "--eval-every", "0", "--threads", "1"]

# What each flag is given, by what it is about. Those about the run are read by code that knows
# neither data set nor model.
OF_IMAGES = {
    "augment": "none", "random_erasing": "1", "mixup": "0.5", "cutmix": "1", "image_size": "16",
    "max_image_pixels": "10", "max_image_seconds": "1e-9", "on_bad_sample": "skip",
    "data_dir": "/nowhere"}
OF_MODELS = {"checkpoint_activations": "on", "sync_batch_norm": None}
CHANGES_WEIGHTS = {
    "batch_size": "5", "max_steps": "3", "optimizer": "sgd", "lr": "0.01", "schedule": "cosine",
    "warmup": "0.5", "weight_decay": "0.5", "label_smoothing": "0.1", "clip_norm": "0.01",
    "ema": "0.5", "seed": "1", "amp": "bf16", "epochs": "2", "betas": "0.5,0.9",
    "clip_value": "1e-4", "onecycle_pct_start": "0.7", "onecycle_div_factor": "2",
    "onecycle_final_div_factor": "2", "onecycle_anneal": "linear", "onecycle_three_phase": None}
# Those that need another beside them, or show elsewhere than in the weights.
OTHERS = {"model", "data", "device", "log_every", "eval_every", "checkpoint_every",
          "eval_every_steps", "momentum", "max_skips", "prefetch_factor", "schedule_epochs",
          "schedule_gamma", "schedule_power", "offload_activations", "accumulate", "workers",
          "data_timeout", "detect_anomaly", "threads", "run_dir", "resume", "zero",
          "rank_timeout", "backend", "benchmark", "deterministic", "tf32", "cuda_graph",
          "compile", "memory_history", "keep_best", "on_failed_save", "nvtx", "allow_non_finite"}

MODELS = ["mlp", "lenet", "resnet20", "resnet18", "resnet34", "resnet50", "vit"]


def words_of(key, value):
    flag = "--" + key.replace("_", "-")
    return [flag] if value is None else [flag, value]


def given(words, key, value):
    """`words` with the flag, in place of what they give it."""
    flag = words_of(key, value)
    if flag[0] in words:
        at = words.index(flag[0])
        words = words[:at] + words[at + 2:]
    return [*words, *flag]


def write_cifar(folder, files, labels):
    for i, name in enumerate(files):
        noise = bytes((i + 7 * k * k) % 251 for k in range(3072))
        (folder / name).write_bytes((bytes(labels) + noise) * 8)


def write_photographs(folder):
    """Of two sizes, with over 2^20 pixels: after so many the decoder looks at the clock."""
    for split in ["train", "test"]:
        for name in ["a", "b"]:
            (folder / split / name).mkdir(parents=True)
            for i in range(8):
                (folder / split / name / f"{i}.png").write_bytes(png(1040 + 8 * (i % 2), i))


class DataSets:
    """A data set of each name, and packed ones of both kinds."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.temporary.name)
        for name in ["mnist", "cifar10", "cifar100", "photographs"]:
            (root / name).mkdir()
        write_images(root / "mnist")
        batches = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
        write_cifar(root / "cifar10", batches, [3])
        write_cifar(root / "cifar100", ["train.bin", "test.bin"], [3, 4])
        write_photographs(root / "photographs")
        self.words = {"shapes10": ["--data", "shapes10"]}
        for name in ["mnist", "fashion-mnist"]:
            self.words[name] = ["--data", name, "--data-dir", root / "mnist"]
        for name in ["cifar10", "cifar100"]:
            self.words[name] = ["--data", name, "--data-dir", root / name]
        self.words["imagefolder"] = ["--data", "imagefolder", "--data-dir", root / "photographs"]
        for name in ["mnist", "imagefolder"]:
            out = root / f"{name}.pack"
            done = run("data", "pack", *self.words[name], "--out", out)
            assert done.returncode == 0, done.stderr
            self.words[f"packed {name}"] = ["--data", "packed", "--data-dir", out]


def setUpModule():
    global sets
    sets = DataSets()


class Uses(InFolder):
    program = WICK

    def weights(self, name, *words):
        """The hash of the weights of a run with `words`."""
        folder = self.folder / name
        done = run("train", "--run-dir", folder, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sha256(folder / "weights.safetensors")

    def refuses(self, text, *words):
        folder = self.folder / "refused"
        self.fails(2, text, "train", "--run-dir", folder, *words)
        self.assertFalse(folder.exists())

    def ends_by(self, text, name, *words):
        self.fails(1, text, "train", "--run-dir", self.folder / name, *words)

    def test_no_flag_is_left_out(self):
        flags = set(json.loads(run("train", "--print-config").stdout))
        tables = [set(OF_IMAGES), set(OF_MODELS), set(CHANGES_WEIGHTS), OTHERS]
        self.assertEqual(flags, set().union(*tables))
        self.assertEqual(len(flags), sum(map(len, tables)))

    def test_those_about_images(self):
        for name, where in sets.words.items():
            photographs = name in ("imagefolder", "packed imagefolder")
            in_files = name == "imagefolder" or name.startswith("packed")
            size = [*where, "--model", "mlp", *SMALL]
            if photographs:
                size += ["--image-size", "24"]
            plain = self.weights(f"{name} plain", *size)
            for key, value in OF_IMAGES.items():
                with self.subTest(data=name, flag=key):
                    flag, words = words_of(key, value)[0], given(size, key, value)
                    if key.startswith("max_image") and not in_files:
                        self.refuses(f"{flag}: not with data {where[1]}", *words)
                    elif key == "data_dir" and name == "shapes10":
                        self.refuses("--data-dir: not with data shapes10", *words)
                    elif key == "data_dir":
                        self.ends_by("/nowhere", f"{name} {key}", *words)
                    elif key == "max_image_pixels":
                        said = "wrong size of image 0" if "packed" in name else "too large"
                        self.ends_by(said, f"{name} {key}", *words)
                    elif key == "max_image_seconds" and photographs:
                        self.ends_by("takes too long", f"{name} {key}", *words)
                    elif key in ("on_bad_sample", "max_image_seconds"):  # nothing is bad or decoded
                        self.assertEqual(self.weights(f"{name} {key}", *words), plain)
                    else:
                        self.assertNotEqual(self.weights(f"{name} {key}", *words), plain)

    def test_a_size_of_images(self):
        for name in ["imagefolder", "packed imagefolder", "mnist"]:
            self.weights(name, *sets.words[name], "--model", "mlp", *SMALL, "--image-size", "24")
            done = run("eval", "--run-dir", self.folder / name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.fails(2, "--image-size cannot change: got 64", "train", "--run-dir",
                       self.folder / name, "--resume", "--image-size", "64")

    def test_transforms_by_name(self):
        words = ["--data", "shapes10", "--model", "mlp", *SMALL]
        named = self.weights("named", *words, "--augment", "random_crop(4), horizontal_flip")
        self.assertEqual(named, self.weights("basic", *words, "--augment", "basic"))
        self.fails(2, "Did you mean basic?", "train", *words, "--augment", "basci")
        self.fails(2, "--augment: ", "train", *words, "--augment", "random_crop(4")

    def test_those_about_models(self):
        normalized = {"resnet20", "resnet18", "resnet34", "resnet50"}
        for model in MODELS:
            size = [*sets.words["mnist"], "--model", model, "--seed", "3", *SMALL]
            for key, value in OF_MODELS.items():
                with self.subTest(model=model, flag=key):
                    words = [*size, *words_of(key, value)]
                    if key == "sync_batch_norm" and model not in normalized:
                        self.refuses(f"--sync-batch-norm: not with model {model}", *words)
                    elif key == "sync_batch_norm":
                        self.weights(f"{model} {key}", *words)
                    elif model in ("mlp", "lenet"):
                        self.ends_by("nothing to make again in backward", model, *words)
                    else:
                        folder = f"{model} plain"
                        plain = self.weights(folder, *size)
                        self.assertEqual(self.weights(f"{model} {key}", *words), plain)
                        held = [lines(self.folder / x)[-1]["memory_bytes"]
                                for x in (folder, f"{model} {key}")]
                        self.assertLess(held[1], held[0])

    def test_those_that_change_weights(self):
        size = [*sets.words["mnist"], "--model", "mlp", *SMALL, "--epochs", "1"]
        plain = self.weights("plain", *size)
        for key, value in CHANGES_WEIGHTS.items():
            with self.subTest(flag=key):
                words = given(size, key, value)
                if key == "epochs":  # no other flag ends the run first
                    words = given(given(words, "max_steps", "100"), "batch_size", "1000")
                    self.weights(key, *words)
                    self.assertEqual(lines(self.folder / key)[-1]["step"], 4)
                else:
                    self.assertNotEqual(self.weights(key, *words), plain)


if __name__ == "__main__":
    unittest.main()
