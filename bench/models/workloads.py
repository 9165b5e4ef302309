"""Which models are measured, without any framework: workers of peers that have no torch read files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.field.environments import FOLDER

Array = np.ndarray[Any, Any]

NAMES = (
    "ResNet-18", "ResNet-50", "MobileNetV2", "EfficientNet-B0", "VGG-16", "ViT-B/16", "BERT-base 128", "GPT-2 128",
    "Llama-like 128", "LSTM 3 layers", "UNet",
)  # fmt: skip
#: Models that nothing was developed on when they were listed here.
UNSEEN_NAMES = (
    "SqueezeNet 1.1", "RegNetY-400MF", "RegNetX-800MF", "DenseNet-121", "ShuffleNetV2", "MNASNet", "MobileNetV3-L",
    "GoogLeNet", "Inception v3", "ResNeXt-50", "ConvNeXt-T", "Swin-T", "EfficientNetV2-S", "DeepLabV3 MobileNet",
    "DistilBERT", "ALBERT", "T5-small encoder", "Whisper-tiny encoder", "GPT-NeoX 6 layers", "OPT-125M",
    "GRU classifier", "MLP-Mixer S/16", "UNet 3d", "Dilated stack",
)  # fmt: skip
SETS = {"developed": NAMES, "unseen": UNSEEN_NAMES}
#: Layers before and after fusion that DNNFusion (2021) published.
PUBLISHED_FUSION = {
    "VGG-16": (51, 17),
    "EfficientNet-B0": (309, 97),
    "BERT-base 128": (976, 216),
    "GPT-2 128": (2533, 254),
}


@dataclass(frozen=True)
class ModelWorkload:
    """A model at a batch size, on a device; ``numerics`` is what Weft is allowed."""

    model: str
    batch: int
    device: str = "cpu"
    dtype: str = "float32"
    numerics: str = "fast"

    @property
    def name(self) -> str:
        return f"{self.model}, batch {self.batch}"

    @property
    def network(self) -> dict[str, Any]:
        """What `make_network` is told beside the model's name."""
        return {"batch": self.batch, "device": self.device, "dtype": self.dtype}

    @property
    def sizes(self) -> dict[str, Any]:
        return {**self.network, "numerics": self.numerics}

    @property
    def folder(self) -> Path:
        """Where its files are: the model as ONNX, its input, and the results that are right."""
        plain = re.sub(r"\W+", "-", self.model).lower()
        return FOLDER / "exported" / f"{plain}-{self.batch}-{self.dtype}"

    @property
    def onnx(self) -> Path:
        return self.folder / "model.onnx"

    @property
    def reference(self) -> Path:
        return self.folder / "right.npz"

    def inputs(self, _seed: int = 0) -> dict[str, Array]:
        return {"x": np.load(self.folder / "x.npy")}


def find_workload(family: str, sizes: Mapping[str, Any]) -> ModelWorkload:
    return ModelWorkload(family, **sizes)
