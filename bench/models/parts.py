"""What lists of models are made of: classes of torchvision and transformers, and inputs. Needs torch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bench.models.torchvision_here import import_torchvision

TOKENS = 128


class Logits(nn.Module):
    """A language model that gives one tensor: what it says last, without its cache."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(tokens, return_dict=False)[0]
        return result


class OneResult(nn.Module):
    """A model that gives several tensors by name: one of them."""

    def __init__(self, inner: nn.Module, name: str) -> None:
        super().__init__()
        self.inner, self.name = inner, name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x)[self.name]
        return result


def vision(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        find = operator.attrgetter(name)
        model: nn.Module = find(import_torchvision().models)(weights=None, **settings)
        return model

    return make


def language(name: str, config: str, **sizes: Any) -> Callable[[], nn.Module]:
    """A class of transformers with its configuration."""

    def make() -> nn.Module:
        import transformers

        return Logits(getattr(transformers, name)(getattr(transformers, config)(**sizes)))

    return make


def image(batch: int) -> torch.Tensor:
    return torch.randn(batch, 3, 224, 224)


def tokens(batch: int) -> torch.Tensor:
    return torch.randint(0, 20000, (batch, TOKENS))


#: How a model is made, and what a batch of its input is.
Network = tuple[Callable[[], nn.Module], Callable[[int], torch.Tensor]]
