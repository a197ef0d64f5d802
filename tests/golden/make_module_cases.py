#!/usr/bin/env python3
"""Writes PyTorch's own samples of its modules, losses and optimizers as reference cases, one file
of each class, with the PyTorch that runs it.

  tests/golden/make_module_cases.py FOLDER [--names RE]
  tests/golden/make_module_cases.py FOLDER --sample COUNT --source ALL --passed SURVEY.json
"""
import argparse
import copy
import pathlib
import re
import warnings

import torch
import torch.utils._pytree as pytree
from torch.testing._internal import common_nn
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

import module_samples
from make_opinfo_cases import (TOLERANCES, Case, Unsupported, add_choice_arguments, as_tensor,
                               keyword_arguments, same, seeded, storable, write, write_sample)

STEPS = 4
MODULES = 100  # that are made to see how parameters start
# What Wick's optimizers do not ask for: how PyTorch computes, not what.
WAYS = ("foreach", "fused", "capturable", "differentiable")


def remember_arguments(cls):
    """Modules of `cls` know what they were made with, so that one can be an argument of another."""
    made = cls.__init__

    def init(self, *args, **kwargs):
        made(self, *args, **kwargs)
        self.made_with = (args, kwargs)
    cls.__init__ = init


class ExactTorch:
    """torch for PyTorch's Muon, which computes in bfloat16 on CPUs too, and here in float64."""

    bfloat16 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


class ModuleCase(Case):
    def written(self, value):
        if isinstance(value, torch.nn.utils.rnn.PackedSequence):
            return {"packed": self.written(value.data), "sizes": value.batch_sizes.tolist()}
        if hasattr(value, "made_with"):
            args, kwargs = value.made_with
            return {"module": type(value).__name__, "args": self.written(args),
                    "kwargs": self.named(kwargs)}
        if callable(value) and hasattr(value, "__name__") and not isinstance(value, torch.dtype):
            return value.__name__
        return super().written(value)

    def named(self, kwargs):
        return {name: self.written(value) for name, value in keyword_arguments(kwargs).items()
                if name not in ("device", "dtype")}


class Sample:
    """How a module is made and called."""

    def __init__(self, cls, made, called, dtype):
        self.cls, self.made, self.called, self.dtype = cls, made, called, dtype

    def module(self, seed):
        torch.manual_seed(seed)
        args, kwargs = copy.deepcopy(self.made)
        return self.cls(*args, **kwargs).to("cpu", self.dtype)

    def widened(self):
        def wide(value):
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                return value
            return value.detach().double().requires_grad_(value.requires_grad)
        made, called = pytree.tree_map(wide, (self.made, self.called))
        return Sample(self.cls, made, called, torch.float64)


def leaves_of(called):
    """The arguments of a call, of which those that require a gradient are leaves."""
    def leaf(value):
        if isinstance(value, torch.Tensor) and value.requires_grad and not value.is_leaf:
            return value.detach().requires_grad_()
        return value
    return pytree.tree_map(leaf, called)


