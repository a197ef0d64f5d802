#!/usr/bin/env python3
"""The pages of the site: what MkDocs reads, and a check of what it writes.

usage: pages.py stage FOLDER  copies the tree's pages and pictures to FOLDER, at their own paths
       pages.py check FOLDER  fails where a page of the site in FOLDER leads nowhere, or loads
                              anything from the network
       pages.py --self-test   checks both

Python-Markdown asks for what GitHub does not: a blank line before a list, and four columns for
what belongs to an item of it. Staged pages have both.
"""
import html.parser
import pathlib
import re
import shutil
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "docs/**/*.md", "docs/**/*.svg",
         "bench/results/*.md")
ITEM = re.compile(r"( *)([-*+]|\d+\.)( +)(?=\S)")


def for_python_markdown(text):
    """`text` with a blank line before each list, and four columns for each level of an item."""
    out, levels, fence = [], [], None  # levels: columns at which the contents of open items begin
    for line in text.split("\n"):
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if fence is None and stripped:
            item = ITEM.match(line)
            after_blank = not out or not out[-1].strip()
            while levels and indent < levels[-1] and (item or after_blank):
                levels.pop()
            if item:
                if not after_blank and not levels and not ITEM.match(out[-1]) and not in_list(out):
                    out.append("")
                out.append(" " * 4 * len(levels) + item[2] + " " + line[item.end():])
                levels.append(item.end())
                continue
        if stripped.startswith("```") and fence in (None, indent):
            fence = indent if fence is None else None
        cut = min(indent, levels[-1]) if levels else 0
        out.append(" " * 4 * len(levels) + line[cut:] if stripped else "")
    return "\n".join(out)


def in_list(lines):
    """Whether the paragraph that ends in `lines` is one of a list."""
    for line in reversed(lines):
        if ITEM.match(line):
            return True
        if not line.startswith(" ") or not line.strip():
            return False
    return False


def stage(folder):
    shutil.rmtree(folder, ignore_errors=True)
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                target.write_text(for_python_markdown(path.read_text()))
            else:
                shutil.copyfile(path, target)


class Page(html.parser.HTMLParser):
    """The links of a page, the names that links can lead to, and what the page loads."""

    def __init__(self, text):
        super().__init__()
        self.links, self.names, self.loads = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.names |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        self.loads += [values[key] for key in ("src", "srcset") if values.get(key)]
        if tag == "link" and values.get("rel") in ("stylesheet", "icon") and values.get("href"):
            self.loads.append(values["href"])


def problems(folder):
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":  # its links are those of a server's root
            continue
        for target in page.loads + page.links:
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                if target in page.loads:
                    yield f"{path.relative_to(folder)}: loads from the network: {target}"
                continue
            other = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            if other.is_dir():
                other /= "index.html"
            if not other.exists():
                yield f"{path.relative_to(folder)}: leads nowhere: {target}"
            elif url.fragment and other in pages and \
                    urllib.parse.unquote(url.fragment) not in pages[other].names:
                yield f"{path.relative_to(folder)}: no such place: {target}"


def self_test():
    cases = (
        ("a:\n- b\n  c\n- d\n\ne", "a:\n\n- b\n    c\n- d\n\ne"),
        ("- a\n  - b\n    c\n- d", "- a\n    - b\n        c\n- d"),
        ("1. a\n   ```diff\n   - b\n   ```\n2. c", "1. a\n    ```diff\n    - b\n    ```\n2. c"),
        ("```\na\n- b\n```\nc", "```\na\n- b\n```\nc"),
        ("- a\n\nb\n- c", "- a\n\nb\n\n- c"),
    )
    for text, expected in cases:
        if for_python_markdown(text) != expected:
            print(f"self-test: got {for_python_markdown(text)!r}, expected {expected!r}")
            return 1
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "a.html").write_text('<h1 id="x">a</h1><a href="b.html#y">b</a><a href="#x">a</a>'
                                       '<a href="c.html">c</a><img src="https://d.e/f.png">')
        (folder / "b.html").write_text('<a href="a.html#x">a</a><a href="https://d.e">d</a>')
        found = sorted(problems(folder))
    expected = ["leads nowhere: c.html", "loads from the network: https://d.e/f.png",
                "no such place: b.html#y"]
    if [f"a.html: {e}" for e in expected] != found:
        print(f"self-test: got {found}, expected {expected}")
        return 1
    print(f"self-test: {len(cases) + 1} cases passed")
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 2 or arguments[0] not in ("stage", "check"):
        print(__doc__)
        return 2
    folder = pathlib.Path(arguments[1]).resolve()
    if arguments[0] == "stage":
        stage(folder)
        return 0
    found = list(problems(folder))
    print("\n".join(f"site: {problem}" for problem in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
