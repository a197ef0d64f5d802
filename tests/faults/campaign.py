"""Tries to break `wick`: hostile words, damaged files, kills, failing system calls.

campaign.py PATH-OF-WICK [--area NAME ...] [--count N] [--seed N]

Each try that has cores has to end within a minute, by an exit code of the table in
docs/debugging.md, with a sentence where that is not 0; and whatever a run has left, also after a
loss of power, has to be resumed to the same bytes, from no step before the last that was told as
saved. Areas that follow system calls need strace, and are left out without. Two areas are lists, of
which --count takes a sample if it is less than all: every-call (each call of a short run fails,
once and for good, on one rank and on two) and every-step (runs of 40 steps go on from each of
them).
"""
import argparse
import itertools
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools" / "program"))
from jobs import sha256  # noqa: E402
from mnist import write_images  # noqa: E402
import every_step  # noqa: E402
import power_loss  # noqa: E402
import unended  # noqa: E402

CODES = {0, 1, 2, 3, 74, 75, 76, 130}
MOST_SECONDS = 60
MOST_LINES = 12  # of standard error; ranks say one each, and notes come before
CALLS = {  # by what may fail: the errors that it may fail by
    "openat": ["ENOSPC", "EMFILE", "EIO", "EACCES"], "write": ["ENOSPC", "EIO", "EDQUOT"],
    "fsync": ["EIO", "ENOSPC"], "linkat": ["ENOSPC"], "rename": ["ENOSPC", "EIO"],
    "renameat2": ["EINVAL", "EIO"], "mkdir": ["ENOSPC"], "mmap": ["ENOMEM"],
    "clone3": ["EAGAIN"], "clone": ["EAGAIN"], "pread64": ["EIO"], "unlink": ["EIO"],
    "unlinkat": ["EIO"]}
NETWORK = {  # those of ranks and of what starts them
    "socket": ["EMFILE"], "socketpair": ["EMFILE"], "bind": ["EADDRINUSE"],
    "listen": ["EADDRINUSE"], "connect": ["ECONNREFUSED", "ETIMEDOUT"],
    "accept4": ["EMFILE", "ECONNABORTED"], "recvfrom": ["ECONNRESET", "ETIMEDOUT"],
    "sendto": ["EPIPE", "ECONNRESET"], "setsockopt": ["ENOPROTOOPT"], "getsockname": ["ENOBUFS"],
    "poll": ["ENOMEM"], "pipe2": ["EMFILE"], "memfd_create": ["EMFILE"], "ftruncate": ["ENOSPC"],
    "flock": ["ENOLCK"], "fcntl": ["EINVAL"]}
SAVING = "openat,write,fsync,linkat,rename,renameat2,mkdir,unlink,unlinkat,close"
HOSTILE = ["", "--resume", "-1", "0", "nan", "inf", "1e999", "9" * 40, "0x10", "\x1b[31m", "\n",
           "a" * 5000, "../../etc/passwd", "/dev/full", "/dev/zero", "/", ".", "%s%n", "é",
           "\udcff", "[]", "{", "null", "true", "1,2", "auto", "off", "budget=1B", "5min"]


class Finding(Exception):
    """What a try has shown to be wrong."""


