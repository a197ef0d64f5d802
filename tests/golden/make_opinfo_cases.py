#!/usr/bin/env python3
"""Makes reference cases of PyTorch's own samples (OpInfo), with the PyTorch that runs it.

  tests/golden/make_opinfo_cases.py FOLDER [--dtypes float32,float64] [--ops REGEX]
  tests/golden/make_opinfo_cases.py FOLDER --sample 1500 --source FOLDER... --passed SURVEY.json...

The first writes all samples: FOLDER/opinfo.OP.json and .safetensors for each op. The second writes
FOLDER/opinfo.json and .safetensors: a choice, the same each time, of the cases that
`golden_test --survey SURVEY.json` passed, and of those in float16, bfloat16, int64 and bool up to
two of each op beside them. cases/README.md describes the files.
"""
import argparse
import json
import math
import pathlib
import random
import re
import sys
import warnings

import torch
import torch.testing._internal.common_methods_invocations as common_methods
import torch.utils._pytree as pytree

from safetensors_file import NAMES, load_safetensors, save_safetensors

# The database gives random functions one seed; here they show that they are random.
common_methods.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)

# Relative errors that are allowed, and absolute ones where no element is above 1.
TOLERANCES = {torch.float64: (1e-7, 1e-8), torch.float32: (1e-4, 1e-5),
              torch.float16: (4e-3, 4e-3), torch.bfloat16: (3e-2, 3e-2)}
NARROW = (torch.float32, torch.float16, torch.bfloat16)
# What says no more than what holds anyway.
USUAL = {"device": ("cpu",), "layout": (torch.strided,), "requires_grad": (False,),
         "pin_memory": (False,), "out": (None,)}
# How many cases of an op are chosen of each group of dtypes, and the bytes of a case's tensors.
EXAMPLES_PER_OP = {("float32", "float64"): (4, 800), ("float16", "bfloat16"): (1, 250),
                   ("int64", "bool"): (1, 250)}


class Unsupported(Exception):
    """A sample that the files have no way to write."""


def storable(tensor):
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        raise Unsupported(f"layout {tensor.layout}")
    if tensor.dtype not in NAMES:
        raise Unsupported(str(tensor.dtype).replace("torch.", "dtype "))
    if tensor.dim() > 8:
        raise Unsupported("more than 8 axes")
    return tensor.detach().resolve_conj().resolve_neg()


class Case:
    """A sample while it is written: its description and its tensors."""

    def __init__(self):
        self.tensors, self.inputs, self.strided = {}, [], {}

    def written(self, value):
        """What stands for an argument."""
        if isinstance(value, torch.Tensor):
            return {"tensor": self.input(value)}
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"number": str(value)}
        if isinstance(value, (list, tuple)):
            return [self.written(entry) for entry in value]
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).replace("torch.", "")}
        if isinstance(value, slice):
            return {"slice": [self.written(v) for v in (value.start, value.stop, value.step)]}
        if value is Ellipsis:
            return {"ellipsis": True}
        if isinstance(value, (torch.memory_format, torch.layout)):
            return {"format": str(value).replace("torch.", "")}
        if isinstance(value, torch.device):
            return str(value)
        return {"other": type(value).__name__}

    def input(self, tensor):
        for name, known in self.inputs:
            if known is tensor:
                return name
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, tensor))
        kept = storable(tensor)
        if kept.is_contiguous():
            self.tensors[name] = kept.clone()
        else:
            reach = 1 + sum((n - 1) * s for n, s in zip(kept.shape, kept.stride()))
            reach = 0 if kept.numel() == 0 else reach
            self.tensors[name] = kept.as_strided((reach,), (1,)).clone()
            self.strided[name] = {"shape": list(kept.shape), "strides": list(kept.stride())}
        return name


def seeded(call, seed=1):
    torch.manual_seed(seed)
    return [value for value in pytree.tree_leaves(call()) if value is not None]


def as_tensor(value):
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (bool, int, float)):
        return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
    raise Unsupported(f"results of type {type(value).__name__}")


def same(a, b):
    return a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


