#!/usr/bin/env python3
"""Measures how easily the project's prose reads: words per sentence, long lines, long paragraphs.

usage: reading_ease.py [--check] [--long] [PATH...]
       reading_ease.py --self-test  checks that each bound can fail

Without PATH: README, CONTRIBUTING, SECURITY, docs/, and the comments of public headers. A folder
stands for its pages. Code, tables, headings and links' addresses do not count. A list's item is a
paragraph. --long prints the sentences of more than 40 words. --check fails where a bound or a
banned phrase of CONTRIBUTING.md is found.
"""
import argparse
import collections
import os
import re
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_style  # noqa: E402

MEDIAN_WORDS = 18      # of a file's sentences, at most
SENTENCE_WORDS = 40    # of a sentence, at most
PARAGRAPH_WORDS = 80   # of a paragraph, at most
LINE_CHARACTERS = 100  # of a line of prose, at most
FEW_SENTENCES = 5      # a file of fewer has no median worth a bound

GLOSSARY = "CONTRIBUTING.md"  # its table of banned phrases is the one list of them
BANNED_HEADING = "### Banned phrases"
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|vs|cf|Fig|No|Eq|approx)\.")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[`*_]*[A-Z0-9`])|(?<=:)\s*$")
WORD = re.compile(r"[^\W_][\w'’.,/+-]*")


def paragraphs_of_markdown(text):
    """(line number, text) of each paragraph and each item of a list, without code and tables."""
    found, lines, start, in_code = [], [], 0, False

    def close():
        if lines:
            found.append((start, " ".join(lines)))
            lines.clear()

    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")):
            in_code = not in_code
            close()
        elif in_code or not stripped or stripped.startswith(("#", "|", "<", "![")):
            close()
        elif re.match(r"([-*+]|\d+\.)\s", stripped):
            close()
            start = number
            lines.append(re.sub(r"^([-*+]|\d+\.)\s+", "", stripped))
        elif line.startswith("    ") and not lines:
            continue
        else:
            if not lines:
                start = number
            lines.append(stripped)
    close()
    return found


def paragraphs_of_header(text):
    """(line number, text) of each comment that documents, without its examples."""
    found, lines, start = [], [], 0

    def close():
        if lines:
            found.append((start, " ".join(lines)))
            lines.clear()

    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*//[/!]?(<?)( ?.*)$", line)
        words = match.group(2) if match else ""
        if not match or not words.strip() or words.startswith("   "):
            close()
            continue
        if re.match(r" ([-*])\s", words):
            close()
        if not lines:
            start = number
        lines.append(re.sub(r"^([-*])\s+", "", words.strip()))
    close()
    return found


def banned_phrases(glossary):
    """The phrases in the first column of the table below BANNED_HEADING."""
    table = glossary.partition(BANNED_HEADING)[2].partition("\n#")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    return [phrase for row in rows for phrase in re.findall(r"`([^`]+)`", row)]


