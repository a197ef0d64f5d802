#!/usr/bin/env python3
"""Writes pytorch_functions.txt beside it: the functions that the PyTorch which runs it tests.

  list_pytorch_functions.py

The names are those of PyTorch's database of operators for its own tests (OpInfo), with their
aliases: functions of torch, of its namespaces, and methods of tensors. docs/ops.md says of each
where it is here, which a test holds.
"""
import pathlib
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db


def main():
    warnings.simplefilter("ignore")
    names = {op.name for op in op_db} | {alias.name for op in op_db for alias in op.aliases}
    version = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    head = f"# The functions that PyTorch {version} tests: list_pytorch_functions.py\n"
    path = pathlib.Path(__file__).with_name("pytorch_functions.txt")
    path.write_text(head + "".join(f"{name}\n" for name in sorted(names)))


if __name__ == "__main__":
    main()
