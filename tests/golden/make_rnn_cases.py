#!/usr/bin/env python3
"""Makes cases/rnn.json and cases/rnn.safetensors with the PyTorch that runs it.

  tests/golden/make_rnn_cases.py [FOLDER]
"""
import json
import pathlib
import sys

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from safetensors_file import save_safetensors

STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
LENGTHS = [3, 5, 1]  # not sorted
CASES = [
    ("rnn_tanh", "RNN", {}),
    ("rnn_relu", "RNN", {"nonlinearity": "relu", "num_layers": 2, "batch_first": True}),
    ("rnn_packed", "RNN", {"bidirectional": True, "lengths": LENGTHS}),
    ("lstm", "LSTM", {}),
    ("lstm_no_bias", "LSTM", {"bias": False, "batch_first": True}),
    ("lstm_deep", "LSTM", {"num_layers": 3, "bidirectional": True}),
    ("lstm_projected", "LSTM", {"num_layers": 2, "proj_size": 2, "bidirectional": True}),
    ("lstm_packed", "LSTM", {"num_layers": 2, "bidirectional": True, "lengths": LENGTHS}),
    ("lstm_packed_projected", "LSTM", {"proj_size": 3, "lengths": LENGTHS, "batch_first": True}),
    ("lstm_unbatched", "LSTM", {"num_layers": 2, "unbatched": True}),
    ("gru", "GRU", {}),
    ("gru_deep", "GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    ("gru_packed", "GRU", {"num_layers": 2, "bidirectional": True, "lengths": LENGTHS}),
    ("gru_unbatched", "GRU", {"bias": False, "unbatched": True}),
]


def run(name, network, args, tensors):
    """Runs one case, adds its tensors and returns its description."""
    def keep(key, tensor):
        tensors[f"{name}/{key}"] = tensor.detach().clone().contiguous()
        return tensor

    options = {k: v for k, v in args.items() if k not in ("lengths", "unbatched")}
    module = getattr(torch.nn, network)(INPUT, HIDDEN, **options)
    first = args.get("batch_first", False)
    batch = () if args.get("unbatched") else (BATCH,)
    shape = (*batch, STEPS, INPUT) if first else (STEPS, *batch, INPUT)
    x = keep("x", torch.randn(shape)).requires_grad_()
    states = args.get("num_layers", 1) * (2 if args.get("bidirectional") else 1)
    starts = [torch.randn(states, *batch, args.get("proj_size", 0) or HIDDEN)]
    if network == "LSTM":
        starts.append(torch.randn(states, *batch, HIDDEN))
    for key, start in zip(("h_0", "c_0"), starts):
        keep(key, start).requires_grad_()
    given = x
    if "lengths" in args:
        given = pack_padded_sequence(x, args["lengths"], first, enforce_sorted=False)
    y, state = module(given, tuple(starts) if network == "LSTM" else starts[0])
    if "lengths" in args:
        y, _ = pad_packed_sequence(y, first)
    outputs = [y, *state] if network == "LSTM" else [y, state]
    incoming = [torch.randn_like(output) for output in outputs]
    for key, output, gradient in zip(("y", "h_n", "c_n"), outputs, incoming):
        keep(key, output)
        keep(f"g{key}", gradient)
    torch.autograd.backward(outputs, incoming)
    for key, leaf in zip(("x", "h_0", "c_0"), (x, *starts)):
        keep(f"grad_{key}", leaf.grad)
    for key, weight in module.named_parameters():
        keep(f"weights/{key}", weight)
        keep(f"grad/{key}", weight.grad)
    return {"name": name, "op": network, "args": {"input_size": INPUT, "hidden_size": HIDDEN,
                                                  **args}, "rtol": 1e-4, "atol": 1e-5}


def main():
    default = pathlib.Path(__file__).resolve().parent / "cases"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    torch.manual_seed(1)
    tensors = {}
    cases = [run(name, network, args, tensors) for name, network, args in CASES]
    source = f"PyTorch {torch.__version__.split('+')[0]}"
    text = json.dumps({"family": "rnn", "source": source, "cases": cases}, indent=1)
    (folder / "rnn.json").write_text(text + "\n")
    save_safetensors(tensors, folder / "rnn.safetensors")


main()
