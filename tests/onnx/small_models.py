"""Small networks of the architectures that torchvision and transformer libraries have."""
import math

import torch
from torch import nn
from torchvision.models import (convnext, densenet, efficientnet, mobilenetv2,
                                mobilenetv3, regnet, resnet, shufflenetv2, squeezenet,
                                swin_transformer, vgg, vision_transformer)
from torchvision.models.googlenet import BasicConv2d, Inception

CLASSES, WORDS, LENGTH, WIDTH = 5, 11, 6, 8


def head(channels):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.LayerNorm(16), nn.GELU(),
                         nn.Dropout(0.0), nn.Linear(16, 12), nn.SiLU(), nn.Linear(12, CLASSES))


def lenet():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2, padding=1),
                         nn.Conv2d(4, 6, (3, 2), bias=False), nn.Sigmoid(), nn.Flatten(),
                         nn.Linear(252, CLASSES), nn.LogSoftmax(1))


def vgg_like():
    return nn.Sequential(vgg.make_layers([4, "M", 6, "M", 8], batch_norm=True),
                         nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 12), nn.ReLU(True),
                         nn.Dropout(0.0), nn.Linear(12, CLASSES))


def stem(width):
    return [nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1)]


def narrowing(inputs, outputs, stride=1):
    return nn.Sequential(resnet.conv1x1(inputs, outputs, stride), nn.BatchNorm2d(outputs))


def resnet_like():
    return nn.Sequential(*stem(4), resnet.BasicBlock(4, 4),
                         resnet.BasicBlock(4, 8, 2, narrowing(4, 8, 2)), *head(8))


def bottleneck_resnet():
    return nn.Sequential(*stem(4), resnet.Bottleneck(4, 2, 1, narrowing(4, 8)),
                         resnet.Bottleneck(8, 2), *head(8))


def densenet_like():
    return densenet.DenseNet(3, (2, 2), 6, bn_size=2, num_classes=CLASSES)


class InceptionNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = BasicConv2d(3, 6, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.first = Inception(6, 2, 2, 3, 2, 2, 2)
        self.second = Inception(9, 2, 2, 3, 2, 2, 2)
        self.head = nn.Sequential(*head(9))

    def forward(self, x):
        return self.head(self.second(self.first(self.pool(self.stem(x)))))


def squeezenet_like():
    return nn.Sequential(nn.Conv2d(3, 6, 3, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, ceil_mode=True),
                         squeezenet.Fire(6, 3, 4, 4), squeezenet.Fire(8, 3, 4, 4),
                         nn.Conv2d(8, CLASSES, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def mobilenet_v2():
    block = mobilenetv2.InvertedResidual
    return nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU6(True), block(4, 4, 1, 2),
                         block(4, 6, 2, 2), block(6, 6, 1, 3), *head(6))


def mobilenet_v3():
    row = mobilenetv3.InvertedResidualConfig
    rows = [row(8, 3, 8, 8, True, "RE", 2, 1, 1), row(8, 3, 12, 8, False, "RE", 1, 1, 1),
            row(8, 5, 16, 16, True, "HS", 2, 1, 1)]
    return mobilenetv3.MobileNetV3(rows, 16, CLASSES, dropout=0.0)


def shufflenet_v2():
    return shufflenetv2.ShuffleNetV2([1, 1, 2], [4, 8, 12, 16, 24], CLASSES)


def efficientnet_like():
    row = efficientnet.MBConvConfig
    rows = [row(1, 3, 1, 8, 8, 1, 1.0, 1.0), row(2, 3, 2, 8, 8, 2, 1.0, 1.0)]
    return efficientnet.EfficientNet(rows, 0.0, 0.0, CLASSES, last_channel=24)


def regnet_like():
    return regnet.RegNet(regnet.BlockParams([1, 1], [8, 16], [4, 8], [1.0, 1.0], [2, 2], 0.25),
                         CLASSES, stem_width=4)


def convnext_like():
    row = convnext.CNBlockConfig
    rows = [row(6, 12, 1), row(12, None, 1)]
    return convnext.ConvNeXt(rows, num_classes=CLASSES, layer_scale=0.5)


def vit():
    return vision_transformer.VisionTransformer(16, 8, 1, 2, 8, 16, num_classes=CLASSES)


def swin():
    return swin_transformer.SwinTransformer([2, 2], 8, [2], [2], [4, 4], 2.0,
                                            stochastic_depth_prob=0.0, num_classes=CLASSES)


class Embedded(nn.Module):
    """Words and places as vectors."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH))

    def forward(self, ids):
        return self.words(ids) + self.places[: ids.shape[1]]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedded = Embedded()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.0, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, CLASSES)

    def forward(self, ids):
        return self.out(self.layers(self.embedded(ids)).mean(1))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedded = Embedded()
        self.layer = nn.TransformerDecoderLayer(WIDTH, 2, 16, 0.0, batch_first=True,
                                                norm_first=True)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        x = self.embedded(ids)
        mask = torch.full((ids.shape[1], ids.shape[1]), -math.inf).triu(1)
        return self.out(self.layer(x, x * 0.5, mask)).flatten(0, 1)


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.words = nn.Embedding(WORDS, 4)
        self.rnn = getattr(nn, kind)(4, 5, batch_first=True, **options)
        self.out = nn.Linear(10 if options.get("bidirectional") else 5, CLASSES)

    def forward(self, ids):
        y, state = self.rnn(self.words(ids))
        return self.out(y[:, -1] + y.amax(1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.InstanceNorm2d(4, affine=True),
                                   nn.LeakyReLU(0.2))
        self.down2 = nn.Sequential(nn.Conv2d(4, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.ELU())
        self.bottom = nn.Sequential(nn.Conv2d(8, 8, 3, padding=2, dilation=2), nn.PReLU(8))
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.resized = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.nearest = nn.Upsample(scale_factor=2)
        self.out = nn.Conv2d(24, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(a)
        c = self.bottom(b)
        y = torch.cat([a, self.up(c), self.resized(b), self.nearest(c)], 1)
        return self.out(y).mean((2, 3))


class Signal(nn.Module):
    """Convolutions of signals, margins and elementwise mathematics."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.ReflectionPad1d(2), nn.Conv1d(3, 6, 5, groups=3),
                                  nn.BatchNorm1d(6), nn.Hardswish(), nn.MaxPool1d(2),
                                  nn.Conv1d(6, 6, 3, padding=1), nn.Softplus(), nn.AvgPool1d(2))
        self.scale = nn.Parameter(torch.rand(6, 1) + 0.5)
        self.out = nn.Linear(12, CLASSES)

    def forward(self, x):
        y = self.conv(x) * self.scale
        norm = (y.pow(2).sum(1, keepdim=True) + 1e-3).sqrt()
        parts = [torch.exp(-y / norm), torch.log(y.abs() + 1), torch.erf(y).clamp(-0.9, 0.9)]
        both = torch.stack(parts).max(0).values
        return self.out(torch.cat([both.mean(2), torch.where(y > 1, y, y * 0.5).amax(2)], 1))


def image():
    return torch.randn(4, 3, 16, 16)


def words():
    return torch.randint(0, WORDS, (4, LENGTH))


MODELS = {
    "mlp": (mlp, lambda: torch.randn(4, 3, 4, 4)),
    "lenet": (lenet, lambda: torch.randn(4, 3, 14, 14)),
    "vgg": (vgg_like, image),
    "resnet": (resnet_like, image),
    "bottleneck": (bottleneck_resnet, image),
    "densenet": (densenet_like, image),
    "googlenet": (InceptionNet, image),
    "squeezenet": (squeezenet_like, image),
    "mobilenet_v2": (mobilenet_v2, image),
    "mobilenet_v3": (mobilenet_v3, image),
    "shufflenet_v2": (shufflenet_v2, lambda: torch.randn(2, 3, 48, 48)),
    "efficientnet": (efficientnet_like, image),
    "regnet": (regnet_like, image),
    "convnext": (convnext_like, image),
    "vit": (vit, image),
    "swin": (swin, image),
    "encoder": (Encoder, words),
    "decoder": (Decoder, words),
    "lstm": (lambda: Recurrent("LSTM", num_layers=2, bidirectional=True), words),
    "gru": (lambda: Recurrent("GRU", bidirectional=True), words),
    "rnn": (lambda: Recurrent("RNN"), words),
    "unet": (UNet, lambda: torch.randn(2, 3, 8, 8)),
    "signal": (Signal, lambda: torch.randn(4, 3, 16)),
}
# The same by PyTorch's newer exporter.
NEWER = ("mlp", "resnet", "encoder", "unet", "mobilenet_v2", "shufflenet_v2", "swin")
