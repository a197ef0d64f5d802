"""Checks README.md and docs/: docs_test.py PATH-OF-WICK. Every word and flag of a line of code that
begins with wick must be in the help of its command, and what the pages of single optimizations
train runs, on a small setting. Each technique of wick study has its page, and links lead to
files."""

import pathlib
import re
import subprocess
import sys
import unittest

from mnist import write_images
from programs import InFolder, run_program

WICK = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPTS = ("test", "bench")  # what the script ./wick itself does, or another program
helps = {}


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def techniques():
    """The page of each technique of wick study, by its name."""
    lines = run_program(WICK, "study", "--list").stdout.splitlines()
    return {line.split()[0]: ROOT / line.split()[-1] for line in lines}


def help_of(words):
    if words not in helps:
        done = run_program(WICK, *words, "--help-all")
        if done.returncode != 0:  # which has no more flags than its help shows
            done = run_program(WICK, *words, "--help")
        known = f"Usage: wick {' '.join(words)} " in done.stdout  # else it is that of wick itself
        helps[words] = done.stdout if known else ""
    return helps[words]


def commands():
    """(place, words) of each command of wick in a block of code."""
    for path in pages():
        inside, begun = False, ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.endswith("\\"):  # the command goes on in the next line
                begun += line[:-1]
                continue
            line, begun = begun + line, ""
            if line.startswith("```"):
                inside = not inside
            for found in re.finditer(r"(?:^|&& *)(?:\./)?wick ([^#|&;]+)", line) if inside else ():
                yield f"{path.relative_to(ROOT)}:{number}", found[1].split()


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


class Commands(InFolder):
    def test_they_exist(self):
        found = list(commands())
        self.assertGreater(len(found), 50)
        for place, words in found:
            with self.subTest(place=place):
                self.assertIsNone(wrong(words))

    def test_those_that_train_do(self):
        write_images(self.folder)
        forced = {"--data": "mnist", "--data-dir": self.folder, "--batch-size": 16,
                  "--max-steps": 2, "--eval-every": 0, "--threads": 1}
        pages_of_techniques = ("docs/optimizations/", "docs/articles.md")
        found = {tuple(words) for place, words in commands()
                 if words[0] == "train" and place.startswith(pages_of_techniques)}
        self.assertGreater(len(found), 30)
        simulated = "simulated" in run_program(WICK, "doctor").stdout
        for number, words in enumerate(sorted(found)):
            own = [word for before, word in zip(("", *words), words)
                   if word not in forced and before not in forced]
            rest = [word for flag in forced.items() for word in flag]
            if "--model" not in own:
                rest += ["--model", "mlp"]
            if "--cuda-graph" in own:  # of a GPU, and auto is never a simulated one
                if not simulated:
                    continue
                rest += ["--device", "cuda"]
            with self.subTest(words=words):
                done = run_program(WICK, *own, *rest, "--run-dir", self.folder / str(number))
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_techniques_named_in_them_exist(self):
        known = set(techniques())
        for place, words in commands():
            if words[0] == "study" and not any(word.startswith("-") for word in words):
                self.assertLessEqual(set(words[1:]), known, place)

    def test_what_does_not_exist_is_found(self):
        self.assertIn("there is no wick trian", wrong(["trian"]))
        self.assertIn("has no --epoch", wrong(["train", "--epoch", "3"]))
        self.assertIn("train has no --epoch", wrong(["launch", "--", "train", "--epoch", "3"]))


class Pictures(unittest.TestCase):
    def test_they_are_what_the_script_draws(self):
        done = subprocess.run([sys.executable, ROOT / "docs/pictures/draw.py", "--check"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Pages(unittest.TestCase):
    def test_every_technique_has_one(self):
        known = techniques()
        self.assertGreaterEqual(len(known), 40)
        contents = (ROOT / "docs/README.md").read_text().splitlines()
        for name, page in known.items():
            with self.subTest(technique=name):
                self.assertRegex(page.read_text(), rf"[` ]{name}[`\s]")
                link = f"]({page.relative_to(ROOT / 'docs')})"
                rows = [row for row in contents if re.search(rf"[| ]{name}[, ]", row)]
                self.assertEqual([link in row for row in rows], [True])

    def test_those_of_optimizations_are_alike(self):
        contents = (ROOT / "docs/README.md").read_text()
        for page in (ROOT / "docs/optimizations").iterdir():
            with self.subTest(page=page.name):
                self.assertIn(f"](optimizations/{page.name})", contents)
                self.assertEqual(re.findall("^## (.*)", page.read_text(), re.M),
                                 ["How", "What it gains", "When it hurts",
                                  "What articles get wrong"])

    def test_tests_that_the_readme_names_exist(self):
        named = re.findall(r"`(tests/[^`*]+)`", (ROOT / "README.md").read_text())
        self.assertGreater(len(named), 5)
        self.assertEqual([path for path in named if not (ROOT / path).exists()], [])

    def test_the_readme_is_short(self):
        lines = (ROOT / "README.md").read_text().splitlines()
        self.assertLessEqual(len(lines), 120)
        self.assertEqual([line for line in lines if len(line) > 100], [])

    def test_code_of_contributing_is_that_of_the_tree(self):
        def squeezed(text):
            return re.sub(r"//.*|\s", "", text)

        sources = [squeezed((ROOT / path).read_text()) for path in (
            "kernels/softmax.h", "core/ops/softmax.cpp", "tests/core/ops/softmax_test.cpp")]
        found = re.findall(r"^```cpp\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(),
                           re.M | re.S)
        self.assertEqual(len(found), len(sources))
        for block, source in zip(found, sources):
            self.assertIn(squeezed(block), source)

    def test_the_site_has_all(self):
        listed = re.findall(r"[ :](\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
        existing = [str(page.relative_to(ROOT)) for page in pages()]
        results = [str(page.relative_to(ROOT)) for page in (ROOT / "bench/results").glob("*.md")]
        self.assertEqual(sorted(listed),
                         sorted([*existing, *results, "CONTRIBUTING.md", "SECURITY.md"]))

    def test_links_lead_to_files(self):
        for page in pages():
            text = page.read_text()
            pictures = re.findall(r'(?:src|srcset)="([^"]+)"', text)
            for target in pictures + re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", text):
                if not target.startswith("http"):
                    self.assertTrue((page.parent / target).exists(), f"{page}: {target}")


if __name__ == "__main__":
    unittest.main()
