#!/usr/bin/env python3
"""Checks what a compiler does not: include order, sizes, line width, unfinished work, lambdas in
public headers, and that the umbrella header of each folder names all its headers.

usage: check_style.py              checks the source tree that this file is in
       check_style.py --self-test  checks that each rule can fail

The order of includes is the fourth rule of docs/design.md: a file includes files of its own layer
or of an earlier one.
"""
import ast
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("core", "kernels", "nn", "optim", "data", "dist", "train", "onnx", "tools", "bench",
           "tests", "docs", "cmake")
CPP = (".h", ".cpp", ".cu", ".cuh")
CODE = CPP + (".py", ".sh", ".cmake")
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
MAX_WIDTH = 100

LAYERS = (("core/base/", 0), ("kernels/", 1), ("core/", 2), ("nn/", 3),
          ("optim/", 4), ("data/", 4), ("dist/", 4), ("train/", 5), ("onnx/", 5),
          ("wick.h", 5), ("program.h", 5), ("tools/", 6), ("bench/", 6), ("tests/", 6))
CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|nccl|nvrtc|nvtx|cooperative_groups|cub/|mma\.h)")
CUDA_FOLDERS = ("kernels/cuda/", "kernels/sim/", "core/cuda/", "dist/detail/nccl",
                "tools/cudnn_graphs/", "tests/nvtx/")
THIRD_PARTY = re.compile(r"^(Eigen|unsupported|fmt|nlohmann|CLI|png|jpeglib|jerror"
                         r"|openssl|zlib|onnx/|google/protobuf|gtest|benchmark|omp\.h)")
# Headers that are not installed: those of these folders but for the named ones, and of detail/.
PRIVATE_FOLDERS = ("kernels/", "core/cuda/", "tools/", "bench/", "tests/")
PUBLIC_KERNEL_HEADERS = tuple(f"kernels/{name}.h" for name in
                              ("conv", "declare", "elementwise", "elementwise_ops", "engine",
                               "optim", "plan_key", "random"))
UMBRELLA_FOLDERS = ("core", "nn", "data", "dist", "train", "onnx")  # CMake makes that of optim
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
OPAQUE = re.compile(
    r'R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'" r"|//[^\n]*|/\*.*?\*/",
    re.DOTALL)
# A lambda that captures. Compilers lay out what it captures each in an order of their own, and of
# an inline function that hands it on the linker keeps one copy: the library's, or a program's.
CLOSURE = re.compile(r"(?<![\w\])\[])\[\s*[&=*\w][^\[\]]*\]\s*[({<]")
SCOPE = re.compile(r"\s*(inline\s+)?(namespace|class|struct|union|enum|extern)\b")


def is_public(path):
    """Whether the file at `path` is a header that is installed."""
    return path.endswith(".h") and "/detail/" not in path and (
        path in PUBLIC_KERNEL_HEADERS or not path.startswith(PRIVATE_FOLDERS))


def layer(path):
    return next((rank for prefix, rank in LAYERS if path.startswith(prefix)), None)


def check_include(path, quote, target):
    """What is wrong with the file at `path` including `target`, or None."""
    if quote == '"' and not target.startswith("wick/"):
        return f'include "{target}": in this project includes start with "wick/"'
    if target.startswith("wick/"):
        own, other = layer(path), layer(target[len("wick/"):])
        if other is None:
            return f"include of {target}: not a folder of the library"
        if own is not None and other > own:
            return f"include of {target}: its layer comes after that of {path}"
        if is_public(path) and not is_public(target[len("wick/"):]):
            return f"include of {target}: a public header includes no private one"
    if CUDA_HEADER.match(target) and not path.startswith(CUDA_FOLDERS):
        return f"include of {target}: CUDA headers belong under {', '.join(CUDA_FOLDERS)}"
    if is_public(path) and THIRD_PARTY.match(target):
        return f"include of {target}: a public header shows no other library's"
    return None


