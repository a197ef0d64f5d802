#!/usr/bin/env python3
"""The programs of the tutorials.

usage: tutorials.py extract PAGE FOLDER  writes the programs of a page to a folder
       tutorials.py run PAGE WORD...     runs a page's program in an empty folder, and compares what
                                         it prints with the page's block of text
       tutorials.py --self-test          checks both

The blocks of C++ of a page are, in their order, one source named after the page. A block that
begins ```cpp title="FILE" belongs to FILE. Numbers that a program prints may differ from the page.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from snippets import blocks

TITLE = re.compile(r'cpp(?: title="([\w.]+)")?')


def sources(page):
    """The text of each source of a page, by its name."""
    texts = {}
    for info, _, start, lines in blocks(page.read_text().splitlines()):
        found = TITLE.fullmatch(info)
        if found:
            text = texts.setdefault(found[1] or f"{page.stem}.cpp", [])
            text += [f'#line {start} "{page}"', *lines, ""]
    return {name: "\n".join(lines) for name, lines in texts.items()}


def extract(page, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in sources(page).items():
        path = folder / name
        if not path.exists() or path.read_text() != text:  # else nothing is to be compiled again
            path.write_text(text)


def without_numbers(lines):
    """`lines` with # for each number, and one space for several."""
    return [re.sub(r" +", " ", re.sub(r"\d+(\.\d+)?(e[-+]\d+)?", "#", line)).strip()
            for line in lines]


def run(page, words):
    expected = [line for info, _, _, lines in blocks(page.read_text().splitlines())
                if info == "text" for line in lines]
    if not expected:
        return f"{page}: no block of text says what the program prints"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300,
                              check=False)
    print(done.stdout + done.stderr, end="")
    if done.returncode != 0:
        return f"{page}: the program ended with {done.returncode}"
    if without_numbers(done.stdout.splitlines()) != without_numbers(expected):
        return f"{page}: the program prints other lines than the page says"
    return None


def self_test():
    with tempfile.TemporaryDirectory() as name:
        page = pathlib.Path(name) / "a.md"
        page.write_text('```cpp\nint x;\n```\n```cpp title="b.h"\nint y;\n```\n'
                        "```cpp\nint z;\n```\n```text\nstep 10: loss 0.5\n```\n")
        extract(page, page.parent / "made")
        found = [path.name for path in sorted((page.parent / "made").iterdir())]
        assert found == ["a.cpp", "b.h"], found
        assert re.search(r"int x;\n\n#line 8 .*\nint z;", (page.parent / "made/a.cpp").read_text())
        assert run(page, ["echo", "step 2: loss 0.25"]) is None
        assert "other lines" in run(page, ["echo", "step 2: accuracy 0.25"])
        assert "ended with 1" in run(page, ["false"])
        page.write_text("no block\n")
        assert "no block of text" in run(page, ["true"])
    print("self-test: passed")


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
    elif len(arguments) == 3 and arguments[0] == "extract":
        extract(pathlib.Path(arguments[1]), pathlib.Path(arguments[2]))
    elif len(arguments) >= 3 and arguments[0] == "run":
        return run(pathlib.Path(arguments[1]), arguments[2:])
    else:
        return __doc__
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
