"""Tests training over several ranks: ranks_test.py PATH-OF-WICK. That they learn what one learns,
who prints and writes, how runs end, what `wick launch` starts, and what flight records tell."""

import fcntl
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from mnist import write_images
from jobs import Job, left_over, lines, sha256
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
run = functools.partial(run_program, WICK)

data_folder = tempfile.TemporaryDirectory()
write_images(pathlib.Path(data_folder.name))
MLP = ["--model", "mlp", "--data", "mnist", "--data-dir", data_folder.name, "--workers", "1"]
SMALL = [*MLP, "--epochs", "2", "--threads", "1", "--batch-size", "100"]  # 20 steps per epoch


def losses(folder):
    return [line["loss"] for line in lines(folder) if "loss" in line]


class RanksCase(InFolder):
    program = WICK

    def train(self, name, *words, size=SMALL, code=0, **variables):
        done = run("train", "--run-dir", self.folder / name, *size, *words, **variables)
        self.assertEqual(done.returncode, code, done.stderr)
        return self.folder / name

    def check_losses(self, folder, expected, tolerance):
        self.assertEqual(len(losses(folder)), len(expected))
        for step, (a, b) in enumerate(zip(losses(folder), expected)):
            self.assertLess(abs(a - b), tolerance, f"step {step + 1}")


