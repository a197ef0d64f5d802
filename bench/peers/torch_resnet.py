"""torchvision's ResNets (He et al. 2016), for interpreters without torchvision."""

from torch import nn

LAYERS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


class Block(nn.Module):
    """Two convolutions or, as a bottleneck, three, about which the input goes."""

    def __init__(self, channels, width, stride, bottleneck):
        super().__init__()
        out = 4 * width if bottleneck else width
        # Each: outputs, size, stride.
        shapes = ([(width, 1, 1), (width, 3, stride), (out, 1, 1)] if bottleneck else
                  [(width, 3, stride), (out, 3, 1)])
        steps = []
        inputs = channels
        for outputs, size, step in shapes:
            steps += [nn.Conv2d(inputs, outputs, size, step, size // 2, bias=False),
                      nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
            inputs = outputs
        self.residual = nn.Sequential(*steps[:-1])
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False),
                                          nn.BatchNorm2d(out))

    def forward(self, x):
        return self.relu(self.residual(x) + self.shortcut(x))


def resnet(layers, classes, small_input):
    """`small_input`: for images of 32 x 32 and 64 x 64, whose size the first layers keep."""
    bottleneck = layers >= 50
    first = ([nn.Conv2d(3, 64, 3, padding=1, bias=False)] if small_input else
             [nn.Conv2d(3, 64, 7, 2, 3, bias=False)])
    first += [nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    if not small_input:
        first.append(nn.MaxPool2d(3, 2, 1))
    blocks = []
    channels = 64
    for stage, count in enumerate(LAYERS[layers]):
        width = 64 << stage
        for i in range(count):
            stride = 2 if stage > 0 and i == 0 else 1
            blocks.append(Block(channels, width, stride, bottleneck))
            channels = 4 * width if bottleneck else width
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(channels, classes))