def blank(match):
    """The matched comment or literal as spaces, its line breaks kept."""
    return re.sub(r"[^\n]", " ", match.group())


def cpp_functions(text):
    """(first line, lines) of each function outside functions, by counting braces."""
    text = OPAQUE.sub(blank, text)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.MULTILINE)
    depth, start, inside = 0, 0, None  # inside: (depth, first line) of the function
    for match in re.finditer(r"[{};]", text):
        at = match.start()
        if match.group() == "{":
            head = text[start:at]
            plain = re.sub(r"template\s*<[^{}]*?>\s*(?=[A-Za-z_\[])", "", head)
            if inside is None and "(" in plain and not SCOPE.match(plain):
                first = text.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
                inside = (depth, first)
            depth += 1
        elif match.group() == "}":
            depth -= 1
            if inside is not None and depth == inside[0]:
                yield inside[1], text.count("\n", 0, at) + 2 - inside[1]
                inside = None
        start = at + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def check(path, text):
    """Yields (line, message) for everything wrong in the file at `path`, relative to the root."""
    lines = text.splitlines()
    if len(lines) > MAX_FILE_LINES:
        yield len(lines), f"file of {len(lines)} lines, at most {MAX_FILE_LINES}"
    if path.endswith(".h") and "#pragma once" not in text:
        yield 1, "header without #pragma once"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_WIDTH:
            yield number, f"line of {len(line)} characters, at most {MAX_WIDTH}"
        if line != line.rstrip() or "\t" in line:
            yield number, "tab, or space at the end of the line"
        if UNFINISHED.search(line):
            yield number, "unfinished work"
        include = INCLUDE.match(line) if path.endswith(CPP) else None
        message = check_include(path, *include.groups()) if include else None
        if message:
            yield number, message
    if is_public(path):
        for match in CLOSURE.finditer(OPAQUE.sub(blank, text)):
            yield (text.count("\n", 0, match.start()) + 1,
                   "lambda that captures, in a public header: a struct has one layout")
    functions = (cpp_functions(text) if path.endswith(CPP)
                 else python_functions(text) if path.endswith(".py") else ())
    for number, count in functions:
        if count > MAX_FUNCTION_LINES:
            yield number, f"function of {count} lines, at most {MAX_FUNCTION_LINES}"


def source_files():
    for name in ("CMakeLists.txt", "wick", "wick.h", "program.h", ".ci/run"):
        if os.path.exists(os.path.join(ROOT, name)):
            yield name
    for top in FOLDERS:
        for folder, folders, names in os.walk(os.path.join(ROOT, top)):
            folders[:] = sorted(f for f in folders if f not in ("build", "__pycache__"))
            for name in sorted(names):
                if name.endswith(CODE) or name == "CMakeLists.txt":
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def check_umbrella(folder, umbrella, headers):
    """Yields a message for each header of `folder` that its umbrella header does not name."""
    for header in headers:
        name = header[len(folder) + 1:]
        if name != f"{folder}.h" and not re.search(rf"[\s/]{re.escape(name)}\b", umbrella):
            yield f"names neither as included nor as left out: {name}"


def check_umbrellas(files):
    for folder in UMBRELLA_FOLDERS:
        path = f"{folder}/{folder}.h"
        headers = [f for f in files if f.startswith(folder + "/") and f.endswith(".h")
                   and is_public(f) and not f.startswith("core/base/")]
        if path in headers:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                for message in check_umbrella(folder, file.read(), headers):
                    yield path, 1, message
        elif headers:
            yield path, 1, "the folder's umbrella header is missing"


