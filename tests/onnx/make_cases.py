#!/usr/bin/env python3
"""Makes models in ONNX, and what PyTorch computes with each: its outputs, the gradients of a loss,
and five steps of SGD.

  tests/onnx/make_cases.py [--large] [--only NAME] [FOLDER]

Without a folder it makes tests/onnx/cases. It needs torch, torchvision and onnx from PyPI, and
onnxscript for the newer exporter. With --large the models are those of large_models.py, which
onnx_test reads from the folder that WICK_ONNX_CASES names.
"""
import argparse
import copy
import pathlib
import sys
import warnings

import numpy
import onnx
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "golden")]
from large_models import LARGE  # noqa: E402
from safetensors_file import save_safetensors  # noqa: E402
from small_models import MODELS, NEWER  # noqa: E402

RATE, MOMENTUM, STEPS = 0.02, 0.9, 5


def perturb(model, large):
    """No two tensors alike, statistics included: an exporter joins those that are. Weights of large
    models are random already, and noise would make the results infinite."""
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            is_random = large and tensor.dim() > 1 and bool((tensor != tensor.flatten()[0]).any())
            if tensor.is_floating_point() and tensor.dim() > 0 and not is_random:
                noise = torch.randn_like(tensor) * 0.05
                tensor.add_(noise.abs() if "running_var" in name else noise)


def export(model, x, path, newer):
    model = copy.deepcopy(model)
    if newer:
        program = torch.onnx.export(model.eval(), (x,), dynamo=True, optimize=False, verbose=False,
                                    external_data=False)
        proto = program.model_proto
        for node in proto.graph.node:  # stack traces
            del node.metadata_props[:]
        for value in [*proto.graph.value_info, *proto.graph.input, *proto.graph.output]:
            del value.metadata_props[:]
        onnx.save(proto, path)
    else:
        torch.onnx.export(model.train(), (x,), path, opset_version=17, dynamo=False,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          input_names=["x"], output_names=["y"])
        onnx.save(onnx.load(path), path)


def take_statistics(model, path):
    """Running statistics as they are in the file: in training the export has updated them."""
    known = {tensor.name: tensor for tensor in onnx.load(path).graph.initializer}
    for name, buffer in model.named_buffers():
        if name in known:
            buffer.copy_(torch.from_numpy(onnx.numpy_helper.to_array(known[name]).copy()))


def loss_of(y, weights):
    return (y * weights).sum() + (y * y).mean()


def widen(model, x):
    """Both in float64, with the float32 numbers that ONNX has for a layer's own."""
    for module in model.modules():
        if hasattr(module, "eps"):
            module.eps = float(numpy.float32(module.eps))
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = 1 - float(numpy.float32(1 - module.momentum))
    return model.double(), x.double() if x.is_floating_point() else x


def record(model, x, large):
    """What PyTorch computes, by name. Large models train in float64: their gradients in float32
    are rounding for the most part."""
    known = {"x": x}
    with torch.no_grad():
        known["y"] = model.eval()(x)
    if large:
        model, x = widen(model, x)
    weights = torch.randn_like(known["y"])
    count = weights.numel()
    known["weights"] = weights.double() / count**0.75 if large else weights / count
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    model.train()
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model(x), known["weights"])
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            for name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    known[f"gradient/{name}"] = parameter.grad.clone()
        optimizer.step()
    known["losses"] = torch.stack(losses)
    with torch.no_grad():
        known["trained_y"] = model.eval()(x)
    return {name: tensor.detach().clone().contiguous() for name, tensor in known.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path,
                        default=HERE / "cases")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", help="the model to make, in place of all")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    models = LARGE if arguments.large else MODELS
    cases = [(name, *parts, False) for name, parts in models.items()]
    if not arguments.large:
        cases += [(f"{name}_newer", *MODELS[name], True) for name in NEWER]
    for name, make, example, newer in cases:
        if arguments.only and arguments.only != name:
            continue
        torch.manual_seed(7)
        model, x = make(), example()
        perturb(model, arguments.large)
        path = arguments.folder / f"{name}.onnx"
        export(model, x, str(path), newer)
        take_statistics(model, path)
        save_safetensors(record(model, x, arguments.large),
                         arguments.folder / f"{name}.safetensors")
        print(f"{name}: {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