def repeats(again, values, restore):
    equal = len(again) == len(values) and all(
        same(as_tensor(a).detach(), b) for a, b in zip(again, values))
    restore()
    return equal


def keyword_arguments(kwargs):
    return {name: value for name, value in kwargs.items()
            if name not in USUAL or value not in USUAL[name]}


def made_case(op, sample, seed):
    """The description and tensors of a sample."""
    case = Case()
    arguments = [sample.input, *sample.args]
    description = {"args": [case.written(value) for value in arguments],
                   "kwargs": {name: case.written(value)
                              for name, value in keyword_arguments(sample.kwargs).items()}}
    before = [(name, tensor, tensor.detach().clone()) for name, tensor in case.inputs]

    def call():
        return op(sample.input, *sample.args, **sample.kwargs)

    def restore():
        with torch.no_grad():
            for _, tensor, value in before:
                if tensor.numel() > 0 and not same(tensor, value):
                    tensor.copy_(value)

    outputs = [as_tensor(value) for value in seeded(call)]
    values = [storable(output).clone() for output in outputs]
    changed = [(name, tensor.detach().clone()) for name, tensor, value in before
               if not same(tensor, value)]
    restore()
    few = sum(value.numel() for value in values) < 20
    description["random"] = "empty" in op.name or op.name == "resize_" or not all(
        repeats(seeded(call, seed), values, restore) for seed in range(2, 12 if few else 4))
    for i, value in enumerate(values):
        case.tensors[f"y{i}"] = value
    for name, tensor in changed:
        case.tensors[f"after_{name}"] = tensor
    description.update(outputs=[f"y{i}" for i in range(len(values))],
                       changed=[name for name, _ in changed], strided=case.strided,
                       grads=differentiated(case, outputs, seed))
    dtypes = [x.dtype for x in case.tensors.values() if x.is_floating_point()]
    rtol, atol = max((TOLERANCES[dtype] for dtype in dtypes), default=(0, 0))
    description.update(rtol=rtol, atol=atol)
    return description, case.tensors