class Usage(RanksCase):
    def test_numbers_of_ranks(self):
        train = ["train", *SMALL[:-2], "--run-dir", self.folder / "run"]
        for ranks in ["0", "-1", "1000"]:
            self.fails(2, f"got {ranks}, expected 1 to 256", *train, "--ranks", ranks)
        self.fails(2, "--ranks", *train, "--ranks", "two")
        self.fails(2, "32 images of a step cannot be shared evenly among 3 ranks: expected 30 or "
                   "33", *train, "--ranks", "3", "--batch-size", "32")
        self.fails(2, "--on-bad-sample", *train, "--ranks", "2", "--on-bad-sample", "skip")
        self.fails(2, "--max-restarts", *train, "--max-restarts", "-1")
        self.fails(2, "--rank-timeout", *train, "--rank-timeout", "0")
        self.fails(2, "--zero: not with optimizer lamb", *train, "--zero", "--optimizer", "lamb")
        self.fails(2, "--backend", *train, "--backend", "mpi")
        self.fails(2, "--backend: nccl is for GPUs", *train, "--ranks", "2", "--backend", "nccl",
                   "--device", "cpu")
        self.assertFalse((self.folder / "run").exists())

    def test_launch(self):
        self.fails(2, "what to start is missing", "launch", "--ranks", "2")
        self.fails(2, "Did you mean --ranks?", "launch", "--rank", "2", "--", "train")
        self.fails(2, "Did you mean --epochs?", "launch", "--ranks", "2", "--", "train", "--epoch",
                   "2")
        self.fails(2, "expected 1 to 256", "launch", "--ranks", "0", "--", "train")
        self.fails(127, "of 2 could not be started: no-such-program", "launch", "--ranks",
                   "2", "--", "no-such-program")

    def test_variables(self):
        train = ["train", *SMALL, "--run-dir", self.folder / "run"]
        self.fails(1, "WORLD_SIZE", *train, RANK="0")
        self.fails(76, "rank 1 cannot reach rank 0", *train, "--rank-timeout", "0.2", RANK="1",
                   WORLD_SIZE="2", LOCAL_RANK="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
        self.fails(2, "--ranks: got 2, but", *train, "--ranks", "2", RANK="0", WORLD_SIZE="1",
                   LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")


class Launch(RanksCase):
    def test_one_launcher_has_a_run_folder(self):
        folder = self.folder / "run"
        folder.mkdir()
        with open(folder / "launcher.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = run("train", *SMALL, "--ranks", "2", "--max-restarts", "3", "--run-dir", folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is in use by another launcher", done.stderr)

    def test_any_program_gets_the_variables(self):
        done = run("launch", "--ranks", "3", "--", "sh", "-c",
                   "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR "
                   "${#WICK_JOB_TOKEN}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"{r} {r} 3 3 127.0.0.1 32" for r in range(3)])

    def test_the_first_failure_is_named_and_the_others_are_ended(self):
        start = time.monotonic()
        done = run("launch", "--ranks", "3", "--", "sh", "-c",
                   'if [ $RANK = 1 ]; then exit 7; elif [ $RANK = 2 ]; then sleep 60; fi')
        self.assertEqual(done.returncode, 7)
        self.assertIn("rank 1 of 3 failed with exit code 7; rank 2 of 3 did not end", done.stderr)
        self.assertLess(time.monotonic() - start, 30)
        done = run("launch", "--ranks", "2", "--", "sh", "-c", "[ $RANK = 1 ] || kill -9 $$")
        self.assertEqual(done.returncode, 128 + 9)
        self.assertIn("rank 0 of 2 was killed by SIGKILL", done.stderr)

    def test_restarts_are_counted(self):
        count = self.folder / "count"
        done = run("launch", "--ranks", "2", "--max-restarts", "2", "--", "sh", "-c",
                   f'echo $RANK $WICK_RESTARTS >> {count}; exit $RANK')
        self.assertEqual(done.returncode, 1)
        self.assertIn("restart 2 of 2", done.stderr)
        self.assertEqual(sorted(count.read_text().splitlines()),
                         sorted(f"{r} {k}" for r in range(2) for k in range(3)))

    def test_a_crash_while_stopping_is_a_crash(self):
        launcher = subprocess.Popen(
            [WICK, "launch", "--ranks", "2", "--", "sh", "-c",
             f"trap 'kill -ABRT $$' TERM; touch {self.folder}/$RANK; while :; do sleep 0.05; done"],
            stderr=subprocess.PIPE, text=True)
        while len(list(self.folder.iterdir())) < 2:
            time.sleep(0.01)
        launcher.send_signal(signal.SIGTERM)
        stderr = launcher.communicate(timeout=60)[1]
        self.assertEqual(launcher.returncode, 128 + signal.SIGABRT, stderr)
        self.assertIn("was killed by SIGABRT", stderr)

    def test_nothing_outlives_a_killed_launcher(self):
        for how in [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]:
            token = f"drill-{os.getpid()}-{how}"
            launcher = subprocess.Popen([WICK, "launch", "--ranks", "3", "--", "sleep", "600"],
                                        env={**os.environ, "DRILL": token},
                                        stderr=subprocess.DEVNULL)
            while len(left_over(token)) < 4:
                time.sleep(0.01)
            launcher.send_signal(how)
            self.assertNotEqual(launcher.wait(20), 0)
            end = time.monotonic() + 10
            while left_over(token) and time.monotonic() < end:
                time.sleep(0.01)
            self.assertEqual(left_over(token), [])


class Training(RanksCase):
    def test_ranks_learn_what_one_learns(self):
        alone = self.train("alone")
        done = run("train", "--run-dir", self.folder / "two", *SMALL, "--ranks", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("hardware"), 1)
        self.assertIn("2, 50 images of each step on each", done.stdout)
        two = self.folder / "two"
        self.check_losses(two, losses(alone), 1e-4)
        accuracy = lambda folder: lines(folder)[-1]["test_accuracy"]
        self.assertLess(abs(accuracy(two) - accuracy(alone)), 0.01)
        again = run("eval", "--run-dir", two, "--json")
        self.assertEqual(json.loads(again.stdout)["test_accuracy"], accuracy(two))
        launched = run("launch", "--ranks", "2", "--", "train", "--run-dir", self.folder / "again",
                       *SMALL)
        self.assertEqual(launched.returncode, 0, launched.stderr)
        self.assertEqual(sha256(self.folder / "again" / "weights.safetensors"),
                         sha256(two / "weights.safetensors"))

    def test_scaled_accumulated_clipped_averaged_steps(self):
        words = ["--amp", "fp16", "--ema", "0.9", "--clip-norm", "1", "--accumulate", "2",
                 "--max-steps", "12", "--schedule", "constant"]
        alone = self.train("alone", *words)
        two = self.train("two", *words, "--ranks", "2")
        self.check_losses(two, losses(alone), 2e-2)  # float16 sums in other orders

    def test_batch_norm_over_all_ranks(self):
        words = ["--model", "resnet20", "--data", "mnist", "--data-dir", data_folder.name,
                 "--batch-size", "8", "--max-steps", "3", "--eval-every", "0", "--threads", "1",
                 "--schedule", "constant"]
        alone = self.train("alone", size=words)
        synchronised = self.train("synchronised", "--ranks", "2", "--sync-batch-norm", size=words)
        self.check_losses(synchronised, losses(alone), 1e-2)
        self.assertLess(abs(losses(synchronised)[0] - losses(alone)[0]), 1e-4)
        plain = self.train("plain", "--ranks", "2", size=words)
        self.assertGreater(abs(losses(plain)[0] - losses(alone)[0]), 1e-4)

    def test_nccl_between_simulated_gpus(self):
        if "simulated" not in run("doctor").stdout:
            self.skipTest("no simulated GPU in this build")
        words = ["--device", "cuda", "--max-steps", "3", "--eval-every", "0"]
        alone = self.train("alone", *words)
        done = run("train", "--run-dir", self.folder / "two", *SMALL, *words, "--ranks", "2",
                   "--backend", "nccl", WICK_SIM_DEVICES="2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tensors by NCCL", done.stdout)
        self.check_losses(self.folder / "two", losses(alone), 1e-4)

    def test_a_broken_gpu_ends_all_by_its_own_exit_code(self):
        if "simulated" not in run("doctor").stdout:
            self.skipTest("no simulated GPU in this build")
        words = ["--device", "cuda", "--ranks", "2", "--backend", "nccl"]
        self.train("run", *words, code=75, WICK_SIM_DEVICES="2", WICK_SIM_BREAK="2000")

    def test_a_run_goes_on_with_another_number_of_ranks(self):
        words = ["--schedule", "constant", "--augment", "color"]
        whole = self.train("whole", *words, "--max-steps", "30")
        folder = self.train("run", *words, "--max-steps", "7", "--ranks", "2")
        for steps, ranks in [(20, 4), (25, 1), (30, 2)]:
            done = run("train", "--run-dir", folder, "--resume", "--max-steps", steps, "--ranks",
                       ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([x["step"] for x in lines(folder) if "loss" in x], list(range(1, 31)))
        self.check_losses(folder, losses(whole), 1e-3)

    def test_a_shared_optimizer_state(self):
        words = ["--schedule", "constant", "--max-steps", "24"]
        whole = self.train("whole", *words, "--ranks", "2")
        shared = self.train("shared", *words, "--ranks", "2", "--zero")
        for file in ["weights", "checkpoints/step-*/optimizer"]:
            a, b = ([sha256(path) for path in sorted(folder.glob(f"{file}.safetensors"))]
                    for folder in (whole, shared))
            self.assertEqual(a, b)
            self.assertTrue(a)
        folder = self.train("run", *words[:-1], "5", "--ranks", "2", "--zero")
        for steps, ranks in [(15, 4), (20, 1), (24, 2)]:
            done = run("train", "--run-dir", folder, "--resume", "--max-steps", steps, "--ranks",
                       ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.check_losses(folder, losses(whole), 1e-3)

    def test_an_interrupted_run_goes_on_to_the_same_bytes(self):
        size = [*SMALL[:-1], "20"]  # 200 steps, so that there is time to stop
        wanted = sha256(self.train("whole", "--ranks", "2", size=size) / "weights.safetensors")
        folder = self.folder / "run"
        launcher = subprocess.Popen([WICK, "train", "--run-dir", str(folder), *size, "--ranks",
                                     "2"], stdout=subprocess.DEVNULL)
        metrics = folder / "metrics.jsonl"
        while not (metrics.exists() and '"step":120,' in metrics.read_text()):
            self.assertIsNone(launcher.poll(), "ended before it could be stopped")
            time.sleep(0.002)
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(launcher.wait(60), 130)
        done = run("train", "--run-dir", folder, "--resume", "--ranks", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sha256(folder / "weights.safetensors"), wanted)

    def test_a_signal_in_the_middle_of_a_product_spoils_nothing(self):
        """A kernel may have the stack pointer in its workspace, where a handler's frame would
        overwrite what lies below. Handlers have a stack of their own."""
        size = [*MLP, "--epochs", "100000", "--batch-size", "1000", "--eval-every", "0"]
        for i in range(8):
            folder = self.folder / str(i)
            process = subprocess.Popen([WICK, "train", "--run-dir", str(folder), *size],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            while not ((folder / "metrics.jsonl").exists() and lines(folder)):
                self.assertIsNone(process.poll(), "ended before it could be stopped")
                time.sleep(0.002)
            time.sleep(0.007 * i)
            process.send_signal(signal.SIGINT)
            stderr = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 130, stderr)

    def test_killed_ranks_are_started_again_to_the_same_bytes(self):
        size = [*MLP, "--epochs", "3", "--threads", "1", "--batch-size", "100"]  # sixty steps
        wanted = sha256(self.train("whole", "--ranks", "2", size=size) / "weights.safetensors")
        folder = self.folder / "run"
        flight = self.folder / "flight"
        job = Job(WICK, "train", "--run-dir", str(folder), *size, "--ranks", "2",
                  "--max-restarts", "3", "--flight", str(flight))
        for step, rank in [(5, 1), (25, 0), (45, 1)]:
            job.wait_for_step(folder, step)
            job.kill_a_rank(rank)
        code, stderr = job.wait(120)
        self.assertEqual(code, 0, stderr)
        self.assertIn("restart 3 of 3", stderr)
        for records, rank in [(flight, 1), (flight / "restart-1", 0), (flight / "restart-2", 1)]:
            told = run("doctor", "--flight", records)
            self.assertIn(f"to blame: rank {rank} left no record", told.stdout, told.stderr)
        self.assertEqual(sha256(folder / "weights.safetensors"), wanted)
        self.assertEqual([x["step"] for x in lines(folder) if "loss" in x], list(range(1, 61)))

    def test_what_fails_on_one_ends_all(self):
        (self.folder / "run").mkdir()
        (self.folder / "run" / "metrics.jsonl").symlink_to("/dev/full")
        done = run("train", "--run-dir", self.folder / "run", *SMALL, "--ranks", "2")
        self.assertEqual(done.returncode, 74)
        self.assertIn("rank 0 of 2: run folder: cannot write", done.stderr)
        self.assertRegex(done.stderr, "rank 1 of 2: .*rank 0")
        self.assertIn("wick: rank 0 of 2 failed with exit code 74", done.stderr)


def record(rank, size, asked, failure="", done=None):
    """A flight record of collectives 1, 2, ..., of which the first `done` are done."""
    done = len(asked) - 1 if done is None else done
    return {"rank": rank, "size": size, "failure": failure, "collectives": [
        {"sequence": i + 1, "op": what.split(" ")[0], "description": what, "bytes": 4,
         "state": "done" if i < done else "failed", "queued_us": 1, "begin_us": 1, "end_us": 2}
        for i, what in enumerate(asked)]}


def reduce(n, shape="[10]"):
    return f"all_reduce #{n} (sum, float32 {shape})"


class Flight(RanksCase):
    def doctor(self, *records, code=0):
        for path in self.folder.iterdir():
            path.unlink()
        for i, one in enumerate(records):
            text = one if isinstance(one, str) else json.dumps(one)
            (self.folder / f"flight-{i}.json").write_text(text)
        done = run("doctor", "--flight", self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else done.stdout

    def test_who_asked_for_something_else(self):
        same = [reduce(1), reduce(2), reduce(3)]
        other = [reduce(1), reduce(2, "[11]"), reduce(3)]
        text = self.doctor(record(0, 3, same), record(1, 3, other), record(2, 3, same))
        self.assertIn("to blame: rank 1 asked for all_reduce #2 (sum, float32 [11]) where ranks 0 "
                      "and 2 asked for all_reduce #2 (sum, float32 [10])", text)

    def test_who_did_not_come(self):
        same = [reduce(1), reduce(2), reduce(3)]
        text = self.doctor(record(0, 3, same), record(1, 3, same), record(2, 3, same[:2]))
        self.assertIn("rank 2 did not come to all_reduce #3", text)
        text = self.doctor(record(0, 3, same), record(1, 3, same))
        self.assertIn("rank 2 left no record", text)
        self.assertIn("waited for all_reduce #3", text)

    def test_who_failed_by_itself(self):
        same = [reduce(1), reduce(2)]
        text = self.doctor(record(0, 2, same, "all_reduce #2: rank 1 failed: a bad image"),
                           record(1, 2, same, "a bad image"))
        self.assertIn("to blame: rank 1 failed: a bad image", text)

    def test_nobody(self):
        text = self.doctor(record(0, 2, [reduce(1)], done=1), record(1, 2, [reduce(1)], done=1))
        self.assertIn("nobody to blame", text)

    def test_records_of_any_content(self):
        good = record(0, 2, [reduce(1)])
        hostile = ["", "[]", "{}", "\0", "[" * 10**5, '{"rank":0}', "9" * 10**5,
                   json.dumps({**good, "rank": 2}), json.dumps({**good, "rank": -1}),
                   json.dumps({**good, "size": 10**30}), json.dumps({**good, "size": 1e5}),
                   json.dumps({**good, "collectives": {"sequence": 1}}),
                   json.dumps({**good, "collectives": [7]}),
                   json.dumps({**good, "collectives": [{"sequence": -1}]}),
                   json.dumps({**good, "collectives": [{"sequence": 2}, {"sequence": 1}]}),
                   json.dumps({**good, "failure": "x" * 2 * 10**6})]
        text = self.doctor(good, *hostile)
        self.assertEqual(len(text.splitlines()), len(hostile) + 3, text)
        for one in hostile:
            self.assertLess(len(self.doctor(one, code=1)), 700)
        evil = record(1, 2, ["all_reduce \x1b[2J\n" + "y" * 10**4], "\x1b]0;title\a")
        self.assertNotIn("\x1b", self.doctor(good, evil))
        self.assertIn("two logs of rank 0", self.doctor(good, good, code=1))
        self.assertIn("different jobs", self.doctor(good, record(1, 3, [reduce(1)]), code=1))
        self.assertIn("holds no flight log", self.doctor(code=1))


if __name__ == "__main__":
    unittest.main()
