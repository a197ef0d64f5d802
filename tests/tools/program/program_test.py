"""Tests the command-line program: program_test.py PATH-OF-WICK. Exit codes, messages, what a run
leaves behind, and that a killed run goes on to the same bytes."""

import fcntl
import functools
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from jobs import lines, sha256
from mnist import write_images
from png import png
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
run = functools.partial(run_program, WICK)

PNG = png(32)
data_folder = tempfile.TemporaryDirectory()
write_images(pathlib.Path(data_folder.name))
MNIST = ["--data", "mnist", "--data-dir", data_folder.name]
MLP = ["--model", "mlp", *MNIST]
SMALL = [*MLP, "--epochs", "3", "--threads", "1", "--batch-size", "100"]  # 20 steps per epoch
LONGER = [*SMALL[:-1], "8"]  # 250, so that there is time to stop one


class ProgramCase(InFolder):
    program = WICK

    def train(self, name, *words, size=SMALL):
        done = run("train", "--run-dir", str(self.folder / name), *size, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / name


class Usage(ProgramCase):
    def test_unknown_words_get_a_suggestion(self):
        self.fails(2, "Did you mean --batch-size?", "train", "--batchsize", "3")
        self.fails(2, "Did you mean train?", "trian")
        self.fails(2, "Did you mean resnet20?", "train", "--model", "resnet2")

    def test_values_are_checked(self):
        for flag, value in [("--batch-size", "-1"), ("--epochs", "0"), ("--epochs", "many"),
                            ("--lr", "-1"), ("--lr", "0"), ("--label-smoothing", "2"),
                            ("--device", "tpu"), ("--workers", "-1"), ("--workers", "many"),
                            ("--data-timeout", "-1"), ("--on-bad-sample", "hide"),
                            ("--optimizer", "newton"), ("--epochs", "010"),
                            ("--epochs", "0x10"), ("--seed", "18446744073709551615"),
                            ("--lr", ""), ("--run-dir", ""), ("--data-dir", ""),
                            ("--config", ""), ("--augment", "randaugmnt"), ("--mixup", "-1"),
                            ("--cutmix", "1e9"), ("--random-erasing", "1.5"),
                            ("--warmup", "-1"), ("--schedule-gamma", "1"),
                            ("--schedule-power", "2"), ("--schedule-epochs", "1"),
                            ("--ema", "1")]:
            with self.subTest(flag=flag, value=value):
                self.fails(2, flag, "train", "--print-config", flag, value)
        self.fails(1, "OMP_NUM_THREADS", "train", "--print-config", OMP_NUM_THREADS="100000")

    def test_words_are_shown_without_their_control_characters(self):
        self.fails(2, "a\\x1b[31m\\x0ab", "train", "--model", "a\x1b[31m\nb")

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([WICK, "train", "--print-config"], stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 74)
        self.assertIn("cannot write", done.stderr)

    def test_config_files_are_checked(self):
        config = self.folder / "config.json"
        for text, message in [('{"batchsize": 3}', "Did you mean batch_size?"),
                              ('{"batch_size": "three"}', "wrong kind"),
                              ("[]", "not a JSON object"), ("{", "not a JSON object"),
                              ('{"seed": [[1]]}', "got array"),
                              ('{"seed": "' + "x" * 10**5 + '"}', "xxx..."),
                              ('{"' + "x" * 10**5 + '": 1}', "unknown key"),
                              ('{"seed": ' + "[" * 10**5 + "]" * 10**5 + "}", "nested deeper"),
                              ('{"seed": 1, "seed": 2}', "comes twice"),
                              ('{"seed": 18446744073709551615}', "18446744073709551615")]:
            with self.subTest(text=text[:80]):
                config.write_text(text)
                self.fails(2, message, "train", "--config", str(config))
                self.assertLess(len(run("train", "--config", str(config)).stderr), 400)
        self.fails(2, "nowhere.json", "train", "--config", str(self.folder / "nowhere.json"))

    def test_flag_outweighs_variable_outweighs_file(self):
        config = self.folder / "config.json"
        config.write_text('{"batch_size": 1, "seed": 1, "epochs": 1}')
        done = run("train", "--print-config", "--config", str(config), "--batch-size", "3",
                   WICK_BATCH_SIZE="2", WICK_SEED="2")
        values = json.loads(done.stdout)
        self.assertEqual([values[k] for k in ("batch_size", "seed", "epochs")], [3, 2, 1])

    def test_missing_data(self):
        self.fails(2, "--data-dir: data", "train", "--data", "mnist")
        self.fails(1, str(self.folder), "train", "--data", "cifar10", "--data-dir",
                   str(self.folder), "--run-dir", str(self.folder / "run"))
        self.assertFalse((self.folder / "run").exists())

    def test_folders_that_will_not_do(self):
        blocked = self.folder / "file"
        blocked.write_text("")
        self.fails(1, "cannot make", "train", "--run-dir", str(blocked / "run"))
        self.fails(1, "holds no run", "train", "--resume", "--run-dir", str(self.folder))
        self.fails(1, "holds no run", "eval", "--run-dir", str(self.folder))
        self.fails(1, "File name too long", "train", *SMALL, "--run-dir",
                   str(self.folder / ("x" * 300)))

    def test_doctor(self):
        self.assertIn("AVX2", run("doctor").stdout)

    def test_ops_are_listed_with_their_precision(self):
        rows = [line.split() for line in run("ops").stdout.splitlines()]
        self.assertIn(["conv2d", "lower", "lower", "yes", "no"], rows)
        self.assertIn(["exp", "float32", "as", "is", "yes", "no"], rows)

    def test_sizes_and_budgets_are_checked(self):
        for word in ["maybe", "budget", "budget=", "budget=12XB", "budget=-1", "budget=1.2.3MB"]:
            with self.subTest(word=word):
                self.fails(2, "--checkpoint-activations", "train", *SMALL,
                           "--checkpoint-activations", word)
        self.fails(1, "nothing to make again in backward", "train", "--run-dir",
                   str(self.folder / "mlp"), *SMALL, "--checkpoint-activations", "on")
        self.fails(1, "the budget is too small for this model and batch", "train", "--run-dir",
                   str(self.folder / "small"), "--model", "resnet20", *MNIST, "--batch-size", "8",
                   "--checkpoint-activations", "budget=10KB")
        self.fails(2, "--offload-activations: expected a GPU", "train", *SMALL,
                   "--offload-activations")

    def test_tune_wants_to_know_what(self):
        self.fails(2, "lr", "tune")
        self.fails(2, "Did you mean batch?", "tune", "bach")
        self.fails(2, "Did you mean --num-iter?", "tune", "lr", "--numiter", "3")
        self.fails(2, "--seconds", "tune", "loader", *MLP, "--seconds", "0")
        self.fails(2, "--memory", "tune", "batch", *SMALL, "--memory", "much",
                   "--run-dir", str(self.folder / "run"))


class Runs(ProgramCase):
    def test_a_run_leaves_what_it_says(self):
        run_folder = self.train("run", "--log-every", "5")
        steps = [line for line in lines(run_folder) if "loss" in line]
        tests = [line for line in lines(run_folder) if "test_loss" in line]
        self.assertEqual([line["step"] for line in steps], list(range(5, 61, 5)))
        self.assertEqual([line["epoch"] for line in tests], [1, 2, 3])
        self.assertTrue({"epoch", "lr", "images_per_second"} <= set(steps[0]))
        self.assertTrue(all(0 <= line["test_accuracy"] <= 1 for line in tests))
        again = run("eval", "--run-dir", str(run_folder), "--json")
        self.assertEqual(json.loads(again.stdout)["test_accuracy"], tests[-1]["test_accuracy"])

    def test_max_steps_are_of_the_whole_run(self):
        run_folder = self.train("run", "--max-steps", "23")
        self.assertEqual(lines(run_folder)[-1]["step"], 23)
        self.assertIn("test_accuracy", lines(run_folder)[-1])

    def test_a_cut_run_says_how_far_it_came(self):
        done = run("train", "--run-dir", str(self.folder / "run"), *SMALL, "--max-steps", "30")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("epoch 1/3 100 %", done.stdout)
        self.assertIn("epoch 2/3  50 %", done.stdout)
        self.assertIn("step 30, in epoch 2  test loss", done.stdout)

    def test_evaluations_can_be_rare(self):
        tested = lambda folder: [x["epoch"] for x in lines(folder) if "test_loss" in x]
        self.assertEqual(tested(self.train("two", "--eval-every", "2")), [2, 3])
        self.assertEqual(tested(self.train("none", "--eval-every", "0")), [])

    def test_the_same_seed_gives_the_same_bytes(self):
        first = sha256(self.train("a") / "weights.safetensors")
        self.assertEqual(sha256(self.train("b", "--workers", "3") / "weights.safetensors"), first)
        self.assertNotEqual(sha256(self.train("c", "--seed", "1") / "weights.safetensors"), first)

    def test_mixed_precision_learns_too(self):
        plain = self.train("plain")
        mixed = self.train("mixed", "--amp", "bf16")
        loss = lambda folder: [line["loss"] for line in lines(folder) if "loss" in line]
        self.assertNotEqual(loss(mixed), loss(plain))
        self.assertLess(abs(loss(mixed)[0] - loss(plain)[0]), 0.02)
        self.assertLess(loss(mixed)[-1], loss(mixed)[0] - 0.5)
        again = run("eval", "--run-dir", str(mixed), "--json")
        self.assertEqual(json.loads(again.stdout)["test_accuracy"],
                         lines(mixed)[-1]["test_accuracy"])

    def test_a_search_names_where_nan_begins(self):
        wild = [*SMALL, "--optimizer", "sgd", "--schedule", "constant", "--lr", "1e6"]
        # With float16 the scaler gives up after 40 steps, and the last is gone through again.
        for words, said in [([], "see with --detect-anomaly where it begins"),
                            (["--detect-anomaly"], r"\w+(\(.*\))?.*: NaN in result 0: got \d+ "),
                            (["--amp", "fp16"], r"skipped.*; of the last step, \w.* in result 0")]:
            done = run("train", "--run-dir", str(self.folder / "".join(words)), *wild, *words)
            self.assertEqual(done.returncode, 3)
            self.assertRegex(done.stderr, said)

    def test_activations_made_again_change_nothing_else(self):
        def train(word):
            run_dir = self.folder / word
            done = run("train", "--run-dir", str(run_dir), "--model", "resnet20", *MNIST,
                       "--threads", "1", "--batch-size", "16", "--max-steps", "3",
                       "--eval-every", "0",
                       "--checkpoint-activations", word)
            self.assertEqual(done.returncode, 0, done.stderr)
            return sha256(run_dir / "weights.safetensors"), lines(run_dir)[-1]["memory_bytes"]

        plain, plain_bytes = train("off")
        for word in ["on", "budget=12MB"]:
            with self.subTest(word=word):
                weights, held = train(word)
                self.assertEqual(weights, plain)
                self.assertLess(held, plain_bytes)

    def test_tune_lr_suggests_a_rate_that_learns(self):
        run_dir = self.folder / "tune"
        done = run("tune", "lr", *MLP, "--batch-size", "100", "--threads", "1", "--num-iter", "40",
                   "--run-dir", str(run_dir))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads((run_dir / "tune_lr.json").read_text())
        self.assertIn(f"{found['suggestion']:.3g}", done.stdout)
        self.assertGreater(found["suggestion"], 1e-6)
        self.assertLess(found["suggestion"], 1)
        rates = [point["lr"] for point in found["points"]]
        self.assertAlmostEqual(rates[1] / rates[0], 10 ** (8 / 39), places=6)
        self.assertTrue((run_dir / "tune_lr.svg").read_text().startswith("<svg"))

    def test_tuning_trains_as_the_flags_say(self):
        done = run("tune", "lr", *MLP, "--batch-size", "100", "--threads", "1", "--num-iter", "20",
                   "--amp", "fp16", "--accumulate", "3", "--clip-norm", "1", "--mixup", "0.2",
                   "--ema", "0.9", "--run-dir", str(self.folder / "lr"))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads((self.folder / "lr" / "tune_lr.json").read_text())
        self.assertGreater(found["points"][0]["loss"], found["points"][10]["loss"])
        words = ["tune", "batch", *MLP, "--threads", "1", "--memory", "20MB", "--seconds", "0",
                 "--workers", "0",  # which load ahead, and so take memory, as their time allows
                 "--noise-batches", "2", "--amp", "fp16", "--json", "--run-dir"]
        whole = json.loads(run(*words, str(self.folder / "whole")).stdout)
        pieces = json.loads(run(*words, str(self.folder / "pieces"), "--accumulate", "8").stdout)
        self.assertGreater(pieces["largest"], 1.25 * whole["largest"])

    def test_tune_batch_keeps_to_its_memory(self):
        run_dir = self.folder / "tune"
        done = run("tune", "batch", *MLP, "--threads", "1", "--memory", "60MB", "--most",
                   "4096", "--noise-batches", "4", "--seconds", "0", "--run-dir", str(run_dir))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads((run_dir / "tune_batch.json").read_text())
        self.assertTrue(found["exact"])
        self.assertGreater(found["largest"], 8)
        self.assertLess(found["largest"], 4096)
        for trial in found["trials"]:
            self.assertEqual(trial["fits"], trial["batch"] <= found["largest"])
            self.assertLessEqual(trial["peak_bytes"], 60_000_000)
        self.assertIn("largest batch", done.stdout)

    def test_tune_loader_sweeps_and_suggests(self):
        run_dir = self.folder / "tune"
        done = run("tune", "loader", *MLP, "--threads", "1", "--batch-size", "16", "--seconds",
                   "0.01", "--workers", "0:3", "--run-dir", str(run_dir))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads((run_dir / "tune_loader.json").read_text())
        tried = [(trial["workers"], trial["prefetch_factor"]) for trial in found["trials"]]
        self.assertEqual(tried, [(0, 2), (1, 2), (1, 4), (2, 2), (2, 4)])
        rate = lambda trial: trial["training_images_per_second"]
        least = 0.9999 * (1 - found["noise"]) * max(map(rate, found["trials"]))
        self.assertGreaterEqual(rate(found["suggestion"]), least)
        self.assertIn(f"--workers {found['suggestion']['workers']}", done.stdout)
        self.assertTrue((run_dir / "tune_loader.svg").read_text().startswith("<svg"))

    def test_images_that_cannot_be_read_fail_or_are_skipped(self):
        images = self.folder / "images"
        for split in ["train", "test"]:
            for name in ["a", "b"]:
                (images / split / name).mkdir(parents=True)
                for i in range(4):
                    (images / split / name / f"{i}.png").write_bytes(PNG)
        (images / "train" / "b" / "2.png").write_bytes(PNG[:60])
        words = ["train", "--model", "lenet", "--data", "imagefolder", "--data-dir", str(images),
                 "--image-size", "28", "--epochs", "2", "--batch-size", "8", "--threads", "1"]
        done = run(*words, "--run-dir", str(self.folder / "fails"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "worker 0, batch 0 of epoch 0.*b/2.png")
        done = run(*words, "--run-dir", str(self.folder / "skips"), "--on-bad-sample", "skip")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left out 2 times an image that cannot be read", done.stdout)
        self.assertEqual([x["epoch"] for x in lines(self.folder / "skips") if "loss" in x], [1, 2])

    def test_tf32_reaches_the_gpu_if_asked_for(self):
        if "simulated" not in run("doctor").stdout:
            self.skipTest("no simulated GPU in this build")
        size = [*MLP, "--device", "cuda", "--max-steps", "1", "--eval-every", "0", "--benchmark"]
        for words, lines_with in [([], self.assertNotIn), (["--tf32"], self.assertIn)]:
            folder = self.train("-".join(["run", *words]), *words, size=size)
            plans = (folder / "plans.txt").read_text()
            self.assertIn("cuda matmul float32 ", plans)
            lines_with(" tf32 library/", plans)

    def test_a_broken_gpu_ends_a_run_by_its_own_exit_code(self):
        if "simulated" not in run("doctor").stdout:
            self.skipTest("no simulated GPU in this build")
        size = [*MLP, "--device", "cuda", "--epochs", "2", "--batch-size", "400"]
        whole = self.train("whole", size=size)
        for call in (400, 1350):
            with self.subTest(call=call):
                folder = self.folder / str(call)
                self.fails(75, "the GPU can do no more work in this process; go on from the newest "
                           f"checkpoint with: wick train --run-dir {folder} --resume",
                           "train", "--run-dir", folder, *size, WICK_SIM_BREAK=str(call))
                checkpoints = sorted((folder / "checkpoints").glob("step-*"))
                self.assertLessEqual({path.name for path in checkpoints}, {"step-0", "step-5"})
                done = run("train", "--run-dir", folder, "--resume")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sha256(folder / "weights.safetensors"),
                                 sha256(whole / "weights.safetensors"))
        self.fails(75, "the GPU can do no more work", "eval", "--run-dir", whole, "--device",
                   "cuda", WICK_SIM_BREAK="50")
        self.fails(75, "the GPU can do no more work", "tune", "lr", *size, "--run-dir",
                   self.folder / "tune", WICK_SIM_BREAK="700")
        for call in ("400", "500"):  # while averages stand in for weights, and before or after
            self.fails(75, "the GPU can do no more work", "train", *size, "--max-steps", "2",
                       "--ema", "0.9", "--run-dir", self.folder / ("ema" + call),
                       WICK_SIM_BREAK=call)

    def test_lint_tells_what_costs_time(self):
        for _ in range(5):  # what it measures is not always there where others use the machine
            found = run("train", "--lint", "--json", *MLP, "--batch-size", "2", "--threads", "1")
            self.assertEqual(found.returncode, 0, found.stderr)
            lints = {lint["rule"]: lint for lint in json.loads(found.stdout)}
            if "small-batch" in lints:
                break
        self.assertGreater(lints["small-batch"]["cost"], 0)
        self.assertIn("than one of 2;", lints["small-batch"]["message"])

    def test_lint_measures_debugging(self):
        found = run("train", "--lint", "--json", *MLP, "--batch-size", "64", "--threads", "1",
                    "--detect-anomaly", "--memory-history")
        self.assertEqual(found.returncode, 0, found.stderr)
        lints = [lint for lint in json.loads(found.stdout) if lint["rule"] == "debugging"]
        words = {word for word in ["NaN", "history"] for lint in lints if word in lint["message"]}
        self.assertEqual(words, {"NaN", "history"})

    def test_a_run_is_never_overwritten(self):
        self.train("run", "--max-steps", "1")
        done = run("train", "--run-dir", str(self.folder / "run"), *SMALL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("already holds a run", done.stderr)

    def stop_in_third_epoch(self, how, *words):
        folder = self.folder / how.name
        process = subprocess.Popen([WICK, "train", "--run-dir", str(folder), *LONGER, *words],
                                   stdout=subprocess.DEVNULL)
        metrics = folder / "metrics.jsonl"
        while not (metrics.exists() and '"step":501,' in metrics.read_text()):
            self.assertIsNone(process.poll(), "ended before it could be stopped")
            time.sleep(0.002)
        process.send_signal(how)
        return folder, process.wait()

    def test_a_stopped_run_goes_on_to_the_same_bytes(self):
        undisturbed = sha256(self.train("undisturbed", size=LONGER) / "weights.safetensors")
        for how, code in [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)]:
            with self.subTest(how=how.name):
                folder, exit_code = self.stop_in_third_epoch(how)
                self.assertEqual(exit_code, code)
                done = run("train", "--run-dir", str(folder), "--resume")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sha256(folder / "weights.safetensors"), undisturbed)
                numbers = [line["step"] for line in lines(folder) if "loss" in line]
                self.assertEqual(numbers, list(range(1, 751)))

    def test_a_scaled_averaged_run_goes_on_to_the_same_bytes(self):
        words = ("--amp", "fp16", "--ema", "0.9", "--clip-norm", "1", "--accumulate", "3")
        whole = self.train("whole", *words, size=LONGER)
        losses = [line["loss"] for line in lines(whole) if "loss" in line]
        self.assertLess(losses[-1], losses[0] - 0.3)
        again = json.loads(run("eval", "--run-dir", str(whole), "--json").stdout)
        self.assertEqual(again["test_accuracy"], lines(whole)[-1]["test_accuracy"])
        folder, _ = self.stop_in_third_epoch(signal.SIGINT, *words)
        done = run("train", "--run-dir", str(folder), "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sha256(folder / "weights.safetensors"),
                         sha256(whole / "weights.safetensors"))

    def test_an_augmented_run_goes_on_to_the_same_bytes(self):
        words = ("--augment", "randaugment", "--random-erasing", "0.3", "--mixup", "0.2",
                 "--cutmix", "1")
        whole = self.train("whole", *words, size=LONGER)
        losses = [line["loss"] for line in lines(whole) if "loss" in line]
        self.assertLess(sum(losses[-20:]) / 20, losses[0] - 0.1)
        folder, _ = self.stop_in_third_epoch(signal.SIGINT, *words)
        changed = run("train", "--run-dir", str(folder), "--resume", "--cutmix", "0.5")
        self.assertEqual(changed.returncode, 2)
        self.assertIn("cutmix cannot change", changed.stderr)
        done = run("train", "--run-dir", str(folder), "--resume", "--workers", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sha256(folder / "weights.safetensors"),
                         sha256(whole / "weights.safetensors"))

    def test_every_optimizer_learns(self):
        unknown = run("train", "--optimizer", "newton").stderr
        names = unknown.split("expected one of ")[1].strip().rstrip(".").split(", ")
        self.assertIn("adamw", names)
        for name in names:
            with self.subTest(optimizer=name):
                run_folder = self.train(name, "--optimizer", name, "--eval-every", "0")
                losses = [line["loss"] for line in lines(run_folder) if "loss" in line]
                self.assertLess(min(losses[-5:]), losses[0] - 0.02)

    def test_a_damaged_checkpoint_is_passed_over(self):
        undisturbed = self.train("run")
        wanted = sha256(undisturbed / "weights.safetensors")
        newest = undisturbed / "checkpoints" / "step-60" / "weights.safetensors"
        damaged = bytearray(newest.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        newest.write_bytes(bytes(damaged))
        (undisturbed / "weights.safetensors").unlink()
        done = run("train", "--run-dir", str(undisturbed), "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("was not used", done.stderr)
        self.assertEqual(sha256(undisturbed / "weights.safetensors"), wanted)
        for weights in (undisturbed / "checkpoints").glob("step-*/weights.safetensors"):
            weights.write_bytes(b"")
        steps = lines(undisturbed)
        done = run("train", "--run-dir", str(undisturbed), "--resume")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("none of the checkpoints", done.stderr)
        self.assertEqual(lines(undisturbed), steps)

    def resume(self, folder, code, text, *words):
        done = run("train", "--run-dir", str(folder), "--resume", *words)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)

    def test_a_checkpoint_that_lacks_something(self):
        folder = self.train("run", "--max-steps", "1")
        manifest = folder / "checkpoints" / "step-1" / "manifest.json"
        values = json.loads(manifest.read_text())
        position = values["files"].pop("position")
        manifest.write_text(json.dumps(values))
        self.resume(folder, 1, 'it has no "position"')
        values["files"]["position"] = position
        (folder / "checkpoints" / "step-0" / "manifest.json").write_text("")
        manifest.write_text(json.dumps({**values, "step": -5}))
        self.resume(folder, 1, "got step -5, expected 1")

    def test_lines_that_are_no_metrics_are_dropped(self):
        folder = self.train("run", "--max-steps", "1")
        metrics = folder / "metrics.jsonl"
        good = metrics.read_text()
        metrics.write_text('{"step":"1"}\n[]\n7\n{"a":1}\n' + good + '{"step":')
        self.resume(folder, 0, "")
        self.assertEqual(metrics.read_text(), good)

    def test_what_a_resumed_run_cannot_change(self):
        folder = self.train("run", "--max-steps", "2")
        self.resume(folder, 2, "seed cannot change", "--seed", "7")
        self.resume(folder, 2, "the run has done 2 steps", "--max-steps", "1")

    def test_a_run_can_be_made_longer_again_and_again(self):
        for schedule in "constant", "onecycle":
            folder = self.train(schedule, "--max-steps", "1", "--schedule", schedule)
            self.resume(folder, 0, "", "--max-steps", "2")
            self.resume(folder, 0, "")
            self.assertEqual(lines(folder)[-1]["step"], 2)
            self.resume(folder, 0, "", "--max-steps", "3")
            self.assertEqual(lines(folder)[-1]["step"], 3)

    def test_a_folder_serves_one_run_at_a_time(self):
        folder = self.train("run", "--max-steps", "1")
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self.resume(folder, 1, "in use by another process")
        os.close(descriptor)
        self.resume(folder, 0, "")

    def test_a_file_size_limit_is_an_error(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        # ThreadSanitizer's runtime dies of the limit, unless it finds no folder for its file.
        done = subprocess.run([WICK, "train", "--run-dir", str(self.folder / "run"), *SMALL],
                              capture_output=True, text=True, preexec_fn=limit,
                              env={**os.environ, "TMPDIR": str(self.folder / "absent")})
        self.assertEqual(done.returncode, 74)
        self.assertIn("File too large", done.stderr)


if __name__ == "__main__":
    unittest.main()