def other_state(module, seed):
    """The module's state, with numbers that tell parameters and statistics apart."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter += (0.3 * noise).to(parameter.dtype)
        for name, buffer in module.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                noise = torch.rand(buffer.shape, generator=generator, dtype=torch.float64)
                buffer += noise.to(buffer.dtype)
            elif name.endswith("num_batches_tracked"):
                buffer += 3
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def spread(sample):
    """The mean and standard deviation that each parameter starts with, of many modules."""
    many = [dict(sample.module(seed).named_parameters()) for seed in range(MODULES)]
    found = {}
    for name in many[0]:
        values = torch.cat([module[name].detach().double().flatten() for module in many])
        if values.numel() >= 2 * MODULES:
            found[f"spread/{name}"] = torch.stack([values.mean(), values.std()])
    return found


def is_random(module, state, call, values):
    for seed in range(2, 5):
        module.load_state_dict(state)
        again = [as_tensor(value).detach() for value in seeded(call, seed)]
        if len(again) != len(values) or not all(map(same, again, values)):
            return True
    return False


def differentiated(case, module, outputs, seed, second):
    """Writes the gradients of inputs and parameters, and for `second` those of the sum of these
    gradients times the tensors vNAME; returns the names of those inputs."""
    inputs = [(name, x) for name, x in case.inputs if x.requires_grad]
    leaves = [(f"grad_{name}", x) for name, x in inputs]
    leaves += [(f"grad/{name}", x) for name, x in module.named_parameters() if x.requires_grad]
    roots = [(i, y) for i, y in enumerate(outputs) if y.requires_grad and y.is_floating_point()]
    if not leaves or not roots:
        return []
    generator = torch.Generator().manual_seed(seed)
    incoming = [torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype)
                for _, y in roots]
    grads = torch.autograd.grad([y for _, y in roots], [x for _, x in leaves], incoming,
                                allow_unused=True, create_graph=second)
    for (i, _), grad in zip(roots, incoming):
        case.tensors[f"gy{i}"] = grad
    if second:
        for (name, _), grad in zip(leaves, grads):
            if grad is not None:
                case.tensors["v" + name] = torch.randn(grad.shape, generator=generator,
                                                       dtype=torch.float64).to(grad.dtype)
        recorded = [(name, grad) for (name, _), grad in zip(leaves, grads)
                    if grad is not None and grad.requires_grad]
        if not recorded:
            raise Unsupported("no second derivative")
        again = torch.autograd.grad([grad for _, grad in recorded], [x for _, x in leaves],
                                    [case.tensors["v" + name] for name, _ in recorded],
                                    allow_unused=True)
        for (name, _), grad in zip(leaves, again):
            if grad is not None:
                case.tensors["second_" + name] = grad.detach().clone()
    for (name, _), grad in zip(leaves, grads):
        if grad is not None:
            case.tensors[name] = storable(grad.to_dense()).clone()
    return [name for name, _ in inputs]


def made_case(sample, training, seed, second=False, state=None):
    """The description and tensors of a sample; `state` is that of the module, if it is known."""
    case = ModuleCase()
    args, kwargs = leaves_of(sample.called)
    description = {"args": case.written(sample.made[0]), "kwargs": case.named(sample.made[1]),
                   "call": {"args": case.written(args), "kwargs": case.named(kwargs)},
                   "training": training, "dtype": str(sample.dtype)[6:]}
    module, other = sample.module(seed), sample.module(seed + 1)
    for (name, value), twin in zip(module.state_dict().items(), other.state_dict().values()):
        if same(value, twin) and value.unique().numel() == 1:
            case.tensors[f"initial/{name}"] = storable(value).clone()
    of_modules = any(isinstance(value, torch.nn.Module) for value in sample.made[0])
    if training and not second and not of_modules and sample.dtype == torch.float64 and seed < 12:
        case.tensors.update(spread(sample))
    description["parameters"] = [name for name, _ in module.named_parameters()]
    description["state"] = list(module.state_dict())
    if state is None:
        state = other_state(module, seed)
    else:
        state = {name: v.to(sample.dtype) if v.is_floating_point() else v
                 for name, v in state.items()}
    module.load_state_dict(state)
    module.train(training)
    for name, value in state.items():
        case.tensors[f"state/{name}"] = storable(value).clone()
    outputs = [as_tensor(value) for value in seeded(lambda: module(*args, **kwargs))]
    values = [storable(output).clone() for output in outputs]
    for i, value in enumerate(values):
        case.tensors[f"y{i}"] = value
    for name, buffer in module.state_dict().items():
        if not same(buffer, state[name]):
            case.tensors[f"after/{name}"] = buffer.detach().clone()
    grads = differentiated(case, module, outputs, seed, second)
    random = is_random(module, state, lambda: module(*args, **kwargs), values)
    rtol, atol = TOLERANCES[sample.dtype]
    if sample.dtype == torch.float32:
        atol *= 3  # of many operations
    description.update(outputs=[f"y{i}" for i in range(len(values))], strided=case.strided,
                       grads=grads, random=random, second=second, rtol=rtol, atol=atol)
    return description, case.tensors, state


def own_error(sample, training, seed, state, tensors):
    """How far PyTorch's results are from what it computes in float64, where that is noticeable."""
    _, exact, _ = made_case(sample.widened(), training, seed, False, state)
    slack = {}
    for name, tensor in tensors.items():
        if name[0] == "x" or name not in exact or tensor.numel() == 0:
            continue
        off = (exact[name].double() - tensor.double()).abs().nan_to_num(0, 0, 0).max().item()
        if off > TOLERANCES[torch.float32][1]:
            slack[name] = off
    return slack


