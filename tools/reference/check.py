#!/usr/bin/env python3
"""Finds public symbols without a comment: check.py LOG LIST, by Doxygen's log.

LIST names those that had none when the check came. It may only shrink: a symbol that is not in it
fails the check, and so does an entry that is documented now. Fields, enumerators, constructors,
operators and overrides need no comment of their own, nor do members of Tensor, whose functions have
one.
"""
import pathlib
import re
import sys

WARNING = re.compile(r"(?:.*/)?((?:core|nn|optim|data|dist|train)/\S+?|wick\.h|program\.h):\d+: "
                     r"warning: (Member|Compound) (.*) is not documented\.")
MEMBER = re.compile(r"(\S+?)\((.*)\)(.*) \(function\) of (?:class|struct|namespace|file) (\S+)")


def undocumented(log):
    """"HEADER SYMBOL" of each symbol that needs a comment and has none."""
    found = set()
    for line in log.splitlines():
        warning = WARNING.match(line)
        if not warning:
            continue
        header, kind, text = warning.groups()
        if kind == "Compound":
            found.add(f"{header} {text.split()[0].rstrip('<')}")
            continue
        member = MEMBER.match(text)
        if not member:
            continue  # a field, an enumerator, a friend
        name, _, behind, owner = member.groups()
        is_own = re.search("override|=default|=delete", behind) or owner == "wick::Tensor" or \
            name.lstrip("~") == owner.split("::")[-1] or name.startswith("operator")
        if not is_own:
            found.add(f"{header} {owner}::{name}")
    return {symbol for symbol in found if "detail::" not in symbol}


def main(log, known_path):
    known = set(pathlib.Path(known_path).read_text().split("\n")) - {""}
    found = undocumented(pathlib.Path(log).read_text())
    for symbol in sorted(found - known):
        print(f"reference: no comment: {symbol}")
    for symbol in sorted(known - found):
        print(f"reference: documented now, or gone: remove it from {known_path}: {symbol}")
    print(f"reference: {len(found)} symbols without a comment, {len(known)} known")
    return 1 if found != known else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
