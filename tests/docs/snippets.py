#!/usr/bin/env python3
"""Makes a source of tests of the blocks of C++ of pages.

usage: snippets.py SOURCE PAGE                  the page's first block is at the head of every test
       snippets.py SOURCE --names FILE PAGE...  the text of FILE is at the head of every test

Each other block becomes a test that is named after the heading above it. Without --names, so does
each row of a table whose last column is called Wick: the code of that column, named after the line.
With --names a block that has main() is left out: tests/embed has such programs.
"""
import pathlib
import re
import sys


def blocks(lines):
    """(info, heading, number of the first line, lines) of each block of code."""
    heading, start, info = "", 0, None
    for number, line in enumerate(lines, 1):
        if info is None and line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("```"):
            if info is not None:
                yield info, heading, start, lines[start - 1:number - 1]
            info = None if info is not None else line[3:].strip()
            start = number + 1


def rows(lines):
    """(number of the line, code of its last column) of each row of tables of Wick's names."""
    inside = False
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[-1] == "Wick":
            inside = True
        elif inside and cells[-1] != "---":
            yield number, [f"{code};" for code in re.findall("`([^`]+)`", cells[-1])]


def tests_of(page, names):
    """The lines of the tests of a page. `names`: those at their head; none: its first block."""
    text = page.read_text().splitlines()
    found = [block[1:] for block in blocks(text) if block[0] == "cpp"]
    if names is None:
        names = found.pop(0)[2]
        found += [(f"Line{number}", number, lines) for number, lines in rows(text)]
        if not found:
            sys.exit(f"{page}: no blocks of C++")
    else:
        found = [block for block in found if not any("int main(" in line for line in block[2])]
    suite = page.stem.title().replace("_", "")
    tests = set()
    for heading, start, lines in found:
        name = "".join(word.capitalize() for word in re.findall("[A-Za-z0-9]+", heading))
        if name in tests:
            name += f"Line{start}"
        tests.add(name)
        yield from [f"TEST({suite}, {name}) {{", *names, "{", f'#line {start} "{page}"', *lines,
                    "}", "}", ""]


def main(arguments):
    if len(arguments) > 3 and arguments[1] == "--names":
        names, pages = pathlib.Path(arguments[2]).read_text().splitlines(), arguments[3:]
    elif len(arguments) == 2:
        names, pages = None, arguments[1:]
    else:
        sys.exit(__doc__)
    tests = [line for page in pages for line in tests_of(pathlib.Path(page), names)]
    includes = sorted({line for line in tests if line.startswith("#include")})
    out = ["#include <gtest/gtest.h>", "", "#include <cstdio>", "#include <filesystem>",
           "#include <future>", "#include <iostream>", "", '#include "wick/wick.h"', *includes, "",
           *(line if line not in includes else "" for line in tests)]
    pathlib.Path(arguments[0]).write_text("\n".join(out))


if __name__ == "__main__":
    main(sys.argv[1:])
