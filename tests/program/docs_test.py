"""Checks that the commands that README.md and docs/ show exist: docs_test.py PATH-OF-WICK. Every
word and flag of a line of code that begins with wick must be in the help of its command."""

import pathlib
import re
import subprocess
import sys
import unittest

WICK = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ("test", "bench")  # what the script ./wick itself does, or another program
helps = {}


def help_of(words):
    if words not in helps:
        done = subprocess.run([WICK, *words, "--help"], capture_output=True, text=True, timeout=60)
        known = f"Usage: wick {' '.join(words)} " in done.stdout  # else it is that of wick itself
        helps[words] = done.stdout if known else ""
    return helps[words]


def commands():
    """(place, words) of each command of wick in a block of code."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if path.name == "design.md":
            continue  # its one block is a picture of the tree
        inside = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("```"):
                inside = not inside
            for found in re.finditer(r"(?:^|&& *)(?:\./)?wick ([^#|&;]+)", line) if inside else ():
                yield f"{path.name}:{number}", found[1].split()


def wrong(words):
    """What is wrong with a command's words, or nothing."""
    if words[0] in SCRIPTS:
        return None
    if "--" in words:  # what a launcher runs: another program, or wick's own words
        own, rest = words[:words.index("--")], words[words.index("--") + 1:]
        return wrong(own) or (None if "/" in rest[0] else wrong(rest))
    depth = 2 if words[0] in ("tune", "data") and len(words) > 1 else 1
    text = help_of(tuple(words[:depth]))
    if not text:
        return "there is no wick " + " ".join(words[:depth])
    for word in words[depth:]:
        flag = re.match(r"--[a-z-]+", word)
        if flag and not re.search(re.escape(flag[0]) + r"(?![a-z-])", text):
            return f"wick {' '.join(words[:depth])} has no {flag[0]}"
    return None


class Commands(unittest.TestCase):
    def test_they_exist(self):
        found = list(commands())
        self.assertGreater(len(found), 20)
        for place, words in found:
            with self.subTest(place=place):
                self.assertIsNone(wrong(words))

    def test_what_does_not_exist_is_found(self):
        self.assertIn("there is no wick trian", wrong(["trian"]))
        self.assertIn("has no --epoch", wrong(["train", "--epoch", "3"]))
        self.assertIn("train has no --epoch", wrong(["launch", "--", "train", "--epoch", "3"]))


if __name__ == "__main__":
    unittest.main()
