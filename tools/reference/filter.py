#!/usr/bin/env python3
"""Tells Doxygen what the comments of a header mean here: filter.py HEADER writes the header.

- A comment behind a declaration is the declaration's.
- A comment above declarations without an empty line between them is that of the first. Overloads
  of the first have the same comment. Other declarations of the group say whose comment it is,
  unless they have their own: some comments are about the whole group, others are not.
"""
import re
import sys

TRAILING = re.compile(r"^(\s*[^/\s].*[;,{}])\s*// (.*)$")

NEEDS_NONE = re.compile(r"~|operator=\(")  # nor do overrides, whose comment is that of the base


def is_comment(line):
    return line.lstrip().startswith("//")


def begins_declaration(line, before):
    """Whether a declaration begins in `line`, behind the line `before`."""
    ended = before.rstrip().endswith((";", "}", "{", ":")) or is_comment(before)
    return ended and not line.lstrip().startswith(("}", "#", "public:", "private:", "protected:"))


def name_of(text):
    """What the declaration at the beginning of `text` declares; with () if that is a function."""
    text = re.match(r"[^;{]*", re.sub(r"//.*", "", text))[0]
    text = re.sub(r"\brequires\s*\((?:[^()]|\([^()]*\))*\)", "", text)
    while re.search(r"(?<!operator)<[^<>]*>", text):  # arguments of templates
        text = re.sub(r"(?<!operator)<[^<>]*>", "", text)
    kind = re.search(r"\b(?:class|struct|enum|union|using)\s+(\w+)\s*(?:final\b|[:=]|$)", text)
    if kind:
        return kind[1]
    function = re.search(r"(operator\s*[^\s(]+|operator\(\)|~?\w+)\s*\(", text.partition(" = ")[0])
    if function:
        return function[1] + "()"
    variable = re.search(r"(\w+)\s*(?:[=,\[]|$)", text.strip())
    return variable[1] if variable else ""


def of_group(first, comment):
    """The `comment` of `first` for a later declaration of the group."""
    begin = f"/// In the group of {first}, whose comment is: "
    return [re.sub(r"/// ?", lambda _: begin, comment[0], count=1), *comment[1:]]


def translated(lines):
    comment, inside = [], False  # that in force, and whether it was just read
    indent, first = 0, ""  # of the declaration below the comment: its name
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
        found = TRAILING.match(line)
        if inside:
            first = name_of("\n".join(lines[number:number + 10]))
        elif comment and not found and len(line) - len(line.lstrip()) == indent and \
                begins_declaration(line, before):
            text = "\n".join(lines[number:number + 10])
            name = name_of(text)
            if name == first:
                yield from comment
            elif not NEEDS_NONE.match(name) and not re.match(r"[^;{]* override\b", text):
                yield from of_group(first, comment)
        inside = False
        yield f"{found[1]}  ///< {found[2]}" if found else line


def self_test():
    lines = ["/// Of a.", "int a();", "template <class T>", "std::vector<T> a(int);", "int b();",
             "int c = 2;", "int d() override;", "int e();  // e's", "", "int f();  // f's",
             "  int g(", "      int);"]
    found = list(translated(lines))
    of_a = "/// In the group of a(), whose comment is: Of a."
    wanted = ["/// Of a.", "int a();", "/// Of a.", "template <class T>", "std::vector<T> a(int);",
              of_a, "int b();", of_a, "int c = 2;", "int d() override;", "int e();  ///< e's", "",
              "int f();  ///< f's", "  int g(", "      int);"]
    if found != wanted:
        sys.exit(f"self-test: got {found}")
    for text, name in (("class A final : public B {", "A"), ("using A = std::vector<int>;", "A"),
                       ("static std::function<void(int)> f(\n int x = 2) {", "f()"),
                       ("bool operator<(const A& a) const;", "operator<()"),
                       ("requires(N < 2) A(int);", "A()"), ("~A() override;", "~A()"),
                       ("Tensor operator()(int);", "operator()()"), ("std::map<A, B> a = {};", "a"),
                       ("int64_t a = 0, b = 0;", "a"), ("enum class A { kB };", "A")):
        if name_of(text) != name:
            sys.exit(f"self-test: got {name_of(text)} of {text}, expected {name}")
    print("self-test: passed")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        with open(sys.argv[1]) as header:
            print("\n".join(translated(header.read().split("\n"))))
