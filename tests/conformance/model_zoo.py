"""Models that nobody tuned Weft on: classes of torchvision and transformers, small, with random weights.

Each entry makes a module in evaluation mode and the arguments of a call. Sizes are odd on purpose.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

Made = tuple[Any, tuple[Any, ...]]
MODELS: dict[str, Callable[[], Made]] = {}


def put(name: str, make: Callable[[], Made]) -> None:
    MODELS[name] = make


@functools.cache
def torchvision() -> Any:
    """The package; operators of its C++ part that are missing beside a CPU build of torch get empty schemas first."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    while True:
        try:
            import torchvision as package

            package.weft_library = library
            return package
        except RuntimeError as error:
            missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
            if missing is None:
                raise
            library.define(f"{missing[1]}(Tensor a) -> Tensor")
            for name in [m for m in sys.modules if m.startswith("torchvision")]:
                del sys.modules[name]


def image(*sizes: int) -> Any:
    return torch.randn(*sizes)


def put_vision(name: str, size: int = 65, batch: int = 1, **options: Any) -> None:
    def make() -> Made:
        model = getattr(torchvision().models, name)(weights=None, **options)
        return model, (image(batch, 3, size, size),)

    put(name, make)


def _segmentation(name: str) -> None:
    def make() -> Made:
        models = torchvision().models.segmentation
        return getattr(models, name)(weights=None, weights_backbone=None), (image(1, 3, 65, 65),)

    put(name, make)


def _video(name: str) -> None:
    def make() -> Made:
        return getattr(torchvision().models.video, name)(weights=None), (image(1, 3, 4, 32, 32),)

    put(name, make)


def _fill_vision() -> None:
    for name in ("resnet18", "resnext50_32x4d", "wide_resnet50_2", "densenet121", "squeezenet1_0", "squeezenet1_1",
                 "shufflenet_v2_x0_5", "mnasnet0_5", "regnet_y_400mf", "regnet_x_400mf", "mobilenet_v2",
                 "mobilenet_v3_small", "mobilenet_v3_large", "efficientnet_b0", "efficientnet_v2_s",
                 "convnext_tiny", "vgg11_bn", "alexnet"):  # fmt: skip
        put_vision(name)
    put_vision("googlenet", init_weights=False)
    put_vision("inception_v3", 91, init_weights=False)
    put_vision("swin_t", 64)
    put_vision("swin_v2_t", 64)
    put_vision("maxvit_t", 224)
    put_vision("vit_b_32", 96, image_size=96)
    for name in ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50", "deeplabv3_resnet50"):
        _segmentation(name)
    for name in ("r3d_18", "mc3_18", "r2plus1d_18"):
        _video(name)

    def backbone() -> Made:
        from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

        return resnet_fpn_backbone(backbone_name="resnet18", weights=None), (image(1, 3, 97, 97),)

    def ssd() -> Made:
        model = torchvision().models.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
        return model.backbone, (image(1, 3, 161, 161),)

    def lazily(make: Callable[[], Made]) -> Callable[[], Made]:
        return lambda: (torchvision(), make())[1]

    put("resnet18_fpn", lazily(backbone))
    put("ssdlite_backbone", lazily(ssd))


def _config(name: str, **options: Any) -> Any:
    import transformers

    return getattr(transformers, name)(**options)


def tokens(batch: int, length: int, vocabulary: int = 97) -> Any:
    return torch.randint(3, vocabulary, (batch, length))


ENCODER = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
    "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
DECODER = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 37, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "use_cache": False,
}  # fmt: skip


def put_text(name: str, model: str, config: str, shape: tuple[int, int] = (2, 7), **options: Any) -> None:
    def make() -> Made:
        import transformers

        return getattr(transformers, model)(_config(config, **options)), (tokens(*shape),)

    put(name, make)


def put_other(name: str, model: str, config: str, inputs: Callable[[], tuple[Any, ...]], **options: Any) -> None:
    def make() -> Made:
        import transformers

        return getattr(transformers, model)(_config(config, **options)), inputs()

    put(name, make)


class Named(torch.nn.Module):
    """A model called with its inputs by name."""

    def __init__(self, model: Any, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Any) -> Any:
        return self.model(**dict(zip(self.names, inputs)))


def put_called_by_name(
    name: str, model: str, config: str, inputs: Callable[[], dict[str, Any]], **options: Any
) -> None:
    def make() -> Made:
        import transformers

        given = inputs()
        return Named(getattr(transformers, model)(_config(config, **options)), *given), tuple(given.values())

    put(name, make)


