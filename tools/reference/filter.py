#!/usr/bin/env python3
"""Tells Doxygen what the comments of a header mean here: filter.py HEADER writes the header.

- A comment behind a declaration is the declaration's.
- A comment above declarations without an empty line between them is that of each.
"""
import re
import sys

TRAILING = re.compile(r"^(\s*[^/\s].*[;,{}])\s*// (.*)$")


def is_comment(line):
    return line.lstrip().startswith("//")


def begins_declaration(line, before):
    """Whether a declaration begins in `line`, behind the line `before`."""
    ended = before.rstrip().endswith((";", "}", "{", ":")) or is_comment(before)
    return ended and not line.lstrip().startswith(("}", "#", "public:", "private:", "protected:"))


def translated(lines):
    comment, inside = [], False  # that in force, and whether it was just read
    indent = 0
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        if not line.strip():
            comment = []
        elif is_comment(line):
            if not inside or not is_comment(before):
                comment = []
            if line.lstrip().startswith("///"):
                comment.append(line)
                indent = len(line) - len(line.lstrip())
            inside = True
            yield line
            continue
        elif comment and len(line) - len(line.lstrip()) == indent and not is_comment(before) and \
                begins_declaration(line, before):
            yield from comment
        inside = False
        found = TRAILING.match(line)
        yield f"{found[1]}  ///< {found[2]}" if found else line


def self_test():
    lines = ["/// Both.", "int a();", "int b();", "", "int c();  // c's", "  int d(", "      int);"]
    found = list(translated(lines))
    wanted = ["/// Both.", "int a();", "/// Both.", "int b();", "", "int c();  ///< c's",
              "  int d(", "      int);"]
    if found != wanted:
        sys.exit(f"self-test: got {found}")
    print("self-test: passed")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        with open(sys.argv[1]) as header:
            print("\n".join(translated(header.read().split("\n"))))
