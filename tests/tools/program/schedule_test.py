"""Tests --schedule, --warmup, --ema and --cuda-graph of `wick train`:
schedule_test.py PATH-OF-WICK."""

import functools
import json
import pathlib
import signal
import sys
import tempfile
import unittest

from jobs import Job, lines, sha256
from mnist import write_images
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
run = functools.partial(run_program, WICK)

data_folder = tempfile.TemporaryDirectory()
write_images(pathlib.Path(data_folder.name))
MLP = ["--model", "mlp", "--data", "mnist", "--data-dir", data_folder.name, "--threads", "1"]
SMALL = [*MLP, "--epochs", "3", "--batch-size", "100"]  # 20 steps per epoch
LONGER = [*MLP, "--epochs", "4", "--batch-size", "8"]   # 250, so that there is time to stop one


class Schedules(InFolder):
    program = WICK

    def train(self, name, *words, size=SMALL):
        done = run("train", "--run-dir", self.folder / name, *size, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / name

    def test_a_captured_run_has_the_same_weights(self):
        if "simulated" not in run("doctor").stdout:
            self.skipTest("no simulated GPU in this build")
        # Plateau sets rates on the host.
        size = [*MLP, "--device", "cuda", "--epochs", "2", "--batch-size", "390",
                "--deterministic"]
        for name, words in [("plain", ["--schedule", "plateau", "--warmup", "1"]),
                            ("all", ["--amp", "fp16", "--ema", "0.9", "--clip-norm", "1",
                                     "--accumulate", "2", "--mixup", "0.2"])]:
            plain = self.train(name, *words, size=size)
            for flags in [[], ["--compile", "full"]]:
                captured = self.train("-".join([name, "captured", *flags]), *words, "--cuda-graph",
                                      *flags, size=size)
                self.assertEqual(sha256(captured / "weights.safetensors"),
                                 sha256(plain / "weights.safetensors"))
                for value in ["loss", "lr"]:
                    self.assertEqual([x.get(value) for x in lines(captured)],
                                     [x.get(value) for x in lines(plain)])

    def test_a_scaled_run_that_diverges_fails(self):
        self.fails(3, "the test loss became", "train", "--run-dir", self.folder / "run", *MLP,
                   "--optimizer", "sgd", "--lr", "1e6", "--schedule", "constant", "--max-steps",
                   "4", "--amp", "fp16")

    def test_rates_that_a_gpu_counts_are_logged_as_they_were(self):
        if "simulated" not in run("doctor").stdout:
            self.skipTest("no simulated GPU in this build")
        size = [*MLP, "--epochs", "2", "--batch-size", "50", "--amp", "fp16", "--log-every", "1"]
        here, there = (self.train(device, "--device", device, size=size)
                       for device in ["cpu", "cuda"])
        rates = [[x["lr"] for x in lines(folder) if "loss" in x] for folder in [here, there]]
        self.assertGreater(len(set(rates[0])), 70)
        self.assertEqual(rates[0], rates[1])

    def test_captures_are_checked(self):
        for message, words in [("expected a GPU, got the CPU", ["--device", "cpu"]),
                               ("not with --detect-anomaly", ["--detect-anomaly"]),
                               ("not with --offload-activations", ["--offload-activations"])]:
            self.fails(2, f"--cuda-graph: {message}", "train", *SMALL, "--cuda-graph", *words)

    def test_schedules_are_checked(self):
        for message, words in [
                ("Did you mean linear?", ["liner"]),
                ("--schedule-epochs: got 2, expected numbers above 0 that rise",
                 ["multistep", "--schedule-epochs", "3,2"]),
                ("--schedule-epochs: got \"2,\"", ["multistep", "--schedule-epochs", "2,"]),
                ("got 2 numbers for schedule step", ["step", "--schedule-epochs", "1,2"]),
                ("a cut before the warm-up is over", ["multistep", "--schedule-epochs", "1,4",
                                                      "--warmup", "2"]),
                ("--schedule-gamma: not with schedule linear", ["linear", "--schedule-gamma",
                                                                  "0.5"]),
                ("--warmup: not with", ["cyclic", "--warmup", "1"]),
                ("--eval-every: got 0, expected 1 or more", ["plateau", "--eval-every", "0"])]:
            with self.subTest(words=words):
                self.fails(2, message, "train", "--print-config", "--schedule", *words)
        for words in [["--print-config"], ["--run-dir", self.folder / "run"]]:
            self.fails(2, "--warmup: longer than the run: got 3 epochs", "train", *SMALL,
                       "--warmup", "3", *words)

    def test_ema_without_a_number(self):
        for words, decay in [([], None), (["--ema"], 0.999), (["--ema", "0.5"], 0.5),
                             (["--ema", "--json"], 0.999)]:
            config = json.loads(run("train", *words, "--print-config").stdout)
            self.assertEqual(config["ema"], decay)

    def rates(self, name, *words):
        folder = self.train(name, "--lr", "0.08", "--eval-every", "0", *words)
        return [line["lr"] for line in lines(folder) if "loss" in line]

    def test_schedules_and_warm_up(self):
        for words, expected in [  # 3 epochs of 20 steps
                (["step"], {1: 0.08, 20: 0.08, 21: 0.008, 41: 0.0008, 60: 0.0008}),
                (["step", "--schedule-epochs", "1.5", "--schedule-gamma", "0.5"],
                 {30: 0.08, 31: 0.04, 60: 0.04}),
                (["multistep"], {30: 0.08, 31: 0.008, 45: 0.008, 46: 0.0008}),
                (["multistep", "--schedule-epochs", "1,2.5", "--warmup", "0.5"],
                 {1: 0.08 / 11, 11: 0.08, 20: 0.08, 21: 0.008, 50: 0.008, 51: 0.0008}),
                (["exponential"], {1: 0.08, 31: 0.008}),
                (["exponential", "--schedule-gamma", "0.5"], {21: 0.04, 41: 0.02}),
                (["linear"], {1: 0.08, 31: 0.04, 46: 0.02}),
                (["polynomial"], {1: 0.08, 31: 0.02}),
                (["polynomial", "--schedule-power", "1"], {31: 0.04}),
                (["cyclic"], {1: 0.008, 6: 0.044, 11: 0.08, 21: 0.008, 31: 0.08}),
                (["cyclic", "--schedule-epochs", "3"], {1: 0.008, 16: 0.044, 31: 0.08}),
                (["cosine", "--warmup", "1"],
                 {1: 0.08 / 21, 2: 0.16 / 21, 21: 0.08, 41: 0.04}),
                (["constant", "--warmup", "0.5"],
                 {1: 0.08 / 11, 10: 0.8 / 11, 11: 0.08, 60: 0.08}),
                (["onecycle", "--warmup", "0.5"], {1: 0.08 / 25, 11: 0.08})]:
            with self.subTest(words=words):
                rates = self.rates("-".join(words), "--schedule", *words)
                for step, rate in expected.items():
                    self.assertAlmostEqual(rates[step - 1] / rate, 1, places=6, msg=str(step))
        for name in ["onecycle", "cosine", "step"]:  # cut short in the warm-up
            rates = self.rates("cut-" + name, "--schedule", name, "--warmup", "1", "--max-steps",
                               "5")
            self.assertEqual(rates, sorted(rates))
            self.assertLess(rates[-1], 0.08)
        for steps, shares in [(1, [1]), (2, [1, 0.1]), (3, [1, 1, 0.1]), (4, [1, 1, 0.1, 0.01])]:
            rates = self.rates(f"short-{steps}", "--schedule", "multistep", "--max-steps", steps)
            self.assertEqual([round(rate / 0.08, 6) for rate in rates], shares)
        for optimizer in ["rmsprop", "lamb"]:  # without a momentum, and of two groups
            rates = self.rates(optimizer, "--schedule", "cyclic", "--optimizer", optimizer)
            self.assertAlmostEqual(rates[10], 0.08)

    def test_plateau_cuts_rates_that_gain_nothing(self):
        for amp in ["off", "fp16"]:
            folder = self.train(amp, "--schedule", "plateau", "--schedule-epochs", "1",
                                "--schedule-gamma", "0.5", "--warmup", "0.5", "--optimizer", "sgd",
                                "--lr", "1e-6", "--amp", amp,
                                size=[*MLP, "--epochs", "6", "--batch-size", "100"])
            rates = [line["lr"] for line in lines(folder) if "loss" in line]
            self.assertAlmostEqual(rates[0] * 11e6, 1)
            for step, rate in [(11, 1e-6), (60, 1e-6), (61, 5e-7), (100, 5e-7), (101, 2.5e-7)]:
                self.assertAlmostEqual(rates[step - 1] / rate, 1, places=6, msg=str(step))

    def test_a_longer_run_evaluates_no_epoch_twice(self):
        folder = self.train("run", "--schedule", "plateau", "--epochs", "1", size=SMALL[:-4])
        done = run("train", "--run-dir", folder, "--resume", "--epochs", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        evaluated = [line["epoch"] for line in lines(folder) if "epoch" in line
                     and "test_loss" in line and "event" not in line]
        self.assertEqual(evaluated, [1, 2])

    def test_scheduled_runs_go_on_to_the_same_bytes(self):
        for words in [("--schedule", "plateau", "--schedule-epochs", "0.5", "--schedule-gamma",
                       "0.4", "--optimizer", "sgd", "--lr", "1e-7", "--warmup", "0.5", "--amp",
                       "fp16"),
                      ("--schedule", "step", "--warmup", "1", "--amp", "fp16")]:
            with self.subTest(words=words):
                whole = self.train("whole" + words[1], *words, size=LONGER)
                rates = [line["lr"] for line in lines(whole) if "loss" in line]
                self.assertLess(rates[-1], 0.5 * rates[400])  # a cut before the stop
                folder = self.folder / ("stopped" + words[1])
                job = Job(WICK, "train", "--run-dir", str(folder), *LONGER, *words)
                job.wait_for_step(folder, 501)  # of the third epoch
                job.process.send_signal(signal.SIGINT)
                self.assertEqual(job.wait(60)[0], 130)
                done = run("train", "--run-dir", folder, "--resume")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sha256(folder / "weights.safetensors"),
                                 sha256(whole / "weights.safetensors"))
                self.assertEqual([line["lr"] for line in lines(folder) if "loss" in line], rates)


if __name__ == "__main__":
    unittest.main()
