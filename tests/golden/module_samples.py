"""Samples of modules and optimizers that PyTorch's own leave out, for make_module_cases.py: a
class, what it is made with (keywords last), and what it is called with."""
import torch


def leaf(*shape):
    return torch.randn(shape).requires_grad_()


def normalizing():
    for axes, name in ((1, "1d"), (2, "2d"), (3, "3d")):
        x = leaf(4, 3, *[3, 2, 4][:axes])
        for options in ({"momentum": None}, {"bias": False}, {"momentum": 0.7, "eps": 0.2},
                        {"affine": False, "momentum": None}, {"track_running_stats": False}):
            yield f"BatchNorm{name}", (3, options), (x,)
        for options in ({"affine": True, "bias": False}, {"momentum": 0.7, "eps": 0.2},
                        {"affine": True, "track_running_stats": True, "momentum": 0.4}):
            yield f"InstanceNorm{name}", (3, options), (x,)
            yield f"InstanceNorm{name}", (3, options), (leaf(3, *[3, 2, 4][:axes]),)
    yield "BatchNorm1d", (5, {"momentum": None}), (leaf(6, 5),)
    yield "GroupNorm", (2, 4, {"affine": False}), (leaf(3, 4, 5),)
    yield "GroupNorm", (2, 4, {"bias": False}), (leaf(3, 4, 5, 2),)
    yield "GroupNorm", (4, 4), (leaf(3, 4),)
    yield "LayerNorm", ([3, 4], {"bias": False, "eps": 0.1}), (leaf(2, 3, 4),)
    yield "RMSNorm", ([3, 4], {"elementwise_affine": False}), (leaf(2, 3, 4),)
    yield "RMSNorm", (4, {"eps": 0.3}), (leaf(2, 3, 4),)
    yield "LocalResponseNorm", (3, {"alpha": 0.2, "beta": 0.6, "k": 2.0}), (leaf(2, 5, 4),)


def pooling():
    for axes in (1, 2, 3):
        shape = [7, 6, 5][:axes]
        x = leaf(2, 3, *shape)
        yield f"MaxPool{axes}d", (3, {"stride": 2, "padding": 1, "dilation": 2,
                                      "ceil_mode": True, "return_indices": True}), (x,)
        yield f"AvgPool{axes}d", (3, {"stride": 2, "padding": 1, "ceil_mode": True,
                                      "count_include_pad": False}), (x,)
        yield f"AdaptiveMaxPool{axes}d", (3, {"return_indices": True}), (x,)
        even = torch.randn(2, 3, *[6, 4, 2][:axes])
        y, indices = getattr(torch.nn, f"MaxPool{axes}d")(2, return_indices=True)(even)
        yield f"MaxUnpool{axes}d", (2,), (y.requires_grad_(), indices)
        y, indices = getattr(torch.nn, f"MaxPool{axes}d")(2, return_indices=True)(x)
        y = y.detach().requires_grad_()
        yield f"MaxUnpool{axes}d", (2,), (y, indices, shape)
        y, indices = getattr(torch.nn, f"MaxPool{axes}d")(3, 2, 1, return_indices=True)(x)
        yield f"MaxUnpool{axes}d", (3, 2, 1), (y.detach().requires_grad_(), indices, shape)
        yield f"LPPool{axes}d", (3, 2, {"stride": 1, "ceil_mode": True}), (x,)
    yield "AvgPool2d", (3, {"divisor_override": 5}), (leaf(2, 3, 7, 6),)
    yield "AvgPool3d", (2, {"divisor_override": 5}), (leaf(2, 3, 5, 6, 4),)
    yield "AdaptiveAvgPool2d", ([None, 3],), (leaf(2, 3, 7, 6),)
    yield "AdaptiveMaxPool3d", ([None, 3, 2],), (leaf(2, 3, 4, 6, 3),)


def convolving():
    for axes in (1, 2, 3):
        x = leaf(2, 4, *[7, 6, 5][:axes])
        for mode in ("reflect", "replicate", "circular"):
            yield f"Conv{axes}d", (4, 6, 3, {"padding": "same", "dilation": 2 if axes == 1 else 1,
                                             "padding_mode": mode}), (x,)
        yield f"Conv{axes}d", (4, 6, 2, {"padding": "same", "groups": 2}), (x,)
        yield f"Conv{axes}d", (4, 6, 2, {"padding": "valid", "bias": False}), (x,)
        yield f"Conv{axes}d", (4, 8, 3, {"stride": 2, "padding": 1, "groups": 4}), (x,)
        yield f"ConvTranspose{axes}d", (4, 6, 3, {"stride": 2, "padding": 1, "output_padding": 1,
                                                  "groups": 2, "dilation": 2}), (x,)
        size = [2 * n for n in x.shape[2:]]
        yield f"ConvTranspose{axes}d", (4, 3, 3, {"stride": 2, "padding": 1}), (x, size)
        yield f"ConvTranspose{axes}d", (4, 3, 2, {"bias": False}), (x[0].detach(),)


