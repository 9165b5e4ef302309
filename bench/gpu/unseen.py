"""Models that nothing was developed on: other classes of torchvision and transformers, random weights. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from bench.models.networks import Logits, Network, image, tokens, vision


def _language(name: str, config: str, **sizes: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import transformers

        return Logits(getattr(transformers, name)(getattr(transformers, config)(use_cache=False, **sizes)))

    return make


def _distilbert() -> nn.Module:
    from transformers import DistilBertConfig, DistilBertModel

    return Logits(DistilBertModel(DistilBertConfig()))


_SMALL = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4,
    "intermediate_size": 2304, "vocab_size": 32000,
}  # fmt: skip
_BILLION = {
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 8192, "vocab_size": 32000,
}  # fmt: skip

UNSEEN: dict[str, Network] = {
    "ConvNeXt-T": (vision("convnext_tiny"), image),
    "EfficientNet-B0": (vision("efficientnet_b0"), image),
    "RegNetY-400MF": (vision("regnet_y_400mf"), image),
    "Swin-T": (vision("swin_t"), image),
    "DistilBERT": (_distilbert, tokens),
    "T5-small encoder": (_language("T5EncoderModel", "T5Config"), tokens),
    "Mistral-like": (_language("MistralForCausalLM", "MistralConfig", **_SMALL), tokens),
    "Llama 1 B": (_language("LlamaForCausalLM", "LlamaConfig", **_BILLION), tokens),
}

#: A batch that fills the GPU, and tokens of each, where it has some.
LARGE: dict[str, tuple[int, int]] = {
    "ConvNeXt-T": (64, 0), "EfficientNet-B0": (64, 0), "RegNetY-400MF": (64, 0), "Swin-T": (32, 0),
    "DistilBERT": (16, 512), "T5-small encoder": (16, 512), "Mistral-like": (4, 2048), "Llama 1 B": (4, 2048),
}  # fmt: skip
