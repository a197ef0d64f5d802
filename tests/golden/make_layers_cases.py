#!/usr/bin/env python3
"""Makes cases/layers.json and cases/layers.safetensors with the PyTorch that runs it: functions of
torch.nn.functional, by name, with the arguments they were called with.

  tests/golden/make_layers_cases.py [FOLDER]
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F

from safetensors_file import save_safetensors

SIGNAL, IMAGE, VOLUME = (2, 3, 10), (2, 3, 7, 5), (2, 2, 5, 4, 6)


def resizing():
    for mode in ("nearest", "nearest-exact", "area", "linear"):
        yield "interpolate", [SIGNAL], {"size": 7, "mode": mode}
        yield "interpolate", [SIGNAL], {"scale_factor": 1.7, "mode": mode}
    for mode in ("nearest", "nearest-exact", "area", "bilinear", "bicubic"):
        yield "interpolate", [IMAGE], {"size": [11, 3], "mode": mode}
        yield "interpolate", [IMAGE], {"scale_factor": [1.3, 2.6], "mode": mode}
    for mode in ("bilinear", "bicubic"):
        yield "interpolate", [IMAGE], {"size": [11, 3], "mode": mode, "align_corners": True}
        yield "interpolate", [IMAGE], {"scale_factor": 1.3, "mode": mode,
                                       "recompute_scale_factor": True}
        # The size stays although the factor is not 1.
        yield "interpolate", [IMAGE], {"scale_factor": [1.1, 1.3], "mode": mode}
        for size in ([3, 2], [12, 9], [3, 9]):
            yield "interpolate", [IMAGE], {"size": size, "mode": mode, "antialias": True}
        yield "interpolate", [IMAGE], {"scale_factor": 0.45, "mode": mode, "antialias": True}
        yield "interpolate", [IMAGE], {"size": [3, 2], "mode": mode, "antialias": True,
                                       "align_corners": True}
    for mode in ("nearest", "nearest-exact", "area", "trilinear"):
        yield "interpolate", [VOLUME], {"size": [7, 3, 9], "mode": mode}
        yield "interpolate", [VOLUME], {"scale_factor": [1.3, 0.6, 1.7], "mode": mode}
    yield "interpolate", [VOLUME], {"size": [7, 3, 9], "mode": "trilinear", "align_corners": True}


def pooling():
    windows = {"kernel_size": 3, "stride": 2, "padding": 1}
    for axes, shape in ((1, SIGNAL), (2, IMAGE), (3, VOLUME)):
        for indices in (False, True):
            more = {"return_indices": True} if indices else {}
            yield f"max_pool{axes}d", [shape], {"kernel_size": 2, **more}
            yield f"max_pool{axes}d", [shape], {**windows, "dilation": 2, "ceil_mode": True, **more}
            yield f"max_pool{axes}d", [shape[1:]], {**windows, **more}
            yield f"adaptive_max_pool{axes}d", [shape], {"output_size": 3, **more}
        yield f"avg_pool{axes}d", [shape], {"kernel_size": 2}
        yield f"avg_pool{axes}d", [shape], {**windows, "ceil_mode": True}
        yield f"avg_pool{axes}d", [shape[1:]], {**windows, "ceil_mode": True,
                                                "count_include_pad": False}
        if axes > 1:
            yield f"avg_pool{axes}d", [shape], {**windows, "divisor_override": 5}
        yield f"adaptive_avg_pool{axes}d", [shape], {"output_size": 4}
        yield f"lp_pool{axes}d", [shape], {"norm_type": 2, "kernel_size": 3, "stride": 2,
                                           "ceil_mode": True}


def convolutions():
    yield "conv3d", [VOLUME, (4, 2, 3, 2, 2), (4,)], {}
    yield "conv3d", [VOLUME, (4, 1, 3, 2, 2), (4,)], {
        "stride": [2, 1, 2], "padding": [2, 1, 0], "dilation": [2, 1, 3], "groups": 2}
    yield "conv3d", [VOLUME, (4, 2, 2, 3, 4)], {"padding": "same", "dilation": [1, 2, 1]}
    yield "conv2d", [IMAGE, (4, 3, 2, 3), (4,)], {"padding": "same", "dilation": 3}
    yield "conv1d", [SIGNAL, (4, 3, 4), (4,)], {"padding": "same"}
    yield "conv_transpose1d", [SIGNAL, (3, 4, 3), (4,)], {}
    yield "conv_transpose1d", [(2, 4, 10), (4, 3, 3), (6,)], {
        "stride": 3, "padding": 2, "output_padding": 1, "groups": 2, "dilation": 2}
    yield "conv_transpose3d", [VOLUME, (2, 3, 2, 3, 2), (3,)], {}
    yield "conv_transpose3d", [VOLUME, (2, 3, 2, 3, 2), (6,)], {
        "stride": [3, 2, 1], "padding": [1, 2, 0], "output_padding": [2, 1, 1], "groups": 2,
        "dilation": [1, 2, 2]}


def others():
    yield "local_response_norm", [VOLUME], {"size": 2, "alpha": 0.3, "beta": 0.6, "k": 1.5}
    yield "local_response_norm", [SIGNAL], {"size": 3}
    yield "bilinear", [(2, 3, 4), (2, 3, 5), (6, 4, 5), (6,)], {}
    yield "channel_shuffle", [(2, 6, 3, 2)], {"groups": 3}


class Cases:
    def __init__(self):
        self.tensors, self.cases, self.count = {}, [], {}

    def add(self, op, inputs, args):
        """Runs one case: floating inputs get gradients."""
        self.count[op] = self.count.get(op, 0) + 1
        name = f"{op}_{self.count[op]}"
        names = [f"x{i}" for i in range(len(inputs))]
        grads = [key for key, x in zip(names, inputs) if x.is_floating_point()]
        for key, x in zip(names, inputs):
            self.keep(name, key, x)
            x.requires_grad_(key in grads)
        call = getattr(F, op, None) or getattr(torch, op)
        outputs = call(*inputs, **args)
        outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
        incoming = [torch.randn_like(y) if y.is_floating_point() else None for y in outputs]
        for i, (y, g) in enumerate(zip(outputs, incoming)):
            self.keep(name, f"y{i}", y)
            if g is not None:
                self.keep(name, f"gy{i}", g)
        differentiated = [(y, g) for y, g in zip(outputs, incoming) if g is not None]
        torch.autograd.backward(*map(list, zip(*differentiated)))
        for key, x in zip(names, inputs):
            if key in grads:
                self.keep(name, f"grad_{key}", x.grad)
        self.cases.append({"name": name, "op": op, "args": args, "inputs": names,
                           "outputs": [f"y{i}" for i in range(len(outputs))], "grads": grads,
                           "rtol": 1e-4, "atol": 1e-5})

    def keep(self, name, key, tensor):
        self.tensors[f"{name}/{key}"] = tensor.detach().clone().contiguous()


def unpooling(cases):
    for axes, shape in ((1, SIGNAL), (2, IMAGE), (3, VOLUME)):
        pool, unpool = getattr(F, f"max_pool{axes}d"), f"max_unpool{axes}d"
        x, indices = pool(torch.randn(shape), 2, return_indices=True)
        cases.add(unpool, [x, indices], {"kernel_size": 2, "output_size": list(shape[2:])})
        x, indices = pool(torch.randn(2, *[6] * axes), 2, return_indices=True)
        cases.add(unpool, [x, indices], {"kernel_size": 2})


def bags(cases):
    table, indices = torch.randn(7, 4), torch.tensor([1, 2, 6, 5, 3, 3, 0])
    for mode in ("sum", "mean", "max"):
        cases.add("embedding_bag", [torch.tensor([[1, 2, 6], [0, 3, 5]]), table.clone()],
                  {"mode": mode})
        cases.add("embedding_bag", [indices, table.clone(), torch.tensor([0, 2, 2, 5])],
                  {"mode": mode})
        cases.add("embedding_bag", [indices, table.clone(), torch.tensor([0, 2, 2, 5, 7])],
                  {"mode": mode, "include_last_offset": True, "padding_idx": 2})
    cases.add("embedding", [torch.tensor([[1, 2, 2], [2, 0, 1]]), table.clone()],
              {"scale_grad_by_freq": True})


def temporal_classification(cases):
    padded = torch.tensor([[1, 2, 2, 3], [4, 4, 1, 0], [3, 0, 0, 0]])
    flat = torch.tensor([1, 2, 2, 3, 4, 4, 1, 3])
    lengths = {"input_lengths": [9, 8, 5], "target_lengths": [4, 3, 1]}
    too_short = {"input_lengths": [9, 3, 5], "target_lengths": [4, 3, 1]}
    for targets in (padded, flat):
        for reduction in ("none", "mean", "sum"):
            cases.add("ctc_loss", [torch.randn(9, 3, 5).log_softmax(2), targets],
                      {**lengths, "reduction": reduction})
        cases.add("ctc_loss", [torch.randn(9, 3, 6).log_softmax(2), targets],
                  {**too_short, "blank": 5, "zero_infinity": True})
    cases.add("ctc_loss", [torch.randn(9, 5).log_softmax(1), flat[:3]],
              {"input_lengths": [8], "target_lengths": [3]})


def main():
    default = pathlib.Path(__file__).resolve().parent / "cases"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    torch.manual_seed(1)
    cases = Cases()
    for family in (resizing, pooling, convolutions, others):
        for op, shapes, args in family():
            cases.add(op, [torch.randn(shape) for shape in shapes], args)
    unpooling(cases)
    temporal_classification(cases)
    bags(cases)
    source = f"PyTorch {torch.__version__.split('+')[0]}"
    text = json.dumps({"family": "layers", "source": source, "cases": cases.cases}, indent=1)
    (folder / "layers.json").write_text(text + "\n")
    save_safetensors(cases.tensors, folder / "layers.safetensors")


main()