def differentiated(case, outputs, seed):
    """Names of the inputs that have gradients, which it writes."""
    leaves = [(name, x) for name, x in case.inputs if x.requires_grad and x.is_leaf]
    roots = [(i, y) for i, y in enumerate(outputs) if y.requires_grad and y.is_floating_point()]
    if not leaves or not roots:
        return []
    generator = torch.Generator().manual_seed(seed)
    incoming = [torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype)
                for _, y in roots]
    try:
        grads = torch.autograd.grad([y for _, y in roots], [x for _, x in leaves], incoming,
                                    allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return []
    for (i, _), grad in zip(roots, incoming):
        case.tensors[f"gy{i}"] = grad
    for (name, _), grad in zip(leaves, grads):
        if grad is not None:
            case.tensors[f"grad_{name}"] = storable(grad.to_dense()).clone()
    return [name for name, _ in leaves]


def own_error(op, sample, seed, tensors):
    """How far PyTorch's results are from what it computes in float64, where that is noticeable."""
    def widened(value):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.detach().double().requires_grad_(value.requires_grad)
        return torch.float64 if value in NARROW else value

    wide = sample.transform(widened)
    try:
        _, exact = made_case(op, wide, seed)
    except Exception:  # of an op that takes no float64
        return {}
    slack = {}
    for name, tensor in tensors.items():
        other = exact.get(name)
        if name[0] == "x" or other is None or other.shape != tensor.shape or tensor.numel() == 0:
            continue
        off = (other.double() - tensor.double()).abs().nan_to_num(0, 0, 0).max().item()
        if off > TOLERANCES[torch.float32][1]:
            slack[name] = off
    return slack


def cases_of(op, dtypes):
    title = op.name + ("/" + op.variant_test_name if op.variant_test_name else "")
    for dtype in dtypes:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        grad = dtype.is_floating_point and dtype in op.supported_backward_dtypes("cpu")
        torch.manual_seed(0)
        random.seed(0)
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
        if grad:  # some are made for calls without gradients alone
            plain = list(op.sample_inputs("cpu", dtype, requires_grad=False))
            samples += plain if len(plain) != len(samples) else []
        for i, sample in enumerate(samples):
            name = f"{title}.{str(dtype)[6:]}.{i}"
            description = {"name": name, "op": op.name, "rtol": 0, "atol": 0}
            try:
                more, tensors = made_case(op, sample, i)
                description.update(more)
                if dtype in NARROW and not more["random"]:
                    description["slack"] = own_error(op, sample, i, tensors)
            except Unsupported as reason:
                description["unsupported"] = str(reason)
                tensors = {}
            except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
                description["unsupported"] = "PyTorch: " + str(error).split("\n")[0][:80]
                tensors = {}
            yield description, {f"{name}/{key}": tensor for key, tensor in tensors.items()}


def write(folder, family, cases, tensors):
    source = f"PyTorch {torch.__version__.split('+')[0]}"
    lines = ",\n".join(json.dumps(case) for case in cases)
    (folder / f"{family}.json").write_text(
        f'{{"family": "{family}", "source": "{source}", "cases": [\n{lines}\n]}}\n')
    save_safetensors(tensors, folder / f"{family}.safetensors")


def write_all(folder, dtypes, pattern):
    for op in common_methods.op_db:
        if not re.fullmatch(pattern, op.name):
            continue
        cases, tensors = [], {}
        try:
            for description, own in cases_of(op, dtypes):
                cases.append(description)
                tensors.update(own)
        except Exception as error:  # of the samples' maker: a library that is not there
            print(f"{op.name}: no samples: {error}", file=sys.stderr)
        if cases:
            family = "opinfo." + op.name + ("." + op.variant_test_name
                                            if op.variant_test_name else "")
            write(folder, family, cases, tensors)


def chosen_cases(paths, passed, dtypes, examples, small):
    """A few small cases of each op, as (how many of it came before, case, tensors)."""
    rng = random.Random(1)
    for path in paths:
        cases = [case for case in json.loads(path.read_text())["cases"]
                 if case["name"] in passed and case["name"].split(".")[-2] in dtypes]
        if not cases:
            continue
        tensors = load_safetensors(path.with_suffix(".safetensors"))
        rng.shuffle(cases)
        kept = 0
        for case in cases:
            own = {name: tensor for name, tensor in tensors.items()
                   if name.startswith(case["name"] + "/")}
            if sum(t.numel() * t.element_size() for t in own.values()) > small:
                continue
            yield kept, case, own
            kept += 1
            if kept == examples:
                break


def write_sample(sources, folder, count, surveys, family="opinfo", examples=EXAMPLES_PER_OP,
                 name=None):
    """The choice of a family, as files of that name or `name`: at most `count` cases of each group
    of dtypes, a few of each op."""
    passed = {name for survey in surveys for name in json.loads(survey.read_text())["passed"]}
    paths = sorted((path for source in sources for path in source.glob(family + ".*.json")),
                   key=lambda path: path.name)
    chosen = []
    for dtypes, limits in examples.items():
        found = sorted(chosen_cases(paths, passed, dtypes, *limits), key=lambda entry: entry[0])
        chosen += found[:count]
    chosen.sort(key=lambda entry: entry[1]["name"])
    write(folder, name or family, [case for _, case, _ in chosen],
          {name: tensor for _, _, own in chosen for name, tensor in own.items()})


def add_choice_arguments(parser):
    """Those of the cases to choose from."""
    parser.add_argument("--source", type=pathlib.Path, nargs="+", help="folders of all cases")
    parser.add_argument("--passed", type=pathlib.Path, nargs="+",
                        help="the surveys that say which cases pass")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--ops", default=".*", help="names, as a regular expression")
    parser.add_argument("--sample", type=int, help="how many cases to choose, of all in --source")
    add_choice_arguments(parser)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.sample:
        write_sample(options.source, options.folder, options.sample, options.passed)
    else:
        write_all(options.folder, [getattr(torch, name) for name in options.dtypes.split(",")],
                  options.ops)


if __name__ == "__main__":
    main()