class Campaign:
    def __init__(self, wick, seed):
        self.wick = wick
        self.random = random.Random(seed)
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        write_images(self.folder)
        self.words = ["train", "--model", "mlp", "--data", "mnist", "--data-dir", str(self.folder),
                      "--batch-size", "100", "--threads", "1", "--workers", "0", "--max-steps",
                      "12", "--checkpoint-every", "3", "--eval-every", "0"]
        self.whole = self.folder / "whole"
        self.expect(self.run([*self.words, "--run-dir", str(self.whole)]), {0})
        self.wanted = sha256(self.whole / "weights.safetensors")
        self.seconds = self.duration()
        self.flags = [word.split()[0].rstrip(",") for word in
                      self.run(["train", "--help-all"]).stdout.splitlines()
                      for word in [word.strip()] if word.startswith("--")]

    def run(self, words, before=(), **variables):
        try:
            return unended.run([*before, self.wick, *words], MOST_SECONDS, is_traced=bool(before),
                               cwd=self.folder, env={**os.environ, **variables})
        except unended.Unended as error:
            what = "wick " + " ".join(map(os.fsdecode, words))
            raise Finding(f"{what[:400]}: {error}") from None

    def expect(self, done, codes=frozenset(CODES)):
        said = [line for line in done.stderr.splitlines() if not line.startswith("strace: ")]
        if done.returncode not in codes:
            raise Finding(f"exit code {done.returncode}: {done.stderr[-800:]}")
        if done.returncode != 0 and not any(line.startswith("wick: ") for line in said):
            raise Finding(f"exit code {done.returncode} without a sentence: {done.stderr[-800:]}")
        if len(said) > MOST_LINES or "terminate called" in done.stderr:
            raise Finding(f"more than a sentence: {done.stderr[-800:]}")
        return done

    def new_folder(self):
        folder = self.folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def expect_resumed(self, folder, told=-1, words=(), wanted=None):
        """What was left goes on to the same bytes; nothing that was saved is unusable, and there is
        a checkpoint of step `told` or of one after it."""
        if not (folder / "config.json").exists():
            if told >= 0:
                raise Finding(f"step {told} was told as saved, and there is no run")
            return
        steps = [int(path.name[5:]) for path in (folder / "checkpoints").glob("step-*")]
        if max(steps, default=-1) < told:
            raise Finding(f"step {told} was told as saved, and there are {steps}")
        done = self.expect(self.run(["train", "--run-dir", str(folder), "--resume", *words]), {0})
        if "was not used" in done.stderr:
            raise Finding(f"a checkpoint cannot be used: {done.stderr}")
        if sha256(folder / "weights.safetensors") != (wanted or self.wanted):
            raise Finding("other bytes after --resume")

    def duration(self):
        """Of a run that saves each step, and of a process."""
        words = [*self.words, "--run-dir", str(self.folder / "timed")]
        words[words.index("--checkpoint-every") + 1] = "1"
        start = time.monotonic()
        self.expect(self.run(words), {0})
        return time.monotonic() - start

    # The areas: each tries once and returns what it tried, in words.

    def words_(self):
        words = ["train", "--print-config"]
        for _ in range(self.random.randint(1, 3)):
            flag = self.random.choice([*self.flags, "--nonsense", "--batchsize"])
            value = self.random.choice(HOSTILE)
            words += [f"{flag}={value}"] if self.random.random() < 0.3 else [flag, value]
        words = [word for word in words if "\0" not in word]
        yield " ".join(words)
        self.expect(self.run([os.fsencode(w) for w in words]), {0, 1, 2, 74})

    def files(self):
        folder = self.new_folder()
        shutil.copytree(self.whole, folder)
        places = [p for p in sorted(folder.rglob("*")) if p.is_file()]
        place = self.random.choice(places)
        content = bytearray(place.read_bytes())
        how = self.random.choice(["flip", "cut", "empty", "random", "longer"])
        at = self.random.randrange(max(len(content), 1))
        if how == "flip" and content:
            content[at] ^= 1 << self.random.randrange(8)
        elif how == "cut":
            del content[at:]
        elif how == "empty":
            content.clear()
        elif how == "random":
            content[at:at + 16] = self.random.randbytes(16)
        else:
            content += self.random.randbytes(64)
        place.write_bytes(bytes(content))
        yield f"{how} at {at} of {place.relative_to(folder)}"
        name = str(folder)
        self.expect(self.run(["train", "--run-dir", name, "--resume"]))
        self.expect(self.run(["inspect", name]))
        self.expect(self.run(["report", name, "--no-evaluation"]))

    def kills(self):
        """While each save waits for the one before, and while steps go on meanwhile."""
        folder = self.new_folder()
        words = [*self.words, "--run-dir", str(folder), "--json"]
        every = self.random.choice(["1", "2", "5"])
        words[words.index("--checkpoint-every") + 1] = every
        seconds = self.random.random() * self.seconds
        yield f"kill after {seconds:.4f} s, with saves each {every} steps"
        with open(self.folder / "said", "w+b") as said:
            process = subprocess.Popen([self.wick, *words], stdout=said, stderr=subprocess.DEVNULL)
            time.sleep(seconds)
            process.kill()
            process.wait()
            said.seek(0)
            self.expect_resumed(folder, power_loss.told(said.read()))

    def traced(self, inject, *words, log=os.devnull, options=()):
        return self.run(list(words), ["strace", "-f", "-qq", *options, "-o", str(log), "-e",
                                      f"inject={inject}"], ASAN_OPTIONS="detect_leaks=0")

    def fail_calls(self, inject, *words):
        """A run in which calls fail ends as it should."""
        done = self.traced(inject, *words)
        # What fails before main is the loader's to tell: 127, or the shell's way of saying it.
        if done.returncode != 127 and not self.is_of_others(done, inject, words):
            self.expect(done, CODES)

    def is_of_others(self, done, inject, words):
        """Whether what is wrong is not the program's: its sentence could not be written, or the
        loader crashed, without memory for a library."""
        is_mute = inject.startswith("write") and done.returncode in CODES and not done.stderr
        is_crash = inject.startswith("mmap") and done.returncode in (-11, 139)
        if not is_mute and not is_crash:
            return False
        log = self.folder / "stacks.log"
        shutil.rmtree(words[-1], ignore_errors=True)
        self.traced(inject, *words, log=log, options=["-e", "trace=mmap", "-k"] if is_crash else [])
        text = log.read_text()
        return power_loss.failed_in_loader(text) if is_crash else \
            bool(re.search(r"write\(2, .*\(INJECTED\)", text))

    def calls(self):
        folder = self.new_folder()
        call = self.random.choice(sorted(CALLS))
        error = self.random.choice(CALLS[call])
        first = self.random.randint(1, 60)
        for_good = "+" if self.random.random() < 0.5 else ""
        yield f"{call} number {first}{for_good} fails by {error}"
        self.fail_calls(f"{call}:error={error}:when={first}{for_good}", *self.words, "--run-dir",
                        str(folder))
        self.expect_resumed(folder)

    def cuts(self):
        folder = self.new_folder()
        first = self.random.randint(1, 400)
        yield f"killed at call {first} of {SAVING}"
        self.traced(f"{SAVING}:signal=SIGKILL:when={first}", *self.words, "--run-dir", str(folder))
        self.expect_resumed(folder)


    def power(self):
        if not hasattr(self, "disk"):
            folder = self.folder / "followed"
            self.disk = power_loss.Disk(folder)
            words = [*self.words, "--run-dir", str(folder), "--json"]
            words[words.index("--checkpoint-every") + 1] = "1"
            self.disk.follow([self.wick, *words], log=self.folder / "calls.log", cwd=self.folder)
        now = self.random.randrange(self.disk.now + 1)
        seed = self.random.randrange(2**32)
        yield f"power lost after call {now} of {self.disk.now}, in state {seed}"
        folder = self.new_folder()
        self.disk.crash(now, random.Random(seed), folder)
        self.expect_resumed(folder, self.disk.told(now))

    def every_call(self, ranks, call, number, for_good, error):
        yield f"{ranks} ranks, {call} number {number}{for_good} of each thread fails by {error}"
        folder = self.new_folder()
        self.fail_calls(f"{call}:error={error}:when={number}{for_good}", *self.short, "--ranks",
                        ranks, "--run-dir", str(folder))
        self.expect_resumed(folder, words=["--ranks", ranks], wanted=self.short_wanted[ranks])

    def list_calls(self, _):
        """All that each thread of a short run calls, which is followed once."""
        self.short = [*self.words, "--rank-timeout", "10"]
        for flag, value in [("--max-steps", "4"), ("--checkpoint-every", "2")]:
            self.short[self.short.index(flag) + 1] = value
        self.short_wanted, cases = {}, []
        for ranks, calls in [("1", CALLS), ("2", {**CALLS, **NETWORK})]:
            folder, log = self.new_folder(), self.folder / "calls.log"
            self.expect(self.run([*self.short, "--ranks", ranks, "--run-dir", str(folder)],
                                 ["strace", "-f", "-qq", "-o", str(log), "-e",
                                  "trace=" + ",".join(calls)]), {0})
            self.short_wanted[ranks] = sha256(folder / "weights.safetensors")
            most = power_loss.most_calls(log.read_text())
            for call, for_good in itertools.product(sorted(calls), ["", "+"]):
                errors = calls[call]
                cases += [(ranks, call, number, for_good, errors[number % len(errors)])
                          for number in range(1, most.get(call, 0) + 1)]
        return cases

    def every_step(self, what, folder, words, wanted):
        yield what
        self.expect_resumed(folder, words=words, wanted=wanted)
        shutil.rmtree(folder)


