"""Other classes of torchvision and transformers than those of `bench.models`, with random weights: some whose profiles
were looked at while Weft was made faster, and some that nothing was developed on. Needs torch."""

from __future__ import annotations

from bench.models.parts import Network, image, language, tokens, vision

_SMALL = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4,
    "intermediate_size": 2304, "vocab_size": 32000, "use_cache": False,
}  # fmt: skip
_BILLION = {
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 8192, "vocab_size": 32000, "use_cache": False,
}  # fmt: skip
_ALBERT = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
_NEOX = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "use_cache": False,
}  # fmt: skip

#: A model, a batch that fills the GPU, and tokens of each, where it has some.
Large = tuple[Network, int, int]

PROFILED: dict[str, Large] = {
    "ConvNeXt-T": ((vision("convnext_tiny"), image), 64, 0),
    "EfficientNet-B0": ((vision("efficientnet_b0"), image), 64, 0),
    "Swin-T": ((vision("swin_t"), image), 32, 0),
    "ResNeXt-50": ((vision("resnext50_32x4d"), image), 64, 0),
    "DistilBERT": ((language("DistilBertModel", "DistilBertConfig"), tokens), 16, 512),
    "OPT-125M": ((language("OPTForCausalLM", "OPTConfig", use_cache=False), tokens), 8, 1024),
    "T5-small encoder": ((language("T5EncoderModel", "T5Config", use_cache=False), tokens), 16, 512),
}

UNSEEN: dict[str, Large] = {
    "RegNetY-400MF": ((vision("regnet_y_400mf"), image), 64, 0),
    "MobileNetV3-L": ((vision("mobilenet_v3_large"), image), 64, 0),
    "ShuffleNetV2": ((vision("shufflenet_v2_x1_0"), image), 64, 0),
    "DenseNet-121": ((vision("densenet121"), image), 64, 0),
    "ALBERT": ((language("AlbertModel", "AlbertConfig", **_ALBERT), tokens), 16, 512),
    "GPT-NeoX": ((language("GPTNeoXForCausalLM", "GPTNeoXConfig", **_NEOX), tokens), 8, 1024),
    "Qwen2-like": ((language("Qwen2ForCausalLM", "Qwen2Config", **_SMALL), tokens), 4, 2048),
    "Mistral-like": ((language("MistralForCausalLM", "MistralConfig", **_SMALL), tokens), 4, 2048),
    "Llama 1 B": ((language("LlamaForCausalLM", "LlamaConfig", **_BILLION), tokens), 4, 2048),
}
