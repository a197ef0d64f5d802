"""Tests what the program tells of memory: memory_test.py PATH-OF-WICK."""

import functools
import pathlib
import pickle
import pickletools
import re
import sys
import tempfile
import unittest

from mnist import write_images
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
run = functools.partial(run_program, WICK)

data_folder = tempfile.TemporaryDirectory()
write_images(pathlib.Path(data_folder.name))
MNIST = ["--data", "mnist", "--data-dir", data_folder.name]


class Memory(InFolder):
    program = WICK

    def train(self):
        folder = self.folder / "run"
        done = run("train", "--run-dir", folder, "--model", "mlp", *MNIST, "--threads", "1",
                   "--max-steps", "2", "--memory-history")
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder

    def test_memory_is_shown_over_time(self):
        folder = self.train()
        written = (folder / "memory.pickle").read_bytes()
        found = pickle.loads(written)
        segments, events = found["segments"], found["device_traces"][0]
        for segment in segments:
            blocks = segment["blocks"]
            self.assertEqual(sum(block["size"] for block in blocks), segment["total_size"])
            self.assertEqual(blocks[0]["address"], segment["address"])
        # Undone one by one, the events lead back to what was there before them.
        live = {block["address"]: block["requested_size"] for segment in segments
                for block in segment["blocks"] if block["state"] == "active_allocated"}
        for event in reversed(events):
            if event["action"] == "alloc":
                self.assertEqual(live.pop(event["addr"]), event["size"])
            elif event["action"] == "free_completed":
                self.assertNotIn(event["addr"], live)
                live[event["addr"]] = event["size"]
        self.assertIn("linear", {event["frames"][0]["name"] for event in events})
        # Of all there are, the viewer in the browser knows these and some more.
        self.assertLessEqual({opcode.name for opcode, _, _ in pickletools.genops(written)},
                             {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "BINUNICODE", "LONG1", "NEWTRUE",
                              "NEWFALSE", "TUPLE2", "APPEND", "SETITEM", "STOP"})

    def test_pytorchs_viewer_reads_the_memory(self):
        try:
            from torch.cuda import _memory_viz as viewer
        except ImportError:
            self.skipTest("this Python has no PyTorch")
        folder = self.train()
        found = pickle.loads((folder / "memory.pickle").read_bytes())
        reserved = viewer.Bytes(sum(segment["total_size"] for segment in found["segments"]))
        self.assertIn(f"total_reserved: {reserved}", viewer.segsum(found))  # which checks all sums
        trace = viewer.trace(found)
        count = len(found["device_traces"][0])
        self.assertIn(f"{count} entries", trace)
        self.assertNotIn("{", trace)  # where it prints what it does not know
        for plot in (viewer.trace_plot, viewer.segment_plot):
            self.assertIn("add_local_files", plot(found))

    def test_out_of_memory_tells_what_would_fit(self):
        words = ["train", "--model", "resnet20", *MNIST, "--threads", "1", "--epochs", "1",
                 "--max-steps", "1", "--eval-every", "0"]
        done = run(*words, "--batch-size", "256", "--run-dir", str(self.folder / "all"),
                   WICK_CPU_ALLOC="memory_limit_mb:150")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--checkpoint-activations on would need", done.stderr)
        advice = re.search(r"--batch-size (\d+), or --accumulate (\d+)", done.stderr)
        self.assertIsNotNone(advice, done.stderr)
        for part, flags in [("few", ["--batch-size", advice[1]]),
                            ("parts", ["--batch-size", "256", "--accumulate", advice[2]])]:
            done = run(*words, *flags, "--run-dir", str(self.folder / part),
                       WICK_CPU_ALLOC="memory_limit_mb:150")
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
