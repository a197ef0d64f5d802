"""Tests the manual pages and the completion of shells: shells_test.py PATH-OF-WICK."""

import pathlib
import shutil
import subprocess
import sys
import unittest

from programs import InFolder, run_program

WICK = sys.argv.pop(1)


def output(*words):
    done = run_program(WICK, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Manual(InFolder):
    def test_each_command_has_a_page_with_all_its_flags(self):
        output("man", "--folder", self.folder)
        names = {page.name for page in pathlib.Path(self.folder).iterdir()}
        for name in ["wick.1", "wick-train.1", "wick-tune-lr.1", "wick-data-pack.1"]:
            self.assertIn(name, names)
        page = (self.folder / "wick-train.1").read_text()
        self.assertEqual(page, output("man", "train"))
        for part in ["\\-\\-batch\\-size", "\\-\\-label\\-smoothing", ".SS Loading\n"]:
            self.assertEqual(page.count(part), 1, part)
        self.assertEqual(output("man"), (self.folder / "wick.1").read_text())

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_troff_has_nothing_to_say(self):
        output("man", "--folder", self.folder)
        pages = sorted(map(str, self.folder.iterdir()))
        done = subprocess.run(["groff", "-man", "-ww", "-z", *pages], capture_output=True,
                              text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Completion(InFolder):
    def complete(self, *words):
        """What bash offers for the last of the words."""
        script = self.folder / "wick.bash"
        script.write_text(output("completion", "bash"))
        lines = [f"source {script}", 'COMP_WORDS=("$@")', "COMP_CWORD=$(($# - 1))", "_wick",
                 'echo "${COMPREPLY[@]}"']
        done = subprocess.run(["bash", "-uc", "\n".join(lines), "bash", "wick", *words],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_commands_flags_and_values(self):
        self.assertEqual(self.complete("tr"), ["train"])
        self.assertEqual(self.complete("tune", "l"), ["lr", "loader"])
        self.assertEqual(self.complete("train", "--max-s"), ["--max-skips", "--max-steps"])
        self.assertEqual(self.complete("train", "--json", "--amp", "b"), ["bf16"])
        self.assertEqual(self.complete("tune", "lr", "--schedule", "cos"), ["cosine"])
        self.assertEqual(self.complete("train", "--data-dir", "x"), [])  # files, by bash itself
        self.assertEqual(self.complete("train", "--model", "lenet", "--batch"), ["--batch-size"])
        self.assertEqual(self.complete("eval", "--schedule"), [])

    def test_other_shells_read_their_scripts(self):
        for shell in ["zsh", "fish"]:
            script = self.folder / shell
            script.write_text(output("completion", shell))
            self.assertIn("batch-size", script.read_text())
            if shutil.which(shell):
                done = subprocess.run([shell, "-n", script], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_another_shell_is_an_error(self):
        done = run_program(WICK, "completion", "csh")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "wick: completion: unknown shell: got csh, expected bash, zsh or "
                          "fish\n"))


if __name__ == "__main__":
    unittest.main()
