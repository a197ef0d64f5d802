#!/usr/bin/env python3
"""Makes models in ONNX, and what PyTorch computes with each: its outputs, the gradients of a loss,
and five steps of SGD.

  tests/onnx/make_cases.py [--torchvision] [FOLDER]

Without a folder it makes tests/onnx/cases. It needs torch, torchvision, onnx, onnxscript and
safetensors from PyPI. With --torchvision the models are torchvision's own, which onnx_test reads
from the folder that WICK_ONNX_CASES names.
"""
import argparse
import copy
import pathlib
import sys
import warnings

import onnx
import torch
import torchvision
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from small_models import MODELS, NEWER  # noqa: E402

RATE, MOMENTUM, STEPS = 0.02, 0.9, 5
REAL = ("resnet18", "squeezenet1_1", "densenet121", "googlenet", "mobilenet_v2",
        "mobilenet_v3_small", "shufflenet_v2_x0_5", "mnasnet0_5", "efficientnet_b0",
        "regnet_y_400mf", "convnext_tiny")


def perturb(model):
    """No two tensors alike, statistics included: an exporter joins those that are."""
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and tensor.dim() > 0:
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


def record(model, x):
    """What PyTorch computes, by name."""
    known = {"x": x}
    with torch.no_grad():
        known["y"] = model.eval()(x)
    known["weights"] = torch.randn_like(known["y"]) / known["y"].numel()
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


def real_model(name):
    options = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
    model = getattr(torchvision.models, name)(weights=None, **options)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(module, torchvision.ops.StochasticDepth):
            module.p = 0.0
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent / "cases")
    parser.add_argument("--torchvision", action="store_true")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.torchvision:
        cases = [(name, lambda name=name: real_model(name),
                  lambda: torch.randn(4, 3, 64, 64), False) for name in REAL]
    else:
        cases = [(name, *parts, False) for name, parts in MODELS.items()]
        cases += [(f"{name}_newer", *MODELS[name], True) for name in NEWER]
    for name, make, example, newer in cases:
        if arguments.only and arguments.only != name:
            continue
        torch.manual_seed(7)
        model, x = make(), example()
        perturb(model)
        path = arguments.folder / f"{name}.onnx"
        export(model, x, str(path), newer)
        take_statistics(model, path)
        save_file(record(model, x), arguments.folder / f"{name}.safetensors")
        print(f"{name}: {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
