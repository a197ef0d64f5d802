"""The workloads of compare.py in PyTorch. Speaks the protocol of wick_peer.cpp, with the arguments
WORKLOAD THREADS [DEVICE [STYLE]].

Styles: `written`, eager as the articles begin: images NCHW, default optimizers, float32 or, where
the workload is named bfloat16 and there is a GPU, article 001's float16 by autocast and GradScaler;
`tuned`, the default: eager, images channels-last, bfloat16 by autocast where the workload is named
so, and on a GPU TF32, measured cuDNN engines and fused optimizers; `compiled`: that by
torch.compile in its default mode, or as `compiled:MODE`. For inference a mode may end with
`-freezing`, torch._inductor's; `compiled:jit` is torch.jit.freeze and optimize_for_inference."""

import re
import sys
import time

device = "cpu"
style = "tuned"


def peak_kilobytes():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    raise RuntimeError("no VmHWM")


def sixteen_bits(torch, written):
    """What autocast computes in: as article 001 writes it, float16, or nothing where there is no
    GPU; else bfloat16."""
    if not written:
        return torch.bfloat16
    return torch.float16 if device == "cuda" else None


def training_step(torch, model, optimizer, lower=None):
    """A step on (x, target), with autocast to `lower` unless that is None, and in float16 with a
    GradScaler."""
    loss_function = torch.nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler("cuda") if lower == torch.float16 else None

    def step(x, target):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, lower or torch.bfloat16, enabled=lower is not None):
            loss = loss_function(model(x), target)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return step


def compiled(torch, function):
    """`function` by torch.compile, in the mode of the style, if the style asks for it."""
    if not style.startswith("compiled"):
        return function
    mode = style.partition(":")[2]
    if mode.endswith("-freezing"):
        import torch._inductor.config

        torch._inductor.config.freezing = True
    return torch.compile(function, mode=mode.removesuffix("-freezing") or None)


def optimizer_options():
    return {"fused": True} if device == "cuda" and style != "written" else {}


def resnet_step(torch, layers, batch, size, mixed, graph=False):
    from torch_resnet import resnet

    model = resnet(layers, classes=10 if size <= 64 else 1000, small_input=size <= 64).to(device)
    x = torch.randn(batch, 3, size, size, device=device)
    if style != "written":
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    target = torch.randint(0, 10, (batch,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4,
                                **optimizer_options())
    lower = sixteen_bits(torch, style == "written") if mixed else None
    if graph:
        step = training_step(torch, model, optimizer, lower)
        return captured(torch, lambda: step(x, target))
    step = training_step(torch, compiled(torch, model), optimizer, lower)
    return lambda: step(x, target)


def resnet_inference(torch, layers, batch, size):
    from torch_resnet import resnet

    model = resnet(layers, classes=1000, small_input=False).to(device).eval()
    x = torch.randn(batch, 3, size, size, device=device)
    if style != "written":
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        if style == "compiled:jit":
            run = torch.jit.freeze(torch.jit.trace(model, x))
            run = torch.jit.optimize_for_inference(run)
        else:
            run = compiled(torch, model)
        for _ in range(3):
            run(x)  # the first calls compile

    def infer():
        with torch.no_grad() if style.startswith("compiled") else torch.inference_mode():
            run(x)

    return infer


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
    model = torchvision.models.resnet18().to(device)
    if tuned:
        model = model.to(memory_format=torch.channels_last)
    if how == "compiled":
        model = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def endless():
        while True:
            yield from loader

    batches = endless()
    step = training_step(torch, model, optimizer, sixteen_bits(torch, not tuned))

    def load_and_step():
        x, target = (t.to(device) for t in next(batches))
        if tuned:
            x = x.contiguous(memory_format=torch.channels_last)
        step(x, target)

    return load_and_step


def recurrent_step(torch, kind):
    """Forward and backward of two layers of 512 units, on 32 sequences of 64 steps."""
    model = getattr(torch.nn, kind.upper())(512, 512, 2).to(device)
    x, dy = torch.randn(64, 32, 512, device=device), torch.randn(64, 32, 512, device=device)
    run = compiled(torch, model)

    def step():
        model.zero_grad(set_to_none=True)
        run(x)[0].backward(dy)

    return step


def mlp_step(torch, graph=False):
    from torch import nn

    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                          nn.Linear(512, 10)).to(device)
    x, target = torch.randn(64, 784, device=device), torch.randint(0, 10, (64,), device=device)
    capturable = {"capturable": True} if graph else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **optimizer_options(), **capturable)
    if graph:
        step = training_step(torch, model, optimizer)
        return captured(torch, lambda: step(x, target))
    step = training_step(torch, compiled(torch, model), optimizer)
    return lambda: step(x, target)