def self_test():
    body = "  f();\n"
    cases = (
        ("core/base/a.h", "#pragma once\n#include <string>\n", None),
        ("core/base/a.h", "#include <string>\n", "#pragma once"),
        ("kernels/a.h", '#pragma once\n#include "wick/core/base/view.h"\n', None),
        ("kernels/a.h", '#pragma once\n#include "wick/core/tensor.h"\n', "layer"),
        ("core/base/a.cpp", '#include "wick/kernels/declare.h"\n', "layer"),
        ("nn/a.cpp", '#include "wick/optim/sgd.h"\n', "layer"),
        ("data/a.cpp", '#include "wick/nn/module.h"\n', None),
        ("nn/a.cpp", '#include "module.h"\n', 'start with "wick/"'),
        ("core/a.cpp", "#include <cuda_runtime.h>\n", "CUDA"),
        ("core/cuda/a.cpp", "#include <cuda_runtime.h>\n", None),
        ("core/a.h", "#pragma once\n#include <fmt/core.h>\n", "other library"),
        ("core/a.cpp", "#include <png.h>\n", None),
        ("core/a.h", '#pragma once\n#include "wick/core/detail/b.h"\n', "private"),
        ("core/a.h", '#pragma once\n#include "wick/kernels/softmax.h"\n', "private"),
        ("core/a.h", '#pragma once\n#include "wick/kernels/optim.h"\n', None),
        ("core/detail/a.h", '#pragma once\n#include "wick/core/detail/b.h"\n', None),
        ("nn/a.cpp", "// " + "x" * 98 + "\n", "101 characters"),
        ("nn/a.cpp", "int a;\n" * 501, "501 lines"),
        ("nn/a.cpp", "// TO" "DO\n", "unfinished"),
        ("nn/a.cpp", "void f() {\n" + body * 79 + "}\n", "function of 81 lines"),
        ("nn/a.cpp", "void f() {\n" + body * 78 + "}\n", None),
        ("nn/a.cpp", "class A {\n void f() { \"{\"; '}'; }\n" + " int a();\n" * 90 + "};\n", None),
        ("nn/a.cpp", "namespace a {\ntemplate <class T>\nstruct B : C<int (*)()> {\n"
         "  B() : x_(1) {\n" + body * 80 + "  }\n};\n}\n", "function of 82 lines"),
        ("nn/a.h", "#pragma once\nint a = f([&] { return 1; });\n", "lambda"),
        ("nn/a.h", "#pragma once\nint a = f([x, this](int) { return x; });\n", "lambda"),
        ("nn/a.h", "#pragma once\n// [&] { }\n[[nodiscard]] int f(int (*g)(int) = [](int i) { "
         "return a[i] (1); });\n", None),
        ("nn/a.cpp", "int a = f([&] { return 1; });\n", None),
        ("tools/a.py", "def f():\n" + "    g()\n" * 80, "function of 81 lines"),
    )
    for path, text, expected in cases:
        messages = [message for _, message in check(path, text)]
        right = (len(messages) == 1 and expected in messages[0]) if expected else not messages
        if not right:
            print(f"self-test: {path}: got {messages}, expected {expected}, in:\n{text[:200]}")
            return 1
    umbrella = '// Not here: b.h\n#include "wick/nn/a.h"\n'
    missing = list(check_umbrella("nn", umbrella, ["nn/nn.h", "nn/a.h", "nn/b.h", "nn/d/a.h"]))
    if len(missing) != 1 or "d/a.h" not in missing[0]:
        print(f"self-test: umbrella: got {missing}, expected d/a.h")
        return 1
    print(f"self-test: {len(cases) + 1} cases passed")
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if arguments:
        print(__doc__)
        return 2
    files = list(source_files())
    faults = list(check_umbrellas(files))
    for path in files:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        faults += [(path, number, message) for number, message in check(path, text)]
        if text.startswith("#!") and not os.access(os.path.join(ROOT, path), os.X_OK):
            faults.append((path, 1, "starts with #! and is not executable: chmod +x"))
    for path, number, message in faults:
        print(f"{path}:{number}: {message}")
    print(f"{len(files)} files, {len(faults)} faults of style")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