def written_case(name, sample, training, seed, second):
    description = {"name": name, "op": sample.cls.__name__, "rtol": 0, "atol": 0}
    try:
        more, tensors, state = made_case(sample, training, seed, second)
        description.update(more)
        if sample.dtype == torch.float32 and not more["random"]:
            description["slack"] = own_error(sample, training, seed, state, tensors)
    except Unsupported as reason:
        description["unsupported"], tensors = str(reason), {}
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        description["unsupported"] = "PyTorch: " + str(error).split("\n")[0][:80]
        tensors = {}
    return description, {f"{name}/{key}": tensor for key, tensor in tensors.items()}


def database_samples(info, dtype, training):
    torch.manual_seed(0)
    for given in info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True,
                                         training=training):
        made, called = given.constructor_input, given.forward_input
        yield Sample(info.module_cls, (made.args, made.kwargs), (called.args, called.kwargs), dtype)


def older_samples(dtype):
    """The samples that PyTorch's older tests of modules have."""
    torch.manual_seed(0)
    for entry in common_nn.module_tests + common_nn.get_new_module_tests():
        if "module_name" not in entry or "complex" in entry.get("desc", ""):
            continue
        given = entry["input_fn"]() if "input_fn" in entry else torch.randn(entry["input_size"])
        given = given if isinstance(given, tuple) else (given,)
        given = tuple(x.to(dtype).requires_grad_() if x.is_floating_point() else x for x in given)
        yield Sample(getattr(torch.nn, entry["module_name"]),
                     (entry.get("constructor_args", ()), {}), (given, {}), dtype)


def own_samples(dtype):
    torch.manual_seed(0)
    for name, made, called in module_samples.samples():
        called = pytree.tree_map(
            lambda x: x.detach().to(dtype).requires_grad_(x.requires_grad)
            if isinstance(x, torch.Tensor) and x.is_floating_point() else x, called)
        args = tuple(x for x in made if not isinstance(x, dict))
        kwargs = made[-1] if made and isinstance(made[-1], dict) else {}
        yield Sample(getattr(torch.nn, name), (args, kwargs), (called, {}), dtype)


def module_cases():
    """All cases, as (class, description, tensors)."""
    for dtype in (torch.float32, torch.float64):
        for training in (True, False):
            samples = [sample for info in module_db if dtype in info.dtypes
                       for sample in database_samples(info, dtype, training)]
            samples += [*older_samples(dtype), *own_samples(dtype)]
            count = {}
            for sample in samples:
                cls = sample.cls.__name__
                i = count[cls] = count.get(cls, -1) + 1
                mode = "train" if training else "eval"
                for second in (False, True) if dtype == torch.float64 else (False,):
                    name = f"{cls}{'.second' if second else ''}.{mode}.{str(dtype)[6:]}.{i}"
                    yield cls, lambda n=name, s=sample, t=training, j=i, two=second: \
                        written_case(n, s, t, j, two)