def _fill_encoders() -> None:
    put_text("bert", "BertForSequenceClassification", "BertConfig", **ENCODER)
    put_text("bert_mlm", "BertForMaskedLM", "BertConfig", (1, 13), **ENCODER)
    put_text("roberta", "RobertaModel", "RobertaConfig", **ENCODER)
    put_text("electra", "ElectraModel", "ElectraConfig", embedding_size=16, **ENCODER)
    put_text("albert", "AlbertModel", "AlbertConfig", embedding_size=16, **ENCODER)
    put_text("xlm_roberta", "XLMRobertaForTokenClassification", "XLMRobertaConfig", **ENCODER)
    put_text("mpnet", "MPNetModel", "MPNetConfig", **ENCODER)
    put_text("deberta_v2", "DebertaV2Model", "DebertaV2Config", relative_attention=True, position_buckets=8,
          pos_att_type=["p2c", "c2p"], **ENCODER)  # fmt: skip
    put_text("distilbert", "DistilBertModel", "DistilBertConfig", vocab_size=99, dim=32, n_layers=2, n_heads=4,
          hidden_dim=37, max_position_embeddings=64)  # fmt: skip
    put_text("squeezebert", "SqueezeBertModel", "SqueezeBertConfig", embedding_size=32, q_groups=2, k_groups=2,
          v_groups=2, post_attention_groups=1, intermediate_groups=4, output_groups=1,
          **{**ENCODER, "intermediate_size": 64})  # fmt: skip
    put_text("fnet", "FNetModel", "FNetConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2,
          intermediate_size=37, max_position_embeddings=64)  # fmt: skip
    put_text("modernbert", "ModernBertModel", "ModernBertConfig", (2, 9), bos_token_id=1, eos_token_id=2,
          cls_token_id=1, sep_token_id=2, local_attention=4, **ENCODER)  # fmt: skip
    put_text("xlnet", "XLNetModel", "XLNetConfig", vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=37)


def _fill_decoders() -> None:
    put_text("gpt2", "GPT2LMHeadModel", "GPT2Config", vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64,
          use_cache=False)  # fmt: skip
    put_text("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", **DECODER)
    put_text("gptj", "GPTJForCausalLM", "GPTJConfig", vocab_size=99, n_embd=32, n_layer=2, n_head=4, rotary_dim=4,
          n_positions=64, use_cache=False, bos_token_id=1, eos_token_id=2)  # fmt: skip
    put_text("gpt_neo", "GPTNeoForCausalLM", "GPTNeoConfig", vocab_size=99, hidden_size=32, num_layers=2, num_heads=4,
          intermediate_size=37, attention_types=[[["global", "local"], 1]], window_size=4, max_position_embeddings=64,
          use_cache=False, bos_token_id=1, eos_token_id=2)  # fmt: skip
    put_text("opt", "OPTForCausalLM", "OPTConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2, ffn_dim=37,
          num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=32, use_cache=False)  # fmt: skip
    put_text("bloom", "BloomForCausalLM", "BloomConfig", vocab_size=99, hidden_size=32, n_layer=2, n_head=4,
          use_cache=False, bos_token_id=1, eos_token_id=2)  # fmt: skip
    put_text("falcon", "FalconForCausalLM", "FalconConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2,
          num_attention_heads=4, use_cache=False, bos_token_id=1, eos_token_id=2)  # fmt: skip
    put_text("mpt", "MptForCausalLM", "MptConfig", vocab_size=99, d_model=32, n_layers=2, n_heads=4, max_seq_len=64,
          use_cache=False)  # fmt: skip
    for name, model, config in (
        ("llama", "LlamaForCausalLM", "LlamaConfig"), ("mistral", "MistralForCausalLM", "MistralConfig"),
        ("qwen2", "Qwen2ForCausalLM", "Qwen2Config"), ("qwen3", "Qwen3ForCausalLM", "Qwen3Config"),
        ("gemma", "GemmaForCausalLM", "GemmaConfig"), ("gemma2", "Gemma2ForCausalLM", "Gemma2Config"),
        ("phi", "PhiForCausalLM", "PhiConfig"), ("phi3", "Phi3ForCausalLM", "Phi3Config"),
        ("stablelm", "StableLmForCausalLM", "StableLmConfig"),
        ("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config"),
        ("olmo", "OlmoForCausalLM", "OlmoConfig"), ("cohere", "CohereForCausalLM", "CohereConfig"),
        ("granite", "GraniteForCausalLM", "GraniteConfig"),
    ):  # fmt: skip
        put_text(name, model, config, **DECODER)
    put_text(
        "mixtral", "MixtralForCausalLM", "MixtralConfig", num_local_experts=4,
        **{**DECODER, "intermediate_size": 64},
    )  # fmt: skip
    put_text("mamba", "MambaForCausalLM", "MambaConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2,
          state_size=8, use_cache=False)  # fmt: skip
    put_text("rwkv", "RwkvForCausalLM", "RwkvConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2,
          attention_hidden_size=32, intermediate_size=37, context_length=64, use_cache=False)  # fmt: skip


