#!/usr/bin/env python3
"""Writes the table of docs/ops.md: ops_page.py WICK, the program, whose `wick ops` says how each op
is differentiated and what autocast does to it. With --check it only tells whether the table is as
it would be written. Rows are the functions that the headers in core/ops declare."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/ops.md"
BEGIN, END = "<!-- table: tools/ops_page.py -->\n", "<!-- end of table -->\n"
RESULT = (r"Tensor|LuFactors|Lu|SignAndLog|Qr|Svd|Eigh|Sorted|Unique|SumAndNorm|"
          r"Histogram(?:OfPoints)?|bool(?= equal| allclose)|std::(?:pair|vector)<[\w:, ]+>")
FUNCTION = re.compile(rf"^(?:inline )?(?:{RESULT}) (\w+)\(", re.M)

# Ops that go by another name than their function.
OP_OF = {"sub": "add", "rsub": "add", "unfold": "unfold_axis",
         "tril": "triangle", "triu": "triangle", "argmax": "arg_reduce", "argmin": "arg_reduce",
         "selu": "scaled_elu", "celu": "scaled_elu", "smooth_l1_loss": "huber_loss",
         "embedding": "index_select", "linalg::svdvals": "svd", "linalg::eigvalsh": "eigh"}
OP_OF |= {"linalg::" + op: op
          for op in ("solve_triangular", "cholesky", "cholesky_solve", "lu_factor", "solve",
                     "slogdet", "qr", "svd", "eigh", "pinv")}
# Functions made of several ops that no gradient flows through.
CONSTANT = {"allclose", "argsort", "bincount", "bitwise_not", "bucketize", "count_nonzero", "equal",
            "heaviside", "histc", "histogram", "histogramdd", "isclose", "isneginf", "isposinf",
            "multinomial", "one_hot", "rand", "rand_like", "randint", "randn", "randn_like",
            "randperm", "searchsorted", "unique", "unique_consecutive"}


def functions(header):
    text = header.read_text()
    text = re.sub(r"namespace detail \{.*?^\}", "", text, flags=re.S | re.M)
    inner = re.search(r"^namespace wick::(\w+) \{", text, re.M)
    prefix = inner[1] + "::" if inner else ""
    return sorted({prefix + name for name in FUNCTION.findall(text)})


def ops_of(wick):
    """(on a GPU, on the CPU, derivative) of each op."""
    text = subprocess.run([wick, "ops"], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in text.split("\n\n")[0].splitlines()[1:]:
        name, gpu, cpu, derivative, _ = re.split(r"  +", line.strip())
        found[name] = (gpu, cpu, derivative)
    return found


def table(wick):
    ops = ops_of(wick)
    lines = ["| Function | Header | Derivative | Autocast on a GPU | on the CPU |\n",
             "|---|---|---|---|---|\n"]
    for header in sorted((ROOT / "core/ops").glob("*.h")):
        for name in functions(header):
            op = ops.get(OP_OF.get(name, name))
            gpu, cpu, derivative = op or ("of its ops", "of its ops", "of its ops")
            if name in CONSTANT or name in ("masked::argmax", "masked::argmin",
                                                       "linalg::matrix_rank"):
                derivative = "no"
            lines.append(f"| `{name}` | `{header.stem}.h` | {derivative} | {gpu} | {cpu} |\n")
    return "".join(lines)


def main():
    check = "--check" in sys.argv
    wick = [word for word in sys.argv[1:] if word != "--check"][0]
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    tail = rest.split(END)[1]
    wanted = head + BEGIN + "\n" + table(wick) + "\n" + END + tail
    if check and wanted != page:
        sys.exit("docs/ops.md: the table is out of date: run tools/ops_page.py WICK")
    if not check:
        PAGE.write_text(wanted)


if __name__ == "__main__":
    main()
