#!/usr/bin/env python3
"""Makes a source of tests of a page's blocks of C++: snippets.py PAGE SUITE SOURCE.

The first block is put at the head of every test. Each other block becomes a test that is named
after the heading above it.
"""
import pathlib
import re
import sys


def blocks(lines):
    """(heading, number of the first line, lines) of each block of C++."""
    heading, start, inside = "", 0, None
    for number, line in enumerate(lines, 1):
        if inside is None and line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("```"):
            if inside is not None and inside[0] == "cpp":
                yield heading, start, lines[start - 1:number - 1]
            inside = None if inside is not None else (line[3:].strip(),)
            start = number + 1


def main():
    page, suite, source = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    first, *rest = blocks(page.read_text().splitlines())
    if not rest:
        sys.exit(f"{page}: no blocks of C++")
    out = ["#include <gtest/gtest.h>", "", "#include <cstdio>", "#include <filesystem>", "",
           '#include "wick/wick.h"', ""]
    names = set()
    for heading, start, lines in rest:
        name = "".join(word.capitalize() for word in re.findall("[A-Za-z0-9]+", heading))
        if name in names:
            sys.exit(f"{page}: two blocks below the heading {heading}")
        names.add(name)
        out += [f"TEST({suite}, {name}) {{", *first[2], f'#line {start} "{page}"', *lines, "}", ""]
    source.write_text("\n".join(out))


main()
