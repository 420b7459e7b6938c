# SPDX-License-Identifier: BSD-3-Clause
"""The networks that bench/torch_training.py trains: a ResNet, a VGG, a GPT and an LSTM, as in their papers but small, so that two cores carry four ranks. Each
function returns a network, a function (number of samples) -> (inputs, targets) of random samples, and the loss."""
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Two convolutions beside an identity, as in section 4.2 of He et al. (2016), arXiv:1512.03385; where the shape changes a 1x1 convolution stands for it."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def pictures(side: int, classes: int):
    def draw(n):
        return torch.randn(n, 3, side, side), torch.randint(classes, (n,))

    return draw


def resnet(width: int = 24, depth: int = 2, side: int = 32, classes: int = 100):
    """Three groups of `depth` blocks, the first `width` channels wide, each group twice as wide as the one before."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for group in range(3):
        outputs = width << group
        for block in range(depth):
            inputs = outputs if block or not group else outputs // 2
            layers.append(Block(inputs, outputs, 2 if group and not block else 1))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width << 2, classes)]
    return nn.Sequential(*layers), pictures(side, classes), F.cross_entropy


def vgg(width: int = 8, dense: int = 448, side: int = 128, classes: int = 100):
    """VGG-11 (Simonyan and Zisserman, 2015) at an eighth of its width: as there, most of the weights are in the first dense layer."""
    layers: list[nn.Module] = []
    inputs = 3
    for outputs, pool in ((1, True), (2, True), (4, False), (4, True), (8, False), (8, True), (8, False), (8, True)):
        layers += [nn.Conv2d(inputs, width * outputs, 3, 1, 1), nn.ReLU()]
        inputs = width * outputs
        if pool:
            layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(inputs * (side // 32) ** 2, dense), nn.ReLU(), nn.Linear(dense, dense), nn.ReLU(), nn.Linear(dense, classes)]
    return nn.Sequential(*layers), pictures(side, classes), F.cross_entropy


class Attention(nn.Module):
    """One layer of GPT-2: causal attention and a perceptron, each behind a normalisation and beside an identity."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.query_key_value(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


class GPT(nn.Module):
    """A decoder as GPT-2's (Radford et al., 2019). The embedding is the last layer, too, so its gradient is complete only when the backward pass is over."""

    def __init__(self, words: int, width: int, depth: int, heads: int, length: int):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)
        self.layers = nn.Sequential(*(Attention(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.layers(self.embed(tokens) + self.position[: tokens.shape[1]])
        return self.head(self.norm(x))


def text(words: int, length: int):
    def draw(n):
        tokens = torch.randint(words, (n, length + 1))
        return tokens[:, :-1], tokens[:, 1:]

    return draw


def next_word(scores, targets):
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def gpt(words: int = 256, width: int = 128, depth: int = 4, heads: int = 4, length: int = 64):
    return GPT(words, width, depth, heads, length), text(words, length), next_word


class LSTM(nn.Module):
    """A language model as Zaremba et al. (2014), arXiv:1409.2329: embedding, layers of LSTM, a dense layer over the words."""

    def __init__(self, words: int, width: int, depth: int):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(depth))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x, _ = layer(x)
        return self.head(x)


def lstm(words: int = 1000, width: int = 160, depth: int = 2, length: int = 24):
    return LSTM(words, width, depth), text(words, length), next_word


MODELS = {"resnet": resnet, "vgg": vgg, "gpt": gpt, "lstm": lstm}