def shaping():
    yield "ChannelShuffle", (3,), (leaf(2, 6, 3, 2),)
    yield "Unflatten", (1, [2, -1]), (leaf(2, 6, 3),)
    yield "Flatten", (0, 1), (leaf(2, 6, 3),)
    yield "Identity", (), (leaf(2, 3),)
    yield "PixelShuffle", (2,), (leaf(8, 3, 2),)
    yield "PixelUnshuffle", (2,), (leaf(2, 3, 4, 6),)
    yield "Unfold", ([2, 3], {"dilation": 2, "padding": 1, "stride": [1, 2]}), (leaf(2, 3, 6, 7),)
    yield "Unfold", (2,), (leaf(3, 4, 5),)
    yield "Fold", ([4, 5], [2, 2]), (leaf(2, 12, 12),)
    yield "Fold", ([6, 7], [2, 3], {"dilation": 2, "padding": 1, "stride": [1, 2]}), (
        leaf(18, 18),)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        yield "Upsample", ({"size": [5, 9], "mode": mode},), (leaf(2, 3, 4, 6),)
        yield "Upsample", ({"scale_factor": 1.6, "mode": mode},), (leaf(2, 3, 4, 6),)
        yield "Upsample", ({"scale_factor": (1.6, 2.3), "mode": mode,
                            "recompute_scale_factor": True},), (leaf(2, 3, 4, 6),)
    yield "Upsample", ({"scale_factor": 2, "mode": "linear", "align_corners": True},), (
        leaf(2, 3, 6),)
    yield "UpsamplingNearest2d", ({"scale_factor": 2},), (leaf(2, 3, 4, 5),)
    yield "UpsamplingBilinear2d", ({"size": [5, 7]},), (leaf(2, 3, 4, 5),)
    for p in (0.0, 0.4, 1.0):
        for name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout",
                     "FeatureAlphaDropout"):
            axes = {"1": 1, "2": 2, "3": 3}.get(name[-2], 2)
            yield name, (p,), (leaf(3, 4, *[3, 2, 2][:axes]),)


def embedding():
    indices = torch.tensor([[1, 2, 2], [6, 0, 1]])
    for options in ({"padding_idx": 2}, {"padding_idx": -1}, {"max_norm": 1.0},
                    {"max_norm": 0.8, "norm_type": 1.0}, {"scale_grad_by_freq": True},
                    {"sparse": True}):
        yield "Embedding", (7, 4, options), (indices,)
    flat, offsets = torch.tensor([1, 2, 6, 5, 3, 3, 0]), torch.tensor([0, 2, 2, 5])
    for mode in ("sum", "mean", "max"):
        for options in ({}, {"padding_idx": 2}, {"max_norm": 1.0}, {"scale_grad_by_freq": True}):
            if mode == "max" and "scale_grad_by_freq" in options:
                continue
            yield "EmbeddingBag", (7, 4, {"mode": mode, **options}), (indices,)
            yield "EmbeddingBag", (7, 4, {"mode": mode, **options}), (flat, offsets)
        yield "EmbeddingBag", (7, 4, {"mode": mode, "include_last_offset": True}), (
            flat, torch.tensor([0, 2, 2, 5, 7]))
    yield "EmbeddingBag", (7, 4, {"mode": "sum"}), (flat, offsets, leaf(7))
    yield "EmbeddingBag", (7, 4, {"mode": "sum", "sparse": True}), (flat, offsets)


def comparing():
    for options in ({}, {"dim": -1, "eps": 0.5}):
        yield "CosineSimilarity", (options,), (leaf(3, 4, 2), leaf(3, 4, 2))
    yield "CosineSimilarity", (), (leaf(3, 4), leaf(1, 4))
    for options in ({}, {"margin": 0.4, "p": 3.0, "swap": True}, {"reduction": "none"},
                    {"reduction": "sum", "eps": 0.1, "p": 1.0}):
        yield "TripletMarginLoss", (options,), (leaf(3, 4), leaf(3, 4), leaf(3, 4))
    yield "TripletMarginLoss", (), (leaf(4), leaf(4), leaf(4))
    yield "TripletMarginWithDistanceLoss", ({"margin": 0.5, "swap": True},), (
        leaf(3, 4), leaf(3, 4), leaf(3, 4))
    for options in ({"keepdim": True}, {"p": 1.0, "eps": 0.1}, {"p": float("inf")}):
        yield "PairwiseDistance", (options,), (leaf(3, 4), leaf(3, 4))
    yield "Softplus", (0.5, 1.0), (leaf(3, 4),)
    yield "BCEWithLogitsLoss", ({"pos_weight": torch.tensor([0.5, 1.0, 2.0])},), (
        leaf(4, 3), torch.rand(4, 3))
    yield "GaussianNLLLoss", (), (leaf(3, 4), leaf(3, 4), 0.7)
    yield "AdaptiveLogSoftmaxWithLoss", (6, 9, [2, 5], {"div_value": 2.0}), (
        leaf(5, 6), torch.tensor([0, 8, 3, 4, 1]))
    yield "AdaptiveLogSoftmaxWithLoss", (6, 9, [4], {"head_bias": True}), (
        leaf(6), torch.tensor(7))