def encoder_step(torch):
    """Six layers on 8 sequences of 128 tokens, and the mean square of the last one's results."""
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **optimizer_options())
    x = torch.randn(8, 128, 256, device=device)
    run = compiled(torch, model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        run(x).square().mean().backward()
        optimizer.step()

    return step


def adamw_step(torch, tensors, size, how=None):
    parameters = [torch.randn(size, device=device, requires_grad=True) for _ in range(tensors)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter) * (1e-21 if how == "_vanished" else 1)
    options = optimizer_options() | ({"fused": True} if how == "_fused" else {})
    return compiled(torch, torch.optim.AdamW(parameters, lr=1e-3, **options).step)


def embedding_step(torch, sparse):
    """A step of Adam that looks 512 rows of a table of a million up."""
    table = torch.nn.Embedding(1_000_000, 64, sparse=sparse).to(device)
    optimizer = (torch.optim.SparseAdam(table.parameters()) if sparse
                 else torch.optim.Adam(table.parameters(), **optimizer_options()))
    rows = torch.randint(0, 1_000_000, (512,), device=device)

    def step():
        optimizer.zero_grad()
        table(rows).square().mean().backward()
        optimizer.step()

    return step


def row_op(torch, name, columns, dtype, backward):
    x = torch.randn(8192, columns, device=device).to(dtype)
    target = torch.randint(0, columns, (8192,), device=device)
    weight = torch.ones(columns, dtype=dtype, device=device)
    bias = torch.zeros(columns, dtype=dtype, device=device)
    functional = torch.nn.functional
    smoothing = 0.1 if columns > 4096 else 0.0
    op = compiled(torch, {
        "softmax": lambda t: functional.softmax(t, 1),
        "layer_norm": lambda t: functional.layer_norm(t, (columns,), weight, bias),
        "gelu": functional.gelu,
        "cross_entropy": lambda t: functional.cross_entropy(t, target, label_smoothing=smoothing),
    }[name])
    if not backward:
        def alone():
            with torch.no_grad():
                op(x)

        return alone
    x.requires_grad_()
    gradient = torch.ones_like(op(x))

    def both():
        x.grad = None
        op(x).backward(gradient)

    return both


def attention(torch, length, dtype, backward):
    """8 heads of 64 features, of as many sequences as make up 2048 tokens."""
    shape = (max(1, 2048 // length), 8, length, 64)
    operands = [torch.randn(shape, device=device).to(dtype) for _ in range(3)]
    attend = compiled(torch, torch.nn.functional.scaled_dot_product_attention)
    if not backward:
        def alone():
            with torch.no_grad():
                attend(*operands)

        return alone
    for x in operands:
        x.requires_grad_()
    gradient = torch.randn(shape, device=device).to(dtype)

    def both():
        for x in operands:
            x.grad = None
        attend(*operands).backward(gradient)

    return both


def product(torch, m, n, k, transposed, dtype):
    """[m, k] times [k, n]; "t" says which lies transposed."""
    a = torch.randn((k, m) if transposed[0] == "t" else (m, k), device=device).to(dtype)
    b = torch.randn((n, k) if transposed[1] == "t" else (k, n), device=device).to(dtype)
    a, b = a.t() if transposed[0] == "t" else a, b.t() if transposed[1] == "t" else b
    multiply = compiled(torch, torch.matmul)
    return lambda: multiply(a, b)


def small_add(torch):
    """What an op costs that hardly computes anything."""
    x, y = torch.randn(1000, device=device), torch.randn(1000, device=device)
    return lambda: x + y


def allocator_pairs(torch):
    """A request of 1 MiB that the GPU's cache serves, and its end, a thousand times."""
    allocate, delete = torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete
    stream = torch.cuda.current_stream().cuda_stream

    def pairs():
        for _ in range(1000):
            delete(allocate(2**20, 0, stream))

    return pairs


def captured(torch, step):
    """What `step` queues on a GPU, by one call."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def thousand_launches(torch):
    """A thousand small kernels, one after the other."""
    x = torch.randn(1000, device=device)

    def launches():
        for _ in range(1000):
            x.add_(1)

    return captured(torch, launches) if device == "cuda" else launches


def ceiling(torch, what):
    """What the machine does at most, to see how far from it the rest is."""
    if what == "launch":
        return thousand_launches(torch)
    if what == "copy":
        source = torch.randn(2**28, device=device)
        copy = torch.empty_like(source)
        return lambda: copy.copy_(source)
    a, b = (torch.randn(8192, 8192, device=device).to(torch.bfloat16) for _ in range(2))
    return lambda: a @ b


def make(torch, workload):
    def has(form):
        return re.fullmatch(form, workload)

    if not workload.startswith("article"):  # Wick is compiled; whether the peer is, its style says
        workload = workload.removesuffix("_compiled")
    if part := has(r"resnet(18|50)_(\d+)_b(\d+)(_bf16)?(_graph)?"):
        return resnet_step(torch, int(part[1]), int(part[3]), int(part[2]), part[4] is not None,
                           part[5] is not None)
    if part := has(r"resnet(18|50)_infer_(\d+)_b(\d+)"):
        return resnet_inference(torch, int(part[1]), int(part[3]), int(part[2]))
    if part := has("article_001(?:_(.*))?"):
        return article_001(torch, part[1] or "written")
    if workload == "mlp_b64":
        return mlp_step(torch)
    if workload == "mlp_b64_graph":
        return mlp_step(torch, graph=True)
    if workload == "encoder_6":
        return encoder_step(torch)
    if part := has("(lstm|gru)_2x512"):
        return recurrent_step(torch, part[1])
    if part := has("embedding_1m(_sparse)?"):
        return embedding_step(torch, part[1] is not None)
    if part := has("adamw_25m(_fused|_vanished)?"):
        return adamw_step(torch, 24, 2**20, part[1])
    if workload == "adamw_100m":
        return adamw_step(torch, 150, 700_000)
    if workload == "adamw_1000_tensors":
        return adamw_step(torch, 1000, 1000)
    if part := has(r"product_(\d+)x(\d+)x(\d+)([nt]{2})(_bf16)?"):
        return product(torch, int(part[1]), int(part[2]), int(part[3]), part[4],
                       torch.bfloat16 if part[5] else torch.float32)
    if part := has(r"attention_(\d+)(_bf16)?(_backward)?"):
        return attention(torch, int(part[1]), torch.bfloat16 if part[2] else torch.float32,
                         part[3] is not None)
    if part := has(r"(softmax|layer_norm|gelu|cross_entropy)(_\d+)?(_bf16)?(_backward)?"):
        return row_op(torch, part[1], int((part[2] or "_4096")[1:]),
                      torch.bfloat16 if part[3] else torch.float32, part[4] is not None)
    if workload == "add_1k":
        return small_add(torch)
    if workload == "allocator_pair":
        return allocator_pairs(torch)
    if part := has("ceiling_(copy|matmul|launch)"):
        return ceiling(torch, part[1])
    raise SystemExit(f"peer: unknown workload: {workload}")


def main():
    global device, style
    workload, threads = sys.argv[1], int(sys.argv[2])
    device, style = (sys.argv[3:] + ["cpu", "tuned"][len(sys.argv) - 3:])[:2]
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    on_gpu = device == "cuda"
    if on_gpu and style != "written":
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    if workload.startswith("article"):
        import torchvision  # its own memory is no part of the workload

        assert torchvision

    def peak_bytes():
        return torch.cuda.max_memory_allocated() if on_gpu else peak_kilobytes() * 1024

    def finish():
        if on_gpu:
            torch.cuda.synchronize()

    def seconds_of(count):
        finish()
        start = time.perf_counter()
        for _ in range(count):
            iterate()
        finish()
        return time.perf_counter() - start

    before = peak_bytes()
    iterate = make(torch, workload)
    seconds_of(1)
    print("ready", torch.__version__, flush=True)
    for line in sys.stdin:
        command, *count = line.split()
        if command == "run":
            if on_gpu:
                seconds_of(1)
            answer = seconds_of(int(count[0]))
        elif command == "memory":
            if on_gpu:
                torch.cuda.reset_peak_memory_stats()
            seconds_of(3)
            answer = peak_bytes() - before
        elif command == "requests":
            answer = torch.cuda.memory_stats()["num_device_alloc"]
        else:
            raise SystemExit(f"peer: unknown command: {command}")
        print(answer, flush=True)


if __name__ == "__main__":
    main()
