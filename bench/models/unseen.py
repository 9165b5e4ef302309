"""Models that nothing was developed on when they were listed, with random weights. Needs torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bench.models.parts import Network, OneResult, image, language, tokens, vision
from bench.models.written_networks import DilatedStack, Mixer, SequenceClassifier, VolumeUNet

_NEOX = {
    "hidden_size": 768, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 3072,
    "vocab_size": 32000, "use_cache": False,
}  # fmt: skip
_ALBERT = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}


class _Listener(nn.Module):
    """Whisper's encoder: 30 seconds of sound as 80 bands."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import WhisperConfig, WhisperModel

        config = WhisperConfig(
            d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, decoder_layers=1
        )
        self.encoder = WhisperModel(config).encoder

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.encoder(x, return_dict=False)[0]
        return result


def _segmenter() -> nn.Module:
    return OneResult(vision("segmentation.deeplabv3_mobilenet_v3_large", weights_backbone=None)(), "out")


def _large_image(batch: int) -> torch.Tensor:
    return torch.randn(batch, 3, 299, 299)


def _bands(batch: int) -> torch.Tensor:
    return torch.randn(batch, 80, 3000)


def _volume(batch: int) -> torch.Tensor:
    return torch.randn(batch, 1, 32, 32, 32)


def _wave(batch: int) -> torch.Tensor:
    return torch.randn(batch, 1, 4000)


_WITHOUT_SIDE_RESULT: dict[str, Any] = {"aux_logits": False, "init_weights": False}

UNSEEN: dict[str, Network] = {
    "SqueezeNet 1.1": (vision("squeezenet1_1"), image),
    "RegNetY-400MF": (vision("regnet_y_400mf"), image),
    "RegNetX-800MF": (vision("regnet_x_800mf"), image),
    "DenseNet-121": (vision("densenet121"), image),
    "ShuffleNetV2": (vision("shufflenet_v2_x1_0"), image),
    "MNASNet": (vision("mnasnet1_0"), image),
    "MobileNetV3-L": (vision("mobilenet_v3_large"), image),
    "GoogLeNet": (vision("googlenet", **_WITHOUT_SIDE_RESULT), image),
    "Inception v3": (vision("inception_v3", **_WITHOUT_SIDE_RESULT), _large_image),
    "ResNeXt-50": (vision("resnext50_32x4d"), image),
    "ConvNeXt-T": (vision("convnext_tiny"), image),
    "Swin-T": (vision("swin_t"), image),
    "EfficientNetV2-S": (vision("efficientnet_v2_s"), image),
    "DeepLabV3 MobileNet": (_segmenter, image),
    "DistilBERT": (language("DistilBertModel", "DistilBertConfig"), tokens),
    "ALBERT": (language("AlbertModel", "AlbertConfig", **_ALBERT), tokens),
    "T5-small encoder": (language("T5EncoderModel", "T5Config", use_cache=False), tokens),
    "Whisper-tiny encoder": (_Listener, _bands),
    "GPT-NeoX 6 layers": (language("GPTNeoXForCausalLM", "GPTNeoXConfig", **_NEOX), tokens),
    "OPT-125M": (language("OPTForCausalLM", "OPTConfig", use_cache=False), tokens),
    "GRU classifier": (SequenceClassifier, tokens),
    "MLP-Mixer S/16": (Mixer, image),
    "UNet 3d": (VolumeUNet, _volume),
    "Dilated stack": (DilatedStack, _wave),
}
