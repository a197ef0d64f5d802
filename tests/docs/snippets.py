#!/usr/bin/env python3
"""Makes a source of tests of a page's blocks of C++: snippets.py PAGE SUITE SOURCE.

The first block is put at the head of every test. Each other block becomes a test that is named
after the heading above it. So does each row of a table whose last column is called Wick: the code
of that column, named after the line.
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


def main():
    page, suite, source = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    first, *rest = [block for block in blocks(page.read_text().splitlines()) if block[0] == "cpp"]
    table = list(rows(page.read_text().splitlines()))
    if not rest and not table:
        sys.exit(f"{page}: no blocks of C++")
    out = ["#include <gtest/gtest.h>", "", "#include <cstdio>", "#include <filesystem>", "",
           '#include "wick/wick.h"', ""]
    names = set()
    for _, heading, start, lines in rest:
        name = "".join(word.capitalize() for word in re.findall("[A-Za-z0-9]+", heading))
        if name in names:
            sys.exit(f"{page}: two blocks below the heading {heading}")
        names.add(name)
        out += [f"TEST({suite}, {name}) {{", *first[3], f'#line {start} "{page}"', *lines, "}", ""]
    for number, lines in table:
        out += [f"TEST({suite}, Line{number}) {{", *first[3], f'#line {number} "{page}"', *lines,
                "}", ""]
    source.write_text("\n".join(out))


if __name__ == "__main__":
    main()
