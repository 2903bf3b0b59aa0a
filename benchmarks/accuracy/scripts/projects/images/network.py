"""A small network for small pictures."""

from torch import nn


class Block(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.convolution = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels_out)
        self.activation = nn.ReLU()

    def forward(self, x):
        return self.activation(self.norm(self.convolution(x)))


class StripeNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(Block(1, 8), Block(8, 16), nn.AdaptiveAvgPool2d(3), nn.Flatten())
        self.classifier = nn.Linear(16 * 9, classes)

    def forward(self, x):
        return self.classifier(self.features(x))