def optimizer_case(name, cls, kwargs, seed, dtype, sparse):
    """Some steps, in the form of the family optim. The second parameter's gradient is missing in
    the second step, so that it has made fewer steps than the first."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(3, 4), (5, 3)] if cls == "Muon" or sparse else [(3, 4), (5,)]

    def drawn(shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    params = [torch.nn.Parameter(drawn(shape)) for shape in shapes]
    tensors = {f"p{i}": p.detach().clone() for i, p in enumerate(params)}
    optimizer = getattr(torch.optim, cls)(params, **kwargs)
    for step in range(STEPS):
        for i, param in enumerate(params):
            param.grad = None
            if (step, i) == (1, 1):
                continue
            grad = drawn(param.shape)
            if sparse:
                grad[:: 2 if step % 2 else 3] = 0
            tensors[f"g{step}_{i}"] = grad
            param.grad = grad.to_sparse(1) if sparse else grad.clone()
        optimizer.step(*[lambda: torch.zeros(())] if cls == "LBFGS" else [])
        for i, param in enumerate(params):
            tensors[f"y{step}_{i}"] = param.detach().clone()
    rtol, atol = TOLERANCES[dtype]
    args = {key: value.item() if isinstance(value, torch.Tensor) else value
            for key, value in kwargs.items() if key not in WAYS}
    return {"name": name, "op": cls, "args": args, "params": len(params), "steps": STEPS,
            "sparse": sparse, "rtol": rtol, "atol": atol}, \
        {f"{name}/{key}": tensor for key, tensor in tensors.items()}


def optimizer_cases():
    for dtype in (torch.float32, torch.float64):
        for info in optim_db:
            cls = info.optim_cls.__name__
            if cls == "Muon" and dtype == torch.float32:
                continue  # GPUs compute in bfloat16 then
            given = [sample.kwargs for sample in info.optim_inputs_func("cpu")]
            given += module_samples.OPTIMIZERS.get(cls, [])
            only_sparse = info.only_supports_sparse_grads
            kinds = [False] * (not only_sparse) + [True] * (only_sparse or info.supports_sparse)
            for sparse in kinds:
                for i, kwargs in enumerate(given):
                    if sparse and kwargs.get("weight_decay"):
                        continue
                    name = f"{cls}.{'sparse' if sparse else 'dense'}.{str(dtype)[6:]}.{i}"
                    yield cls, lambda n=name, c=cls, k=kwargs, j=i, d=dtype, s=sparse: \
                        optimizer_case(n, c, k, j, d, s)


def write_all(folder, pattern):
    torch.optim._muon.torch = ExactTorch()
    torch.backends.cuda.enable_flash_sdp(False)  # which has no second derivative
    remember_arguments(torch.nn.TransformerEncoderLayer)
    remember_arguments(torch.nn.TransformerDecoderLayer)
    remember_arguments(torch.nn.LayerNorm)
    for family, found in (("module", module_cases()), ("optim", optimizer_cases())):
        classes = {}
        for cls, make in found:
            if not re.fullmatch(pattern, cls):
                continue
            description, tensors = make()
            if ".second." in description["name"] and "unsupported" in description:
                continue  # PyTorch has no second derivative
            cases, all_tensors = classes.setdefault(cls, ([], {}))
            cases.append(description)
            all_tensors.update(tensors)
        for cls, (cases, tensors) in classes.items():
            write(folder, f"{family}.{cls}", cases, tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--names", default=".*", help="classes, as a regular expression")
    parser.add_argument("--sample", type=int, help="how many cases of modules to choose, of all "
                        "in --source; of optimizers a fifth as many")
    add_choice_arguments(parser)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.sample:
        examples = {("float32", "float64"): (3, 1800)}
        for family, count, name in (("module", options.sample, "module"),
                                    ("optim", options.sample // 4, "optim.samples")):
            write_sample(options.source, options.folder, count, options.passed, family, examples,
                         name)
    else:
        write_all(options.folder, options.names)


if __name__ == "__main__":
    main()
