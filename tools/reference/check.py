#!/usr/bin/env python3
"""Finds public symbols without a comment: check.py LOG, by Doxygen's log.

Fields, enumerators, constructors, operators and overrides need no comment of their own, nor do
members of Tensor, whose functions have one.
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


def main(path):
    found = undocumented(pathlib.Path(path).read_text())
    for symbol in sorted(found):
        print(f"reference: no comment: {symbol}")
    print(f"reference: {len(found)} symbols without a comment")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