def attending():
    def made(cls, norm=None, **options):
        layer = getattr(torch.nn, cls + "Layer")(4, 2, 6, 0.0, **options)
        return layer, 2, {"norm": norm}

    causal = torch.nn.Transformer.generate_square_subsequent_mask
    for first in (False, True):
        yield "TransformerDecoder", made("TransformerDecoder", norm_first=first), (
            leaf(3, 2, 4), leaf(5, 2, 4))
        yield "TransformerDecoder", made("TransformerDecoder", torch.nn.LayerNorm(4),
                                         batch_first=True, norm_first=first), (
            leaf(2, 3, 4), leaf(2, 5, 4), causal(3))
        yield "TransformerEncoder", made("TransformerEncoder", torch.nn.LayerNorm(4),
                                         norm_first=first, activation="gelu"), (
            leaf(3, 2, 4), causal(3))
    for options in ({"kdim": 6, "vdim": 2}, {"kdim": 6, "vdim": 2, "bias": False},
                    {"kdim": 6, "vdim": 2, "add_bias_kv": True, "batch_first": True}):
        shapes = ((2, 3), (2, 5)) if options.get("batch_first") else ((3, 2), (5, 2))
        yield "MultiheadAttention", (4, 2, options), (
            leaf(*shapes[0], 4), leaf(*shapes[1], 6), leaf(*shapes[1], 2))
    x, mask = leaf(3, 2, 4), torch.tensor([[False, False, True], [False, True, True]])
    yield "MultiheadAttention", (4, 2), (x, x, x, mask, True, None, False)
    yield "MultiheadAttention", (4, 2), (x, x, x, mask, False)
    yield "MultiheadAttention", (4, 2), (x, x, x, None, True, causal(3), True, True)
    yield "MultiheadAttention", (4, 2), (x, x, x, None, True, leaf(4, 3, 3))


def recurring():
    for cls in ("RNN", "LSTM", "GRU"):
        for options in ({}, {"num_layers": 2, "bidirectional": True, "dropout": 0.0},
                        {"num_layers": 2, "dropout": 0.5}):
            yield cls, (3, 4, options), (leaf(5, 2, 3),)
        sequence = torch.nn.utils.rnn.pack_padded_sequence(leaf(5, 3, 3).detach(), [5, 3, 1])
        yield cls, (3, 4, {"bidirectional": True}), (sequence,)
    yield "RNNCell", (3, 4, {"bias": False}), (leaf(2, 3),)
    yield "LSTMCell", (3, 4, {"bias": False}), (leaf(2, 3),)
    yield "GRUCell", (3, 4, {"bias": False}), (leaf(2, 3),)
    yield "LSTMCell", (3, 4), (leaf(2, 3), (leaf(2, 4), leaf(2, 4)))


def samples():
    for part in (normalizing, pooling, convolving, shaping, embedding, comparing, attending,
                 recurring):
        yield from part()


# More arguments of optimizers.
OPTIMIZERS = {
    "SGD": [{"momentum": 0.9, "nesterov": True, "maximize": True},
            {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1, "maximize": True}],
    "Adam": [{"amsgrad": True, "maximize": True}, {"betas": (0.5, 0.7), "eps": 0.1},
             {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "AdamW": [{"amsgrad": True, "maximize": True}, {"betas": (0.5, 0.7), "eps": 0.1}],
    "NAdam": [{"betas": (0.5, 0.7), "eps": 0.1}, {"momentum_decay": 0.1, "maximize": True}],
    "RAdam": [{"betas": (0.5, 0.7), "eps": 0.1}, {"betas": (0.9, 0.99)}],
    "Adamax": [{"betas": (0.5, 0.7), "eps": 0.1}],
    "Adagrad": [{"eps": 0.1}, {"lr_decay": 0.3, "maximize": True}],
    "Adadelta": [{"eps": 0.1, "rho": 0.5}],
    "RMSprop": [{"alpha": 0.5, "eps": 0.1}, {"momentum": 0.9, "centered": True},
                {"centered": True, "maximize": True, "eps": 0.1}],
    "ASGD": [{"t0": 1, "alpha": 0.5, "lambd": 0.2}],
    "Muon": [{"nesterov": False, "weight_decay": 0.0}, {"eps": 0.1}],
    "SparseAdam": [{"betas": (0.5, 0.7), "eps": 0.1}],
    "Rprop": [{"lr": 0.1, "etas": (0.3, 1.9), "step_sizes": (0.05, 0.15)}],
    "Adafactor": [{"lr": 0.5, "eps": (1e-3, 0.1)}],
}
