"""Models as one writes them by hand: an MLP-Mixer, a classifier of sequences, volumes, dilated sums over time."""

from __future__ import annotations

import torch
from torch import nn


class MixerLayer(nn.Module):
    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.across = _perceptron(places, width // 2)
        self.along = _perceptron(width, width * 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        result: torch.Tensor = x + self.along(self.norms[1](x))
        return result


def _perceptron(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


class Mixer(nn.Module):
    """MLP-Mixer, S/16: images of 224x224 as 196 patches."""

    def __init__(self, width: int = 512, layers: int = 8) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, stride=16)
        self.layers = nn.Sequential(*(MixerLayer(196, width) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = self.patches(x).flatten(2).transpose(1, 2)
        result: torch.Tensor = self.head(self.norm(self.layers(places)).mean(1))
        return result


class SequenceClassifier(nn.Module):
    """Tokens, two layers of GRU in both directions, the greatest of all steps."""

    def __init__(self, words: int = 20000, width: int = 128, hidden: int = 128) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.gru = nn.GRU(width, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        steps, _ = self.gru(self.words(tokens))
        result: torch.Tensor = self.head(steps.amax(1))
        return result


def _twice(given: int, made: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (given, made):
        layers += [nn.Conv3d(channels, made, 3, padding=1, bias=False), nn.BatchNorm3d(made), nn.ReLU()]
    return nn.Sequential(*layers)


class VolumeUNet(nn.Module):
    """A UNet of volumes, two levels down."""

    def __init__(self, base: int = 16) -> None:
        super().__init__()
        self.first, self.second, self.deepest = _twice(1, base), _twice(base, 2 * base), _twice(2 * base, 4 * base)
        self.grow = nn.ModuleList(nn.ConvTranspose3d(2 * n, n, 2, stride=2) for n in (2 * base, base))
        self.up = nn.ModuleList(_twice(2 * n, n) for n in (2 * base, base))
        self.last = nn.Conv3d(base, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.first(x)
        second = self.second(nn.functional.max_pool3d(first, 2))
        x = self.deepest(nn.functional.max_pool3d(second, 2))
        for grow, up, kept in zip(self.grow, self.up, (second, first)):
            x = up(torch.cat([kept, grow(x)], 1))
        result: torch.Tensor = self.last(x)
        return result


class DilatedStack(nn.Module):
    """As WaveNet: gated sums over two steps further and further apart, added up twice."""

    def __init__(self, channels: int = 64, layers: int = 10, blocks: int = 2) -> None:
        super().__init__()
        steps = [1 << n for n in range(layers)] * blocks
        self.first = nn.Conv1d(1, channels, 1)
        self.pads = steps
        self.gated = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 2, dilation=d) for d in steps)
        self.skip = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in steps)
        self.stay = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in steps)
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(channels, 256, 1), nn.ReLU(), nn.Conv1d(256, 256, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        total = torch.zeros_like(x)
        for pad, gated, skip, stay in zip(self.pads, self.gated, self.skip, self.stay):
            what, how_much = gated(nn.functional.pad(x, (pad, 0))).chunk(2, 1)
            made = torch.tanh(what) * torch.sigmoid(how_much)
            total = total + skip(made)
            x = x + stay(made)
        result: torch.Tensor = self.last(total)
        return result
