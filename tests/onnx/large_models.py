"""Models as they are used: torchvision's small ones, an encoder and an LSTM."""
import torch
import torchvision
from torch import nn

# These pool to a size that ONNX has only for images of 224.
LARGE_IMAGES = ("alexnet", "vgg11", "vgg11_bn")
IMAGES = ("resnet18", "resnet34", "resnet50", "squeezenet1_0",
          "squeezenet1_1", "densenet121", "googlenet", "mobilenet_v2", "mobilenet_v3_small",
          "mobilenet_v3_large", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "mnasnet0_5",
          "efficientnet_b0", "regnet_y_400mf", "convnext_tiny", "swin_t")
WORDS, LENGTH = 1000, 24


def without_chance(model):
    """The model without dropout, of layers or of samples."""
    for module in model.modules():
        if isinstance(module, (nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0.0
    return model


def of_torchvision(name):
    options = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
    return without_chance(getattr(torchvision.models, name)(weights=None, **options))


def vit():
    return torchvision.models.VisionTransformer(64, 16, 6, 6, 192, 768, num_classes=100)


class Encoder(nn.Module):
    """Classes of sentences, with a layer normalization before each part."""

    def __init__(self, width=128):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Parameter(torch.randn(LENGTH, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, nn.LayerNorm(width),
                                            enable_nested_tensor=False)
        self.out = nn.Linear(width, 10)

    def forward(self, ids):
        return self.out(self.layers(self.words(ids) + self.places).mean(1))


class Lstm(nn.Module):
    """The next word, by an LSTM of two layers."""

    def __init__(self, width=128):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.rnn = nn.LSTM(width, width, 2, batch_first=True)
        self.out = nn.Linear(width, WORDS)

    def forward(self, ids):
        return self.out(self.rnn(self.words(ids))[0])


def images():
    return torch.randn(4, 3, 64, 64)


def sentences():
    return torch.randint(0, WORDS, (4, LENGTH))


def large_images():
    return torch.randn(2, 3, 224, 224)


LARGE = {name: (lambda name=name: of_torchvision(name), images) for name in IMAGES}
LARGE.update({name: (lambda name=name: of_torchvision(name), large_images)
              for name in LARGE_IMAGES})
LARGE["vit"] = (vit, images)
LARGE["encoder"] = (Encoder, sentences)
LARGE["lstm"] = (Lstm, sentences)
