"""More classes of torchvision and transformers: detection, optical flow, video, speech, mixtures of experts and others.

Fills the same list as `model_zoo`.
"""

from __future__ import annotations

from typing import Any

import torch

from tests.conformance.model_zoo import (
    DECODER,
    ENCODER,
    Made,
    image,
    pair,
    put,
    put_called_by_name,
    put_other,
    put_text,
    put_vision,
    tokens,
    torchvision,
)


class Detector(torch.nn.Module):
    """The part of a detection model that is left where torchvision's own operators (nms, roi_align) are missing."""

    def __init__(self, name: str) -> None:
        super().__init__()
        model = getattr(torchvision().models.detection, name)(weights=None, weights_backbone=None, num_classes=5)
        self.backbone, self.head = model.backbone, model.head if hasattr(model, "head") else model.rpn.head

    def forward(self, x: Any) -> Any:
        return self.head(list(self.backbone(x).values()))


class Flow(torch.nn.Module):
    """How pixels move from one image to the next, by two rounds of refinement."""

    def __init__(self) -> None:
        super().__init__()
        self.model = torchvision().models.optical_flow.raft_small(weights=None)

    def forward(self, a: Any, b: Any) -> Any:
        return self.model(a, b, num_flow_updates=2)


def _detector(name: str) -> None:
    put(name, lambda: (Detector(name), (image(1, 3, 67, 83),)))


def _fill_vision() -> None:
    for name in ("resnet34", "densenet161", "shufflenet_v2_x1_0", "mnasnet1_0", "vgg13", "regnet_y_800mf",
                 "regnet_x_800mf", "convnext_small", "efficientnet_b1", "swin_s"):  # fmt: skip
        put_vision(name, 64 if "swin" in name else 67, batch=2)
    for name in ("fasterrcnn_mobilenet_v3_large_fpn", "fcos_resnet50_fpn", "retinanet_resnet50_fpn"):
        _detector(name)

    def video(name: str, *sizes: int) -> None:
        put(name, lambda: (getattr(torchvision().models.video, name)(weights=None), (image(1, 3, *sizes),)))

    video("s3d", 14, 224, 224)
    video("swin3d_t", 4, 33, 33)
    video("mvit_v2_s", 16, 224, 224)
    put("raft_small", lambda: (torchvision(), (Flow(), (image(1, 3, 128, 136), image(1, 3, 128, 136))))[1])