AREAS = {"words": (Campaign.words_, 0.6), "files": (Campaign.files, 0.2),
         "kills": (Campaign.kills, 0.08), "calls": (Campaign.calls, 0.06),
         "cuts": (Campaign.cuts, 0.03), "power": (Campaign.power, 0.03),  # and their shares
         "every-call": (Campaign.every_call, 0.03), "every-step": (Campaign.every_step, 0.03)}
LISTS = {"every-call": Campaign.list_calls, "every-step": every_step.list_steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wick")
    parser.add_argument("--area", action="append", choices=sorted(AREAS))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    campaign = Campaign(os.path.abspath(options.wick), options.seed)
    areas = options.area or list(AREAS)
    if shutil.which("strace") is None:
        print("no strace: failing calls are left out")
        areas = [area for area in areas if area not in ("calls", "cuts", "power")]
    shares = sum(AREAS[area][1] for area in areas)
    findings = tries = 0
    for area in areas:
        start = time.monotonic()
        count = max(1, round(options.count * AREAS[area][1] / shares))
        cases = [()] * count
        if area in LISTS:
            cases = LISTS[area](campaign, count)
            cases = campaign.random.sample(cases, min(count, len(cases)))
        for case in cases:
            attempt = AREAS[area][0](campaign, *case)
            what = next(attempt)
            try:
                next(attempt, None)
            except Finding as finding:
                findings += 1
                print(f"FINDING in {area}: {what!r}: {finding}", flush=True)
        tries += len(cases)
        print(f"{area}: {len(cases)} tries in {time.monotonic() - start:.0f} s", flush=True)
    print(f"{tries} tries, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
