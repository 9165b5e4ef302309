"""The models: how each is made, with weights drawn at random, and what it is given. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from bench.models.parts import Logits, Network, image, tokens, vision
from bench.models.torchvision_here import import_torchvision
from bench.models.unseen import UNSEEN


class Recurrent(nn.Module):
    """Three layers of LSTM, and a linear layer on their last step."""

    def __init__(self, features: int = 128, hidden: int = 256) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, num_layers=3, batch_first=True)
        self.head = nn.Linear(hidden, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, _ = self.lstm(x)
        result: torch.Tensor = self.head(steps[:, -1])
        return result


def _twice(given: int, made: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (given, made):
        layers += [nn.Conv2d(channels, made, 3, padding=1, bias=False), nn.BatchNorm2d(made), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Down to a sixteenth and up again, what was on the way down joined to what is on the way up."""

    def __init__(self, base: int = 32, levels: int = 4) -> None:
        super().__init__()
        sizes = [base << n for n in range(levels + 1)]
        self.first = _twice(3, base)
        self.down = nn.ModuleList(_twice(a, b) for a, b in pairwise(sizes))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairwise(sizes))
        self.up = nn.ModuleList(_twice(2 * a, a) for a in sizes[:-1])
        self.last = nn.Conv2d(base, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(nn.functional.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for grow, up in zip(reversed(self.grow), reversed(self.up)):
            x = up(torch.cat([kept.pop(), grow(x)], 1))
        result: torch.Tensor = self.last(x)
        return result


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    return Logits(BertModel(BertConfig()))


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return Logits(GPT2LMHeadModel(GPT2Config(use_cache=False)))


def _llama() -> nn.Module:
    """Llama's layers at the width of GPT-2: grouped queries, SwiGLU, RMS norm, rotary positions."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4,
        intermediate_size=2048, vocab_size=32000, use_cache=False,
    )  # fmt: skip
    return Logits(LlamaForCausalLM(config))


NETWORKS: dict[str, Network] = {
    "ResNet-18": (vision("resnet18"), image),
    "ResNet-50": (vision("resnet50"), image),
    "MobileNetV2": (vision("mobilenet_v2"), image),
    "EfficientNet-B0": (vision("efficientnet_b0"), image),
    "VGG-16": (vision("vgg16"), image),
    "ViT-B/16": (vision("vit_b_16"), image),
    "BERT-base 128": (_bert, tokens),
    "GPT-2 128": (_gpt2, tokens),
    "Llama-like 128": (_llama, tokens),
    "LSTM 3 layers": (Recurrent, lambda batch: torch.randn(batch, 64, 128)),
    "UNet": (UNet, lambda batch: torch.randn(batch, 3, 128, 128)),
}
#: All that `bench.models` measures.
ALL = NETWORKS | UNSEEN


def make_network(
    name: str, batch: int, device: str, dtype: str, networks: Mapping[str, Network] = ALL
) -> tuple[Any, torch.Tensor]:
    """The model, ready for inference, and its input: the same in every process."""
    make, give = networks[name]
    import_torchvision()  # which transformers imports too, where it is installed
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    model = make().eval()
    _settle(model)
    x = give(batch)
    kind = getattr(torch, dtype)
    return model.to(device, kind), x.to(device, kind if x.is_floating_point() else None)


def _settle(model: nn.Module) -> None:
    """As after some training: no weights of zeros, and statistics other than zero and one, so that faults are seen."""
    for weight in model.parameters():
        if weight.dim() > 1 and not weight.any():
            weight.normal_(0.0, 0.02)
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0.0, 0.1)
            module.running_var.uniform_(0.8, 1.2)
