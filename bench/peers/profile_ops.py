#!/usr/bin/env python3
"""The operations of one training step as Wick's profiler and as PyTorch's count them: how often
each is called and, where both count them, FLOPs. Prints a table; ends with 1 where they differ.

usage: profile_ops.py WICK    the built program. Run with a Python that has PyTorch.

FLOPs are those of forward passes, with what runs within an operation. PyTorch counts none of a
convolution's backward, nor of scaled_dot_product_attention.
"""
import collections
import json
import subprocess
import sys

BATCH = 8
LIMIT = 0.01  # of FLOPs
# Of each network: Wick's names, which together are PyTorch's, and whether both count FLOPs.
ALL = [("conv2d", "aten::conv2d", True),
       ("cross_entropy", "aten::cross_entropy_loss", False),
       ("Conv2dBackward", "ConvolutionBackward0", False),
       ("AccumulateGrad", "torch::autograd::AccumulateGrad", False),
       ("Optimizer.step#sgd.step", "Optimizer.step#SGD.step", False),
       ("Optimizer.zero_grad#sgd.zero_grad", "Optimizer.zero_grad#SGD.zero_grad", False)]
NAMES = {
    # ReLU is part of Wick's batch norm here.
    "resnet18": [*ALL, ("linear", "aten::linear", True),
                 ("batch_norm", "aten::batch_norm", False),
                 ("BatchNormBackward", "NativeBatchNormBackward0", False),
                 ("LinearBackward", "AddmmBackward0", False)],
    "vit": [*ALL, ("linear + linear_gelu", "aten::linear", True),
            ("linear_gelu", "aten::gelu", False),
            ("layer_norm + add_layer_norm", "aten::layer_norm", False),
            ("LayerNormBackward + AddLayerNormBackward", "NativeLayerNormBackward0", False),
            ("fused_attention", "aten::scaled_dot_product_attention", False)],
}


def of_wick(program, model):
    """Calls and FLOPs of a step by name."""
    done = subprocess.run(
        [program, "profile", "--model", model, "--data", "shapes10", "--batch-size", str(BATCH),
         "--optimizer", "sgd", "--steps", "1", "--skip-steps", "1", "--device", "cpu", "--json"],
        capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)["averages"]["rows"]
    return {row["name"]: (int(row["count"]), row["flops"]) for row in rows}


def make_vit(torch):
    """Wick's nn::Vit for images of 32 x 32."""
    def gelu(x):
        return torch.nn.functional.gelu(x, approximate="tanh")

    class Vit(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = torch.nn.Conv2d(3, 128, 4, 4)
            self.positions = torch.nn.Parameter(torch.zeros(1, 64, 128))
            self.encoder = torch.nn.Sequential(*[
                torch.nn.TransformerEncoderLayer(128, 4, 256, 0.0, gelu, batch_first=True,
                                                 norm_first=True) for _ in range(6)])
            self.norm = torch.nn.LayerNorm(128)
            self.head = torch.nn.Linear(128, 10)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            return self.head(self.norm(self.encoder(x + self.positions)).mean(1))

    return Vit()


def of_torch(model):
    import torch
    from torch.profiler import ProfilerActivity, profile
    from torch_resnet import resnet

    network = make_vit(torch) if model == "vit" else resnet(18, 10, True)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    x, target = torch.randn(BATCH, 3, 32, 32), torch.zeros(BATCH, dtype=torch.long)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), target).backward()
        optimizer.step()

    step()
    with profile(activities=[ProfilerActivity.CPU], with_flops=True) as found:
        step()
    calls, flops = collections.Counter(), collections.Counter()
    for event in found.events():
        calls[event.name] += 1
        around = event
        while around is not None and event.flops:
            flops[around.name] += event.flops
            around = around.cpu_parent
    return calls, flops


def main(program):
    differ = 0
    print("| network | Wick | PyTorch | calls | calls | MFLOPs | MFLOPs |")
    print("|---|---|---|---|---|---|---|")
    for model, names in NAMES.items():
        wick, (their_calls, their_flops) = of_wick(program, model), of_torch(model)
        for own, other, counts_flops in names:
            found = [wick.get(name, (0, 0)) for name in own.split(" + ")]
            calls, flops = (sum(column) for column in zip(*found))
            is_same = calls == their_calls[other] > 0
            figures = " | "
            if counts_flops:
                is_same &= abs(flops - their_flops[other]) <= LIMIT * their_flops[other]
                figures = f"{flops / 1e6:.3f} | {their_flops[other] / 1e6:.3f}"
            differ += not is_same
            print(f"| {model} | {own} | {other} | {calls} | {their_calls[other]} | {figures} |"
                  + ("" if is_same else " differs"))
    return 1 if differ else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