def _fill_encoders() -> None:
    for name, model, more in (
        ("deberta", "Deberta", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
        ("layoutlm", "LayoutLM", {}), ("megatron_bert", "MegatronBert", {}), ("roformer", "RoFormer", {}),
        ("rembert", "RemBert", {"input_embedding_size": 16, "output_embedding_size": 16}), ("ernie", "Ernie", {}),
        ("camembert", "Camembert", {}),
        ("nystromformer", "Nystromformer", {"segment_means_seq_len": 8, "num_landmarks": 4}),
        ("yoso", "Yoso", {"use_expectation": True}),
        ("convbert", "ConvBert", {"embedding_size": 32, "conv_kernel_size": 3, "head_ratio": 2}),
        ("ibert", "IBert", {}), ("mobilebert", "MobileBert", {"embedding_size": 32, "true_hidden_size": 32,
                                                               "intra_bottleneck_size": 32}),
        ("esm", "Esm", {"mask_token_id": 4}), ("nomic_bert", "NomicBert", {}),
    ):  # fmt: skip
        put_text(name, f"{model}Model", f"{model}Config", (2, 8), **{**ENCODER, **more})
    put_text("longformer", "LongformerModel", "LongformerConfig", (1, 16), **{**ENCODER, "attention_window": 4})
    put_text("big_bird", "BigBirdModel", "BigBirdConfig", (1, 32), **{**ENCODER, "attention_type": "block_sparse",
             "block_size": 4, "num_random_blocks": 1})  # fmt: skip
    put_text("reformer", "ReformerModel", "ReformerConfig", (1, 16), vocab_size=99, attention_head_size=8,
             hidden_size=32, num_attention_heads=4, feed_forward_size=37, axial_pos_shape=[4, 4],
             axial_pos_embds_dim=[16, 16], attn_layers=["local", "local"], local_attn_chunk_length=4,
             max_position_embeddings=64, is_decoder=False)  # fmt: skip
    put_text("funnel", "FunnelModel", "FunnelConfig", (2, 9), vocab_size=99, block_sizes=[1, 1], d_model=32, n_head=4,
             d_head=8, d_inner=37, num_decoder_layers=1)  # fmt: skip
    put_text("canine", "CanineModel", "CanineConfig", (1, 16), hidden_size=32, num_hidden_layers=2,
             num_attention_heads=4, intermediate_size=37, downsampling_rate=4, local_transformer_stride=4,
             max_position_embeddings=64)  # fmt: skip


def _fill_decoders() -> None:
    for name, model, more in (
        ("olmo2", "Olmo2", {}), ("persimmon", "Persimmon", {}), ("nemotron", "Nemotron", {}),
        ("glm", "Glm", {"head_dim": 8}), ("helium", "Helium", {"head_dim": 8}),
        ("gemma3", "Gemma3Text", {"head_dim": 8, "sliding_window": 4}), ("smollm3", "SmolLM3", {}),
        ("qwen2_moe", "Qwen2Moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                                   "shared_expert_intermediate_size": 24}),
        ("olmoe", "Olmoe", {"num_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 48}),
        ("granitemoe", "GraniteMoe", {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 48}),
        ("bitnet", "BitNet", {}), ("cohere2", "Cohere2", {"sliding_window": 4}), ("exaone4", "Exaone4", {}),
        ("falcon_mamba", "FalconMamba", {"state_size": 8}),
    ):  # fmt: skip
        heads = f"{model.removesuffix('Text')}ForCausalLM"
        put_text(name, heads, f"{model}Config", (2, 9), **{**DECODER, **more})
    put_text("gpt_bigcode", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", vocab_size=99, n_embd=32, n_layer=2, n_head=4,
             n_positions=64, use_cache=False)  # fmt: skip
    put_text("codegen", "CodeGenForCausalLM", "CodeGenConfig", vocab_size=99, n_embd=32, n_layer=2, n_head=4,
             rotary_dim=4, n_positions=64, use_cache=False)  # fmt: skip
    put_text("mamba2", "Mamba2ForCausalLM", "Mamba2Config", vocab_size=99, hidden_size=32, num_hidden_layers=2,
             state_size=8, num_heads=8, head_dim=8, n_groups=2, chunk_size=4, use_cache=False)  # fmt: skip
    put_text("xglm", "XGLMForCausalLM", "XGLMConfig", vocab_size=99, d_model=32, num_layers=2, attention_heads=4,
             ffn_dim=37, max_position_embeddings=64, use_cache=False)  # fmt: skip
    put_text("biogpt", "BioGptForCausalLM", "BioGptConfig", **{**ENCODER, "use_cache": False})
    put_other("musicgen", "MusicgenForCausalLM", "MusicgenDecoderConfig", lambda: (tokens(8, 7),), vocab_size=99,
              hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=37, num_codebooks=4,
              max_position_embeddings=64, use_cache=False, pad_token_id=98, bos_token_id=98)  # fmt: skip


def _fill_sequences() -> None:
    t5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4, "use_cache": False,
          "decoder_start_token_id": 0}  # fmt: skip
    put_called_by_name("t5_gated", "T5ForConditionalGeneration", "T5Config", pair,
                       feed_forward_proj="gated-gelu", **t5)  # fmt: skip
    put_called_by_name("mt5", "MT5ForConditionalGeneration", "MT5Config", pair, **t5)
    put_called_by_name("umt5", "UMT5ForConditionalGeneration", "UMT5Config", pair, **t5)
    put_called_by_name("longt5", "LongT5ForConditionalGeneration", "LongT5Config", pair, local_radius=3, **t5)
    put_called_by_name("switch", "SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig", pair,
                       num_experts=4, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, **t5)  # fmt: skip
    small = {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
             "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37,
             "max_position_embeddings": 64, "use_cache": False}  # fmt: skip
    put_called_by_name("mbart", "MBartForConditionalGeneration", "MBartConfig", pair, **small)
    put_called_by_name("blenderbot", "BlenderbotForConditionalGeneration", "BlenderbotConfig", pair, **small)
    put_called_by_name("m2m_100", "M2M100ForConditionalGeneration", "M2M100Config", pair, **small)
    put_called_by_name("led", "LEDForConditionalGeneration", "LEDConfig", pair, attention_window=4,
                       max_encoder_position_embeddings=64, max_decoder_position_embeddings=64,
                       **{k: v for k, v in small.items() if k != "max_position_embeddings"})  # fmt: skip
    speech = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
              "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3), "vocab_size": 32,
              "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}  # fmt: skip
    put_other("unispeech", "UniSpeechModel", "UniSpeechConfig", lambda: (torch.randn(2, 1011),), **speech)
    put_other("sew", "SEWModel", "SEWConfig", lambda: (torch.randn(2, 1011),), squeeze_factor=2, **speech)
    put_other("ast", "ASTModel", "ASTConfig", lambda: (torch.randn(1, 40, 24),), hidden_size=32, num_hidden_layers=2,
              num_attention_heads=4, intermediate_size=37, patch_size=8, max_length=40, num_mel_bins=24,
              time_stride=8, frequency_stride=8)  # fmt: skip


def _fill_images() -> None:
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
             "image_size": 30, "patch_size": 10}  # fmt: skip
    for name, model in (("data2vec_vision", "Data2VecVision"), ("vit_msn", "ViTMSN"), ("ijepa", "IJepa"),
                        ("dinov2_registers", "Dinov2WithRegisters")):  # fmt: skip
        put_other(name, f"{model}Model", f"{model}Config", lambda: (image(2, 3, 30, 30),), **small)
    put_other("swinv2_hf", "Swinv2Model", "Swinv2Config", lambda: (image(1, 3, 32, 32),), image_size=32, patch_size=2,
              embed_dim=16, depths=[1, 2], num_heads=[2, 2], window_size=4)  # fmt: skip
    put_other("focalnet", "FocalNetModel", "FocalNetConfig", lambda: (image(1, 3, 32, 32),), image_size=32,
              patch_size=2, embed_dim=16, hidden_sizes=[16, 32], depths=[1, 1], focal_levels=[2, 2],
              focal_windows=[3, 3])  # fmt: skip
    put_other("levit", "LevitModel", "LevitConfig", lambda: (image(1, 3, 64, 64),), image_size=64,
              hidden_sizes=[16, 24, 32], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8],
              attention_ratio=[2, 2, 2], mlp_ratio=[2, 2, 2])  # fmt: skip
    put_other("pvt", "PvtModel", "PvtConfig", lambda: (image(1, 3, 64, 64),), image_size=64,
              hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2],
              mlp_ratios=[2, 2, 2, 2])  # fmt: skip
    put_other("resnet_hf", "ResNetModel", "ResNetConfig", lambda: (image(2, 3, 33, 33),), embedding_size=8,
              hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1])  # fmt: skip
    put_other("regnet_hf", "RegNetModel", "RegNetConfig", lambda: (image(2, 3, 33, 33),), embedding_size=8,
              hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], groups_width=8)  # fmt: skip
    put_other("hiera", "HieraModel", "HieraConfig", lambda: (image(1, 3, 64, 64),), embed_dim=8, image_size=[64, 64],
              depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2])  # fmt: skip
    put_other("videomae", "VideoMAEModel", "VideoMAEConfig", lambda: (torch.randn(1, 4, 3, 30, 30),),
              **{**small, "num_frames": 4})  # fmt: skip
    put_other("yolos", "YolosForObjectDetection", "YolosConfig", lambda: (image(1, 3, 30, 30),),
              **{**small, "image_size": [30, 30], "num_detection_tokens": 5})  # fmt: skip
    put("detr", _detr)
    put("sam_vision", _sam)


def _detr() -> Made:
    import transformers

    backbone = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1],
                                         out_features=["stage4"])  # fmt: skip
    config = transformers.DetrConfig(use_timm_backbone=False, backbone=None, backbone_config=backbone, d_model=32,
                                     encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
                                     decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37,
                                     num_queries=7, use_pretrained_backbone=False)  # fmt: skip
    return transformers.DetrForObjectDetection(config), (image(1, 3, 65, 97),)


def _sam() -> Made:
    import transformers

    config = transformers.SamVisionConfig(hidden_size=32, output_channels=16, num_hidden_layers=2,
                                          num_attention_heads=4, image_size=64, patch_size=8, window_size=4,
                                          global_attn_indexes=[1], mlp_dim=37)  # fmt: skip
    return transformers.SamVisionModel(config), (image(1, 3, 64, 64),)


_fill_vision()
_fill_encoders()
_fill_decoders()
_fill_sequences()
_fill_images()