def without_code(text, header):
    """`text` with spaces for all that is not prose; the lines of the glossary's table as well."""
    if header:
        return "\n".join(re.sub(r"^.*?(//[/!]?<?|$)", "", line) for line in text.splitlines())
    text = re.sub(r"^ *```.*?^ *```|^## Glossary.*?(?=^## )", check_style.blank, text,
                  flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", check_style.blank, text)


def banned(text, header, phrases):
    """(line number, phrase) of each banned phrase, also of those that two lines share."""
    prose = without_code(text, header)
    for phrase in phrases:
        pattern = r"\s+".join(map(re.escape, phrase.split()))
        for match in re.finditer(rf"\b{pattern}\b", prose, re.IGNORECASE):
            yield prose.count("\n", 0, match.start()) + 1, phrase


def without_marks(text):
    text = re.sub(r"`[^`]*`", "`code`", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return ABBREVIATION.sub(r"\1", text)


def sentences(paragraph):
    return [part for part in SENTENCE_END.split(without_marks(paragraph)) if part and
            WORD.search(part)]


def words(sentence):
    return len(WORD.findall(sentence))


class File:
    """What one file reads like."""

    def __init__(self, path, text, phrases=()):
        self.path = path
        header = path.endswith(".h")
        found = (paragraphs_of_header if header else paragraphs_of_markdown)(text)
        self.paragraphs = [(line, sum(words(s) for s in sentences(p))) for line, p in found]
        self.sentences = [(line, words(s), s) for line, p in found for s in sentences(p)]
        self.wide = [] if header else self.wide_lines(text)
        self.banned = list(banned(text, header, phrases))

    @staticmethod
    def wide_lines(text):
        in_code, wide = False, []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip().startswith(("```", "~~~")):
                in_code = not in_code
            elif not in_code and not line.startswith("|") and len(line) > LINE_CHARACTERS:
                wide.append(number)
        return wide

    def median(self):
        return statistics.median(n for _, n, _ in self.sentences) if self.sentences else 0

    def problems(self):
        if len(self.sentences) >= FEW_SENTENCES and self.median() > MEDIAN_WORDS:
            yield f"{self.path}: median of {self.median():g} words per sentence"
        for line, count, _ in self.sentences:
            if count > SENTENCE_WORDS:
                yield f"{self.path}:{line}: sentence of {count} words"
        for line, count in self.paragraphs:
            if count > PARAGRAPH_WORDS:
                yield f"{self.path}:{line}: paragraph of {count} words"
        for line in self.wide:
            yield f"{self.path}:{line}: line of more than {LINE_CHARACTERS} characters"
        for line, phrase in self.banned:
            yield f"{self.path}:{line}: banned phrase: {phrase} ({GLOSSARY} says what to write)"


def pages_of(path):
    """The pages below a folder of the tree; of a file, itself."""
    if os.path.isfile(os.path.join(check_style.ROOT, path)):
        return [path]
    return [os.path.relpath(os.path.join(folder, n), check_style.ROOT)
            for folder, _, names in sorted(os.walk(os.path.join(check_style.ROOT, path)))
            for n in sorted(names) if n.endswith(".md")]


def default_files():
    found = ["README.md", "CONTRIBUTING.md", "SECURITY.md", *pages_of("docs")]
    for top in check_style.FOLDERS:
        for folder, _, names in os.walk(os.path.join(check_style.ROOT, top)):
            paths = (os.path.relpath(os.path.join(folder, n), check_style.ROOT) for n in names)
            found += sorted(p for p in paths if check_style.is_public(p))
    return found


def read_text(path):
    with open(os.path.join(check_style.ROOT, path), encoding="utf-8") as file:
        return file.read()


def self_test():
    long_sentence = "A " + "word\n" * (SENTENCE_WORDS - 1)
    cases = (
        ("a.md", "The loader reads a batch. The device trains on the batch.\n", ()),
        ("a.md", f"{long_sentence}that ends.\n", ("sentence of 42 words",)),
        ("a.md", f"{long_sentence}\n", ()),
        ("a.md", "- " + "Six words are in\nthis sentence. " * 14, ("paragraph of 84 words",)),
        ("a.md", "- " + "Six words are in\nthis sentence. " * 13, ()),
        ("a.md", ("It has " + "very\n" * 16 + "long\nsentences. ") * 4, ()),
        ("a.md", ("It has " + "very\n" * 16 + "long\nsentences.\n\n") * 5, ("median of 20",)),
        ("a.md", "x" * 101 + "\n```\n" + "x" * 101 + "\n```\n| " + "x" * 101 + "\n",
         ("a.md:1: line of more than 100",)),
        ("a.md", "The output is made\nagain.\n", ("a.md:1: banned phrase: made again",)),
        ("a.md", "See `made again`.\n```\nmade again\n```\n", ()),
        ("a.h", "// " + "word " * 40 + "\n// ends.\nint a = f(made, again);\n",
         ("sentence of 41 words",)),
        ("a.h", "int a;  // Made\n  /// again.\n", ("banned phrase: made again",)),
    )
    phrases = banned_phrases(f"{BANNED_HEADING}\n| Banned | Write |\n|---|---|\n"
                             "| `made again`, `so` | `recomputed` |\n## Next\n| `it` | |\n")
    if phrases != ["made again", "so"]:
        print(f"self-test: got {phrases}, expected the phrases of the table alone")
        return 1
    for path, text, expected in cases:
        found = list(File(path, text, phrases).problems())
        if len(found) != len(expected) or not all(e in f for e, f in zip(expected, found)):
            print(f"self-test: {path}: got {found}, expected {expected}, in:\n{text}")
            return 1
    if not banned_phrases(read_text(GLOSSARY)):
        print(f"self-test: {GLOSSARY} has no table of banned phrases")
        return 1
    print(f"self-test: {len(cases) + 2} cases passed")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    phrases = banned_phrases(read_text(GLOSSARY))
    paths = [page for path in options.paths for page in pages_of(path)] or default_files()
    files = [File(path, read_text(path), phrases) for path in paths]
    groups = collections.OrderedDict()
    for file in files:
        groups.setdefault("headers" if file.path.endswith(".h") else file.path, []).append(file)
    print(f"{'median':>6} {'most':>5} {'>' + str(SENTENCE_WORDS):>4} {'long paragraphs':>15} "
          f"{'wide lines':>10} {'banned':>6}")
    for name, group in groups.items():
        counts = [n for f in group for _, n, _ in f.sentences] or [0]
        print(f"{statistics.median(counts):6g} {max(counts):5} "
              f"{sum(n > SENTENCE_WORDS for n in counts):4} "
              f"{sum(n > PARAGRAPH_WORDS for f in group for _, n in f.paragraphs):15} "
              f"{sum(len(f.wide) for f in group):10} {sum(len(f.banned) for f in group):6}  {name}")
    if options.long:
        for file in files:
            for line, count, sentence in file.sentences:
                if count > SENTENCE_WORDS:
                    print(f"{file.path}:{line}: {count} words: {sentence}")
    problems = [problem for file in files for problem in file.problems()]
    if options.check and problems:
        print("\n".join(problems))
    return 1 if options.check and problems else 0


if __name__ == "__main__":
    sys.exit(main())
