"""Tests `wick data`: data_test.py PATH-OF-WICK. Downloads come from a server in this process."""

import hashlib
import http.server
import io
import json
import os
import pathlib
import random
import resource
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
import unittest

from png import png
from programs import InFolder, run_program

WICK = sys.argv.pop(1)


def mnist_files():
    """MNIST's four files with a few hundred images of noise, below a megabyte together."""
    files = {}
    for name, count in [("train", 600), ("t10k", 100)]:
        noise = random.Random(count)
        pixels = noise.getrandbits(8 * 784 * count).to_bytes(784 * count, "little")
        labels = bytes(noise.randrange(10) for _ in range(count))
        # Not compressed: what the reader does with that is tested elsewhere.
        files[f"{name}-images-idx3-ubyte.gz"] = struct.pack(">4I", 0x803, count, 28, 28) + pixels
        files[f"{name}-labels-idx1-ubyte.gz"] = struct.pack(">2I", 0x801, count) + labels
    return files


def cifar_tar(evil=False):
    """CIFAR-10's archive with three images per file, between members that must not be unpacked."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        def add(name, content=b"", **fields):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
        add("cifar-10-batches-bin", type=tarfile.DIRTYPE)
        add("../escaped", b"no")
        add("/tmp/wick-escaped", b"no")
        add("link", type=tarfile.SYMTYPE, linkname="..")
        add("link/escaped", b"no")
        for i, name in enumerate([f"data_batch_{b}.bin" for b in range(1, 6)] + ["test_batch.bin"]):
            if evil and i == 3:
                add(f"cifar-10-batches-bin/{name}", type=tarfile.SYMTYPE, linkname="/etc/passwd")
            else:
                image = bytes([i]) + bytes(3072)
                add(f"cifar-10-batches-bin/{name}", 3 * image)
    return out.getvalue()


class Server(http.server.ThreadingHTTPServer):
    """Serves /HOW/NAME: good; norange (takes no ranges); cut (half of it, but the length of all,
    unless asked for a range); wrong (other bytes); stall (a little, then nothing); more (with bytes
    added); gone (an error)."""
    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.asked = []  # paths and ranges
        self.closing = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # clients that leave early are what some tests are about

    def url(self, how):
        return f"http://127.0.0.1:{self.server_port}/{how}"

    def stop(self):
        self.closing.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        how, name = self.path.strip("/").split("/", 1)
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        content = self.server.files.get(name)
        if content is None or how == "gone":
            self.send_error(404)
            return
        if how == "wrong":
            content = bytes(len(content))
        if how == "more":
            content += b"more"
        start = 0
        if wanted and how != "norange":
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if how == "cut" and not wanted:
            content = content[:len(content) // 2]
        if how == "stall":
            self.wfile.write(content[:100])
            self.server.closing.wait(60)
            return
        self.wfile.write(content[start:])


class DataCase(InFolder):
    def wick(self, *words, code=0, **variables):
        variables = {"XDG_CACHE_HOME": str(self.folder / "cache"), **variables}
        done = run_program(WICK, *words, **variables)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stderr if code else done.stdout

    def write_mnist(self):
        for name, content in mnist_files().items():
            (self.folder / name.removesuffix(".gz")).write_bytes(content)


class Fetch(DataCase):
    def setUp(self):
        super().setUp()
        self.files = {**mnist_files(), "cifar-10-binary.tar.gz": cifar_tar()}
        self.server = Server(self.files)
        self.mnist = self.folder / "cache/wick/mnist"

    def tearDown(self):
        self.server.stop()
        super().tearDown()

    def fetch(self, how, *words, name="mnist", code=0, **variables):
        sums = self.folder / "sums"
        sums.write_text("".join(f"{hashlib.sha256(content).hexdigest()}  {file}\n"
                                for file, content in self.files.items()))
        return self.wick("data", "fetch", name, "--url", self.server.url(how), "--sums", sums,
                         *words, code=code, **variables)

    def check_mnist(self):
        for name, content in mnist_files().items():
            self.assertEqual((self.mnist / name).read_bytes(), content)
            self.assertFalse((self.mnist / f"{name}.part").exists())

    def test_training_finds_what_was_fetched(self):
        self.assertIn("wick data fetch mnist",
                      self.wick("train", "--data", "mnist", "--print-config", code=2))
        self.assertIn("wick train --data mnist\n", self.fetch("good"))
        self.check_mnist()
        self.wick("train", "--data", "mnist", "--model", "mlp", "--max-steps", "2", "--run-dir",
                  self.folder / "run")
        count = len(self.server.asked)
        self.fetch("good")  # everything is there
        self.assertEqual(len(self.server.asked), count)

    def test_goes_on_where_it_stopped(self):
        self.mnist.mkdir(parents=True)
        name = "train-images-idx3-ubyte.gz"
        for how, expected in [("good", "bytes=1000-"), ("norange", None)]:
            (self.mnist / name).unlink(missing_ok=True)
            (self.mnist / f"{name}.part").write_bytes(self.files[name][:1000])
            self.server.asked.clear()
            self.fetch(how)
            self.check_mnist()
            self.assertEqual(self.server.asked[-1 if how == "norange" else 0],
                             (f"/{how}/{name}", expected))
            if how == "norange":
                self.assertEqual(len(self.server.asked), 2)

    def test_what_was_there_may_be_another_file(self):
        self.mnist.mkdir(parents=True)
        name = "train-images-idx3-ubyte.gz"
        (self.mnist / f"{name}.part").write_bytes(b"x" * 1000)
        self.fetch("good")
        self.check_mnist()

    def test_a_cut_answer_is_an_error_after_which_it_goes_on(self):
        self.assertIn("train-images-idx3-ubyte.gz", self.fetch("cut", code=1))
        self.assertEqual(list(self.mnist.glob("*.gz")), [])
        for _ in range(3):
            self.fetch("cut", code=1)
        self.fetch("cut")
        self.check_mnist()
        self.assertTrue(all(wanted for _, wanted in self.server.asked[1::2]), self.server.asked)

    def test_wrong_content_is_never_used(self):
        for how in ("wrong", "more"):
            message = self.fetch(how, code=1)
            self.assertIn("wrong content", message)
            self.assertIn("expected " + hashlib.sha256(
                self.files["train-images-idx3-ubyte.gz"]).hexdigest(), message)
            self.assertEqual(list(self.mnist.glob("*.gz")), [])
        self.fetch("good")
        self.check_mnist()

    def test_known_sizes_bound_a_download(self):
        message = self.wick("data", "fetch", "mnist", "--url", self.server.url("good"), code=1)
        self.assertIn("wrong content", message)  # shorter than the real one
        self.files["train-images-idx3-ubyte.gz"] = bytes(9912422 + 5)
        message = self.wick("data", "fetch", "mnist", "--url", self.server.url("good"), code=1)
        self.assertIn("got more than 9912422 bytes", message)

    def test_a_server_that_stalls_is_left(self):
        begin = time.monotonic()
        message = self.fetch("stall", "--timeout", "1", code=1)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertIn("too slow", message)

    def test_errors_say_what_to_do(self):
        self.assertIn("404", self.fetch("gone", code=1))
        self.assertEqual(list(self.mnist.iterdir()), [])
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            message = self.wick("data", "fetch", "mnist", "--url",
                                f"http://127.0.0.1:{closed.getsockname()[1]}/x", code=1)
        for part in ("connect", "Without a network: put train-images-idx3-ubyte.gz",
                     str(self.mnist), "--url"):
            self.assertIn(part, message)
        self.assertEqual(len(message.splitlines()), 1)
        self.assertIn("package curl", self.fetch("good", code=1, PATH=str(self.folder)))
        self.assertIn("Did you mean cifar10?", self.wick("data", "fetch", "cifar1", code=2))
        self.assertIn("expected http", self.wick("data", "fetch", "mnist", "--url", "file:///etc",
                                                 code=1))
        (self.folder / "bad").write_text("123 train-images-idx3-ubyte.gz\n")
        self.assertIn("not a SHA-256", self.wick("data", "fetch", "mnist", "--sums",
                                                 self.folder / "bad", code=1))

    def test_archives_are_unpacked_within_their_folder(self):
        self.fetch("good", "--cache-dir", self.folder / "elsewhere", name="cifar10")
        here = self.folder / "elsewhere/cifar10"
        found = sorted(str(p.relative_to(here)) for p in here.rglob("*") if not p.is_dir())
        self.assertEqual(found, [f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)] +
                         ["cifar-10-batches-bin/test_batch.bin"])
        self.assertFalse((self.folder / "elsewhere/escaped").exists())
        self.assertFalse(pathlib.Path("/tmp/wick-escaped").exists())
        report = json.loads(self.wick("data", "check", "--data", "cifar10", "--data-dir", here,
                                      "--json"))
        self.assertEqual(report["images"], 18)

    def test_links_in_archives_are_errors(self):
        self.files["cifar-10-binary.tar.gz"] = cifar_tar(evil=True)
        self.assertIn("not a plain file", self.fetch("good", name="cifar10", code=1))


class PackAndCheck(DataCase):
    def test_training_is_the_same_from_a_packed_file(self):
        self.write_mnist()
        packed = self.folder / "set.pack"
        words = self.wick("data", "pack", "--data", "mnist", "--data-dir", self.folder, "--out",
                          packed)
        self.assertIn("600 images to train on and 100 to test with, 10 classes", words)
        losses = []
        for data, where in [("mnist", self.folder), ("packed", packed)]:
            run = self.folder / f"run-{data}"
            self.wick("train", "--data", data, "--data-dir", where, "--model", "mlp", "--epochs",
                      "1", "--run-dir", run)
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            losses.append([line["loss"] for line in lines if "loss" in line])
        self.assertGreater(len(losses[0]), 3)
        self.assertEqual(losses[0], losses[1])

    def test_packing_says_what_is_wrong(self):
        self.write_mnist()
        pack = ["data", "pack", "--data", "mnist", "--data-dir", self.folder, "--out"]
        self.assertIn("--raw and --jpeg", self.wick(*pack, self.folder / "p", "--raw", "--jpeg",
                                                    code=2))
        self.assertIn("grey", self.wick(*pack, self.folder / "p", "--jpeg", code=1))
        self.assertIn("no/such", self.wick(*pack, self.folder / "no/such/p", code=1))
        self.assertFalse((self.folder / "p").exists())

    def test_check_lists_what_is_bad(self):
        self.write_mnist()
        check = ["data", "check", "--data", "mnist", "--data-dir", self.folder]
        self.assertIn("700 images, 0 bad", self.wick(*check))
        images = self.folder / "train-images-idx3-ubyte"
        images.write_bytes(images.read_bytes()[:-1])
        done = subprocess.run([WICK, *map(str, check), "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        bad = json.loads(done.stdout)["bad"]
        self.assertEqual(len(bad), 1)
        self.assertIn(str(images), bad[0]["reason"])

    def test_check_reads_the_content_of_a_packed_file(self):
        self.write_mnist()
        packed = self.folder / "set.pack"
        self.wick("data", "pack", "--data", "mnist", "--data-dir", self.folder, "--out", packed)
        check = ["data", "check", "--data", "packed", "--data-dir", packed]
        self.wick(*check)
        content = bytearray(packed.read_bytes())
        content[500] ^= 1
        packed.write_bytes(content)
        self.wick(*check, code=1)


def jpeg_like(content):
    """What begins as a JPEG does."""
    return b"\xff\xd8\xff" + content


class Hostile(DataCase):
    """What is wrong with files and folders is said in one line; nothing is left half-written."""

    def png_folder(self, folder, good=3):
        """An image folder of two classes, with `good` images in each part of one."""
        for part in ("train", "test"):
            for name in ("ant", "bee"):
                (folder / part / name).mkdir(parents=True)
                for i in range(good):
                    (folder / part / name / f"{i}.png").write_bytes(png(20 + i))

    def says(self, *words, code=1, part=""):
        done = subprocess.run([WICK, *map(os.fsencode, map(os.fspath, words))], capture_output=True,
                              timeout=120, cwd=self.folder)
        text = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, text)
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertIn(part, text)

    def test_mistakes_of_use_have_code_2(self):
        for command in (["pack", "--out", "p"], ["check"]):
            self.says("data", *command, "--data", "mnits", code=2, part="Did you mean mnist?")
            self.says("data", *command, "--data", "imagefolder", code=2, part="--data-dir: data")
            self.says("data", *command, "--data", "packed", code=2, part="wick data pack")
        self.says("data", "pack", "--data", "shapes10", "--out", "", code=2, part="empty")
        self.says("data", "check", "--data", "shapes10", "--max-image-pixels", "0", code=2)
        self.says("train", "--data", "imagefolder", "--data-dir", b"\xff", code=2, part="UTF-8")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_folders_that_are_none(self):
        (self.folder / "loop").symlink_to("loop")
        (self.folder / "file").write_bytes(b"x")
        (self.folder / "empty").mkdir()
        for name in ("loop", "file", "empty", "gone", "loop/x"):
            for data in ("mnist", "cifar10", "imagefolder"):
                self.says("data", "pack", "--out", "p", "--data", data, "--data-dir", name,
                          part=name)
            self.says("train", "--data", "packed", "--data-dir", name, "--run-dir", "run",
                      part=name)
        self.says("tune", "loader", "--data", "mnist", "--data-dir", "gone", "--run-dir", "tuned",
                  part="gone")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["empty", "file", "loop"])

    def test_images_that_are_none(self):
        self.png_folder(self.folder)
        bees = self.folder / "train/bee"
        for name, content in [("empty.jpg", b""), ("cut.jpg", jpeg_like(b"\xe0\x00\x10")),
                              ("text.png", b"hello")]:
            (bees / name).write_bytes(content)
        os.mkfifo(bees / "fifo.png")
        (bees / "loop.jpg").symlink_to("loop.jpg")
        (bees / "gone.jpg").symlink_to("nowhere")
        os.symlink("0.png", os.fsencode(bees) + b"/\xff\xfe.png")
        check = ["data", "check", "--data", "imagefolder", "--data-dir", self.folder]
        report = json.loads(subprocess.run([WICK, *map(str, check), "--json"], timeout=60,
                                           capture_output=True).stdout)
        self.assertEqual(sorted(pathlib.Path(bad["name"]).name for bad in report["bad"]),
                         ["cut.jpg", "empty.jpg", "fifo.png", "gone.jpg", "loop.jpg", "text.png"])
        train = ["train", "--data", "imagefolder", "--data-dir", self.folder, "--model", "mlp",
                 "--image-size", "16", "--max-steps", "1", "--batch-size", "30", "--run-dir"]
        self.says(*train, "run", part="train/bee/")
        words = self.wick(*train, self.folder / "skipping", "--on-bad-sample", "skip")
        self.assertIn("left out 6 times an image", words)
        self.says("data", "pack", "--data", "imagefolder", "--data-dir", self.folder, "--out", "p",
                  part="train/bee/")
        self.assertFalse((self.folder / "p").exists())

    def test_a_set_of_which_nothing_can_be_read(self):
        self.png_folder(self.folder)
        for path in self.folder.rglob("*.png"):
            path.write_bytes(jpeg_like(b""))
        where = ["--data", "imagefolder", "--data-dir", self.folder, "--model", "mlp",
                 "--image-size", "16", "--on-bad-sample", "skip", "--run-dir"]
        self.says("train", *where, "a", part="no sample of an epoch could be read, the last")
        self.says("tune", "loader", *where, "b", "--seconds", "0.01",
                  part="no sample of an epoch could be read, the last")

    def test_limits_for_images_are_flags(self):
        self.png_folder(self.folder)
        self.says("train", "--data", "imagefolder", "--data-dir", self.folder, "--model", "mlp",
                  "--image-size", "16", "--max-image-pixels", "100", "--run-dir", "run",
                  part="image too large")
        self.says("data", "pack", "--data", "imagefolder", "--data-dir", self.folder, "--out", "p",
                  "--max-image-pixels", "100", "--raw", part="image too large")

    def test_a_packed_file_that_shrinks_while_it_is_used(self):
        packed = self.folder / "p"
        self.wick("data", "pack", "--data", "shapes10", "--out", packed)
        run = subprocess.Popen(
            [WICK, "train", "--data", "packed", "--data-dir", packed, "--model", "mlp", "--epochs",
             "1000", "--run-dir", self.folder / "run", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        run.stdout.readline()
        os.truncate(packed, 4096)
        _, said = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 1, said)
        self.assertIn("cannot be read any more", said)

    def test_a_killed_pack_leaves_nothing(self):
        command = [WICK, "data", "pack", "--data", "shapes10", "--jpeg", "--out",
                   self.folder / "p"]
        for delay in (0.05, 0.3):
            run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            time.sleep(delay)
            run.kill()
            if run.wait() == 0:
                (self.folder / "p").unlink()
            left = list(self.folder.iterdir())
            self.assertFalse([p for p in left if not p.name.startswith("p.tmp-")], left)

    def test_limits_are_numbers(self):
        for flag in ["--max-image-pixels", "--max-image-seconds"]:
            for value in ["nan", "-nan", "-1", "inf", "many"]:
                with self.subTest(flag=flag, value=value):
                    error = self.wick("data", "check", "--data", "shapes10", f"{flag}={value}",
                                      code=2)
                    self.assertTrue(error.startswith(f"wick: {flag}: "), error)

    def test_unknown_words_name_the_command_they_are_none_of(self):
        for words, flags in [(["data", "pack"], ["--data", "shapes10", "--out", "p"]),
                             (["tune", "lr"], []), (["train"], []), ([], [])]:
            error = self.wick(*words, *flags, "--foo", code=2)
            self.assertTrue(error.endswith(f" See {' '.join(['wick', *words])} --help\n"), error)

    def test_a_full_disk(self):
        for most in (2000, 1 << 20):
            done = subprocess.run([WICK, "data", "pack", "--data", "shapes10", "--out", "p"],
                                  capture_output=True, text=True, cwd=self.folder,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                                        (most, most)))
            self.assertEqual(done.returncode, 74)
            self.assertIn("cannot write p: File too large", done.stderr)
            self.assertEqual(list(self.folder.iterdir()), [])


class Device(DataCase):
    """Training whose images a GPU, which may be simulated, crops, flips and normalises."""

    def train(self, name, *words, code=0):
        run = self.folder / name
        self.wick("train", "--data", "fashion-mnist", "--data-dir", self.folder, "--model", "mlp",
                  "--device", "cuda", "--epochs", "2", "--batch-size", "100", "--random-erasing",
                  "0.5", "--mixup", "0.2", "--eval-every", "0", "--schedule", "constant",
                  "--run-dir", run, *words, code=code)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if "loss" in line]

    def test_workers_and_resuming_change_nothing(self):
        doctor = subprocess.run([WICK, "doctor"], capture_output=True, text=True).stdout
        if "cuda:0" not in doctor:
            self.skipTest("no GPU, nor a simulated one")
        self.write_mnist()
        losses = self.train("a", "--workers", "0")
        self.assertEqual(len(losses), 12)
        self.assertEqual(self.train("b", "--workers", "3"), losses)
        self.train("c", "--workers", "2", "--max-steps", "8")
        self.assertEqual(self.train("c", "--resume", "--max-steps", "12"), losses)


if __name__ == "__main__":
    unittest.main()