def pair() -> dict[str, Any]:
    return {"input_ids": tokens(2, 7), "decoder_input_ids": tokens(2, 5)}


def _fill_sequences() -> None:
    put_called_by_name("t5", "T5ForConditionalGeneration", "T5Config", pair, vocab_size=99, d_model=32, d_kv=8, d_ff=37,
           num_layers=2, num_heads=4, use_cache=False, decoder_start_token_id=0)  # fmt: skip
    small = {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
                 "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37,
             "max_position_embeddings": 64, "use_cache": False}  # fmt: skip
    put_called_by_name("bart", "BartForConditionalGeneration", "BartConfig", pair, **small)
    put_called_by_name(
        "marian", "MarianMTModel", "MarianConfig", pair, pad_token_id=0, decoder_start_token_id=0, **small
    )
    put_called_by_name("pegasus", "PegasusForConditionalGeneration", "PegasusConfig", pair, **small)
    put_called_by_name("whisper", "WhisperForConditionalGeneration", "WhisperConfig",
           lambda: {"input_features": torch.randn(1, 80, 60), "decoder_input_ids": tokens(1, 5)},
           vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
           decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, max_source_positions=30,
           max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
           use_cache=False)  # fmt: skip
    speech = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
              "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3), "vocab_size": 32,
              "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}  # fmt: skip
    sound = lambda: (torch.randn(2, 1011),)
    put_other("wav2vec2", "Wav2Vec2ForCTC", "Wav2Vec2Config", sound, **speech)
    put_other("hubert", "HubertModel", "HubertConfig", sound, **speech)
    put_other("wavlm", "WavLMModel", "WavLMConfig", sound, **speech)


def _fill_image_transformers() -> None:
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
             "image_size": 30, "patch_size": 10}  # fmt: skip
    images = lambda: (image(2, 3, 30, 30),)
    put_other("vit", "ViTForImageClassification", "ViTConfig", images, **small)
    put_other("deit", "DeiTModel", "DeiTConfig", images, **small)
    put_other("beit", "BeitModel", "BeitConfig", images, **small)
    put_other("dinov2", "Dinov2Model", "Dinov2Config", images, **{**small, "mlp_ratio": 2})
    put_other("segformer", "SegformerForSemanticSegmentation", "SegformerConfig", lambda: (image(1, 3, 64, 64),),
           num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[8, 16], patch_sizes=[7, 3],
           strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16)  # fmt: skip
    put_other("swin_hf", "SwinModel", "SwinConfig", lambda: (image(1, 3, 32, 32),), image_size=32, patch_size=2,
           embed_dim=16, depths=[1, 2], num_heads=[2, 2], window_size=4)  # fmt: skip
    put_other("convnext_hf", "ConvNextModel", "ConvNextConfig", lambda: (image(1, 3, 33, 33),),
           hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])  # fmt: skip
    put_other("convnextv2", "ConvNextV2Model", "ConvNextV2Config", lambda: (image(1, 3, 33, 33),),
           hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])  # fmt: skip
    put_other("mobilevit", "MobileViTModel", "MobileViTConfig", lambda: (image(1, 3, 64, 64),), image_size=64,
           hidden_sizes=[12, 16, 20], neck_hidden_sizes=[8, 8, 16, 16, 16, 16, 16], num_attention_heads=2)  # fmt: skip
    put_other("poolformer", "PoolFormerModel", "PoolFormerConfig", lambda: (image(1, 3, 32, 32),),
           depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 16, 16])  # fmt: skip
    put_other("dpt", "DPTForDepthEstimation", "DPTConfig", lambda: (image(1, 3, 32, 32),), hidden_size=32,
           num_hidden_layers=4, num_attention_heads=4, intermediate_size=37, image_size=32, patch_size=8,
           backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16)  # fmt: skip
    put_called_by_name("clip", "CLIPModel", "CLIPConfig",
           lambda: {"input_ids": tokens(2, 7), "pixel_values": image(2, 3, 30, 30)},
           text_config={**ENCODER, "projection_dim": 16, "bos_token_id": 1, "eos_token_id": 2},
           vision_config={**small, "projection_dim": 16}, projection_dim=16)  # fmt: skip
    put_called_by_name("siglip", "SiglipModel", "SiglipConfig",
           lambda: {"input_ids": tokens(2, 7), "pixel_values": image(2, 3, 30, 30)},
           text_config={**ENCODER, "projection_size": 32}, vision_config=small)  # fmt: skip


_fill_vision()
_fill_encoders()
_fill_decoders()
_fill_sequences()
_fill_image_transformers()
