"""The workloads of compare.py in PyTorch, eager, images channels-last, bfloat16 by autocast. Speaks
the protocol of wick_peer.cpp: WORKLOAD THREADS as arguments, then one line per command on standard
input: `run N` answers with the seconds of N iterations, `memory` with the growth of the peak
resident set since before the workload was set up, after three iterations."""

import sys
import time


def peak_kilobytes():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    raise RuntimeError("no VmHWM")


def training_step(torch, model, x, target, optimizer, mixed=False):
    loss_function = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = loss_function(model(x), target)
        loss.backward()
        optimizer.step()

    return step


def resnet18_step(torch, batch, size, mixed=False):
    import torchvision

    model = torchvision.models.resnet18(num_classes=10 if size <= 64 else 1000)
    if size <= 64:
        model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
        model.maxpool = torch.nn.Identity()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, size, size).contiguous(memory_format=torch.channels_last)
    target = torch.randint(0, 10, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    return training_step(torch, model, x, target, optimizer, mixed)


def article_001(torch, how):
    """Article 001's script: CIFAR-10 (here of noise) cropped and resized to 224, ResNet-18, SGD; as
    `written` but for its profiler, with a second forward pass in each step. Without a GPU its
    autocast and its scaler are off. `tuned` as the articles advise: channels-last, bfloat16
    autocast, a worker per core that stays; `compiled`: that by torch.compile."""
    import numpy
    import torchvision
    from PIL import Image

    transforms = torchvision.transforms
    noise = numpy.random.default_rng(1)
    transform = transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])])

    class Images(torch.utils.data.Dataset):  # as torchvision's CIFAR10
        data = noise.integers(0, 256, (20000, 32, 32, 3), dtype=numpy.uint8)
        targets = noise.integers(0, 10, 20000).tolist()

        def __len__(self):
            return len(self.data)

        def __getitem__(self, index):
            return transform(Image.fromarray(self.data[index])), self.targets[index]

    tuned = how != "written"
    loader = torch.utils.data.DataLoader(
        Images(), batch_size=128, shuffle=True, num_workers=2 if tuned else 4,
        persistent_workers=tuned)
    model = torchvision.models.resnet18()
    if tuned:
        model = model.to(memory_format=torch.channels_last)
    if how == "compiled":
        model = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def endless():
        while True:
            yield from loader

    batches = endless()

    def step():
        x, target = next(batches)
        if tuned:
            x = x.contiguous(memory_format=torch.channels_last)
        training_step(torch, model, x, target, optimizer, mixed=tuned)()

    return step


def mlp_step(torch):
    from torch import nn

    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                          nn.Linear(512, 10))
    x, target = torch.randn(64, 784), torch.randint(0, 10, (64,))
    return training_step(torch, model, x, target, torch.optim.AdamW(model.parameters(), lr=1e-3))


def adamw_step(torch, **options):
    parameters = [torch.randn(2**20, requires_grad=True) for _ in range(24)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return torch.optim.AdamW(parameters, lr=1e-3, **options).step


def row_op(torch, name):
    x = torch.randn(8192, 4096)
    target = torch.randint(0, 4096, (8192,))
    weight, bias = torch.ones(4096), torch.zeros(4096)
    functional = torch.nn.functional
    op = {
        "softmax": lambda t: functional.softmax(t, 1),
        "layer_norm": lambda t: functional.layer_norm(t, (4096,), weight, bias),
        "gelu": functional.gelu,
        "cross_entropy": lambda t: functional.cross_entropy(t, target),
    }[name.removesuffix("_backward")]
    if not name.endswith("_backward"):
        return lambda: op(x)
    x.requires_grad_()
    gradient = torch.ones_like(op(x))

    def both():
        x.grad = None
        op(x).backward(gradient)

    return both


def make(torch, workload):
    if workload == "resnet18_32_b128":
        return resnet18_step(torch, 128, 32)
    if workload == "resnet18_224_b16":
        return resnet18_step(torch, 16, 224)
    if workload == "resnet18_32_b128_bf16":
        return resnet18_step(torch, 128, 32, mixed=True)
    if workload == "resnet18_224_b16_bf16":
        return resnet18_step(torch, 16, 224, mixed=True)
    if workload.startswith("article_001"):
        return article_001(torch, workload.removeprefix("article_001").strip("_") or "written")
    if workload == "mlp_b64":
        return mlp_step(torch)
    if workload == "adamw_25m":
        return adamw_step(torch)
    if workload == "adamw_25m_fused":
        return adamw_step(torch, fused=True)
    return row_op(torch, workload)


def main():
    workload, threads = sys.argv[1], int(sys.argv[2])
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if workload.startswith(("resnet18", "article")):
        import torchvision  # its own memory is no part of the workload

        assert torchvision
    before = peak_kilobytes()
    has_backward = workload not in ("softmax", "layer_norm", "gelu", "cross_entropy")
    with torch.enable_grad() if has_backward else torch.no_grad():
        iterate = make(torch, workload)
        print("ready", torch.__version__, flush=True)
        for line in sys.stdin:
            command = line.split()
            if command[0] == "run":
                start = time.perf_counter()
                for _ in range(int(command[1])):
                    iterate()
                print(time.perf_counter() - start, flush=True)
            else:
                for _ in range(3):
                    iterate()
                print((peak_kilobytes() - before) * 1024, flush=True)


if __name__ == "__main__":
    main()
