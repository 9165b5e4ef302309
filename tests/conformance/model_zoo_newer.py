"""Classes of transformers that are newer, rarer or odder than those of the other two lists, and some of timm.

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
    tokens,
)

EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
ROUTED = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 2, "topk_group": 1,
          "n_shared_experts": 1, "first_k_dense_replace": 1}  # fmt: skip
LATENT = {"kv_lora_rank": 8, "q_lora_rank": 12, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}


def _fill_decoders() -> None:
    for name, model, more in (
        ("arcee", "Arcee", {}), ("apertus", "Apertus", {}), ("olmo3", "Olmo3", {"sliding_window": 4}),
        ("diffllama", "DiffLlama", {}), ("doge", "Doge", {}), ("ernie4_5", "Ernie4_5", {"head_dim": 8}),
        ("ernie4_5_moe", "Ernie4_5_Moe", {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16}),
        ("deepseek_v2", "DeepseekV2", {**ROUTED, **LATENT, "num_key_value_heads": 4}),
        ("deepseek_v3", "DeepseekV3", {**ROUTED, **LATENT, "num_key_value_heads": 4}),
        ("dots1", "Dots1", ROUTED), ("glm4", "Glm4", {"head_dim": 8}), ("glm4_moe", "Glm4Moe", ROUTED),
        ("gpt_oss", "GptOss", {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8, "sliding_window": 4,
                               "intermediate_size": 48}),
        ("granitemoeshared", "GraniteMoeShared", {"num_local_experts": 4, "num_experts_per_tok": 2,
                                                  "shared_intermediate_size": 24, "intermediate_size": 48}),
        ("hunyuan_dense", "HunYuanDenseV1", {"head_dim": 8}), ("seed_oss", "SeedOss", {"head_dim": 8}),
        ("qwen3_moe", "Qwen3Moe", {**EXPERTS, "head_dim": 8}),
        ("qwen3_next", "Qwen3Next", {**EXPERTS, "head_dim": 8, "linear_num_value_heads": 4, "linear_num_key_heads": 2,
                                     "linear_key_head_dim": 8, "linear_value_head_dim": 8,
                                     "shared_expert_intermediate_size": 16}),
        ("jamba", "Jamba", {"mamba_d_state": 8, "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
                            "use_mamba_kernels": False, "intermediate_size": 48}),
        ("bamba", "Bamba", {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1,
                            "mamba_expand": 2, "mamba_chunk_size": 4, "attn_layer_indices": [1]}),
        ("falcon_h1", "FalconH1", {"mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8,
                                   "mamba_n_groups": 1, "mamba_chunk_size": 4}),
        ("lfm2", "Lfm2", {"layer_types": ["conv", "full_attention"]}),
        ("ministral", "Ministral", {"head_dim": 8, "sliding_window": 4}), ("nanochat", "NanoChat", {}),
        ("phimoe", "Phimoe", {"num_local_experts": 4, "intermediate_size": 48}),
        ("vaultgemma", "VaultGemma", {"head_dim": 8}),
        ("minimax", "MiniMax", {"num_local_experts": 4, "block_size": 4, "head_dim": 8,
                                "intermediate_size": 48}),
        ("flex_olmo", "FlexOlmo", {"num_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 48}),
        ("jetmoe", "JetMoe", {"num_local_experts": 4, "kv_channels": 8}),
        ("minicpm3", "MiniCPM3", {**LATENT, "num_key_value_heads": 4}), ("cwm", "Cwm", {"head_dim": 8}),
        ("afmoe", "Afmoe", {**EXPERTS, "num_shared_experts": 1,
                                                                         "head_dim": 8, "sliding_window": 4}),
        ("recurrent_gemma", "RecurrentGemma", {"lru_width": 32, "attention_window_size": 4,
                                               "block_types": ["recurrent", "attention"]}),
        ("modernbert_decoder", "ModernBertDecoder", {"cls_token_id": 1, "sep_token_id": 2, "local_attention": 4}),
        ("gpt_neox_japanese", "GPTNeoXJapanese", {"intermediate_multiple_size": 2}),
        ("bitnet", "BitNet", {}), ("jais2", "Jais2", {"head_dim": 8}),
        ("youtu", "Youtu", {**LATENT, "num_key_value_heads": 4}),
        ("lfm2_moe", "Lfm2Moe", {**EXPERTS, "num_dense_layers": 1, "layer_types": ["conv", "full_attention"]}),
        ("minimax_m2", "MiniMaxM2", {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8,
                                     "intermediate_size": 48}),
    ):  # fmt: skip
        put_text(name, f"{model}ForCausalLM", f"{model}Config", (3, 9), **{**DECODER, **more})
    put_text("nemotron_h", "NemotronHForCausalLM", "NemotronHConfig", (1, 9), **{
        **DECODER, "hybrid_override_pattern": "M*-M", "num_hidden_layers": 4, "mamba_num_heads": 8,
        "mamba_head_dim": 8, "ssm_state_size": 8, "n_groups": 2, "chunk_size": 4, "head_dim": 8})  # fmt: skip
    put_text("xlstm", "xLSTMForCausalLM", "xLSTMConfig", (1, 9), vocab_size=99, hidden_size=32, num_blocks=2,
             num_hidden_layers=2, num_heads=4, chunk_size=4, qk_dim_factor=0.5, v_dim_factor=1.0,
             use_cache=False)  # fmt: skip
    put_text("openai_gpt", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", (1, 9), vocab_size=99, n_embd=32, n_layer=2,
             n_head=4, n_positions=64)  # fmt: skip
    put_text("ctrl", "CTRLLMHeadModel", "CTRLConfig", (3, 9), vocab_size=99, n_embd=32, n_layer=2, n_head=4, dff=37,
             n_positions=64, use_cache=False)  # fmt: skip
    put_text("imagegpt", "ImageGPTModel", "ImageGPTConfig", (1, 17), vocab_size=99, n_embd=32, n_layer=2, n_head=4,
             n_positions=64, use_cache=False)  # fmt: skip
    put_text("gemma3n", "Gemma3nForCausalLM", "Gemma3nTextConfig", (1, 9), **{
        **DECODER, "head_dim": 8, "num_hidden_layers": 4, "sliding_window": 4, "vocab_size_per_layer_input": 99,
        "hidden_size_per_layer_input": 8, "laurel_rank": 4, "num_kv_shared_layers": 2, "altup_num_inputs": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "activation_sparsity_pattern": [0.5, 0.0, 0.5, 0.0]})  # fmt: skip
    put_text("llama4", "Llama4ForCausalLM", "Llama4TextConfig", (1, 9), **{
        **DECODER, "head_dim": 8, "intermediate_size_mlp": 37, "num_local_experts": 4, "attention_chunk_size": 4,
        "interleave_moe_layer_step": 2})  # fmt: skip
    put_other("moshi", "MoshiForCausalLM", "MoshiConfig", lambda: (tokens(1, 9),), **{
        **DECODER, "head_dim": 8, "ffn_dim": 38, "sliding_window": 4})  # fmt: skip


def _fill_encoders() -> None:
    for name, model, more in (
        ("luke", "Luke", {"entity_vocab_size": 9, "entity_emb_size": 8}),
        ("tapas", "Tapas", {}), ("splinter", "Splinter", {}), ("roc_bert", "RoCBert", {
            "enable_pronunciation": False, "enable_shape": False}),
        ("roberta_prelayernorm", "RobertaPreLayerNorm", {}), ("xlm_roberta_xl", "XLMRobertaXL", {}),
        ("eurobert", "EuroBert", {"num_key_value_heads": 2}), ("markuplm", "MarkupLM", {"max_depth": 4}),
        ("visual_bert", "VisualBert", {}), ("data2vec_text", "Data2VecText", {}), ("mra", "Mra", {"block_per_row": 1}),
        ("xmod", "Xmod", {"languages": ["en_XX"], "default_language": "en_XX"}),
        ("jina_v3", "JinaEmbeddingsV3", {}), ("gte", "Gte", {}), ("bert_generation", "BertGenerationEncoder", {}),
    ):  # fmt: skip
        config = "BertGenerationConfig" if name == "bert_generation" else f"{model}Config"
        put_text(name, model if name == "bert_generation" else f"{model}Model", config, (1, 11), **{**ENCODER, **more})
    xlm = {"vocab_size": 99, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64}
    put_text("xlm", "XLMModel", "XLMConfig", (3, 9), **xlm)
    put_text("flaubert", "FlaubertModel", "FlaubertConfig", (3, 9), **xlm)
    put_other("perceiver", "PerceiverModel", "PerceiverConfig", lambda: (torch.randn(3, 11, 24),), d_model=24,
              num_latents=7, d_latents=32, num_self_attends_per_block=2, num_self_attention_heads=4,
              num_cross_attention_heads=4)  # fmt: skip
    put_called_by_name("bros", "BrosModel", "BrosConfig",
                       lambda: {"input_ids": tokens(1, 7), "bbox": torch.rand(1, 7, 8)},
                       **{**ENCODER, "hidden_size": 64})  # fmt: skip
    put_called_by_name("layoutlmv3", "LayoutLMv3Model", "LayoutLMv3Config",
                       lambda: {"input_ids": tokens(1, 7), "bbox": torch.randint(0, 9, (1, 7, 4)),
                                "pixel_values": image(1, 3, 32, 32)},
                       **{**ENCODER, "input_size": 32, "patch_size": 8, "coordinate_size": 5, "shape_size": 6,
                          "max_2d_position_embeddings": 16, "rel_pos_bins": 8, "max_rel_pos": 16,
                          "rel_2d_pos_bins": 8, "max_rel_2d_pos": 16})  # fmt: skip


def _fill_images() -> None:
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
             "image_size": 30, "patch_size": 10}  # fmt: skip
    stages = {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1]}
    for name, model, size, more in (
        ("dinov3_vit", "DINOv3ViT", 30, small), ("dinov3_convnext", "DINOv3ConvNext", 65, stages),
        ("aimv2_vision", "Aimv2Vision", 30, small), ("mobilenet_v1", "MobileNetV1", 33, {"depth_multiplier": 0.25}),
        ("mobilevitv2", "MobileViTV2", 64, {"image_size": 64, "width_multiplier": 0.25}),
        ("efficientnet_hf", "EfficientNet", 33, {"width_coefficient": 0.25, "depth_coefficient": 0.5,
                                                 "image_size": 33, "hidden_dim": 320}),
        ("bit", "Bit", 37, {"embedding_size": 8, **stages, "num_groups": 4}),
        ("swiftformer", "SwiftFormer", 64, {"image_size": 64, "depths": [1, 1, 1, 1], "embed_dims": [8, 16, 16, 24]}),
        ("pvt_v2", "PvtV2", 64, {**stages, "image_size": 64, "num_attention_heads": [1, 2, 2, 2],
                                 "mlp_ratios": [2, 2, 2, 2]}),
        ("swin2sr", "Swin2SR", 32, {"image_size": 32, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2],
                                    "window_size": 4}),
        ("textnet", "TextNet", 65, {}), ("timm_like_hgnet", "HGNetV2", 65, {}),
        ("glpn", "GLPN", 64, {"num_encoder_blocks": 2, "hidden_sizes": [8, 16], "depths": [1, 1],
                              "sr_ratios": [2, 1], "patch_sizes": [7, 3], "strides": [4, 2],
                              "num_attention_heads": [1, 2], "mlp_ratios": [2, 2]}),
        ("vitdet", "VitDet", 32, {**small, "image_size": 32, "patch_size": 4, "window_size": 4,
                                  "window_block_indices": [0], "use_relative_position_embeddings": True}),
    ):  # fmt: skip
        head = {"timm_like_hgnet": "HGNetV2ForImageClassification"}
        put_other(name, head.get(name, f"{model}Model"), f"{model}Config",
                  lambda size=size: (image(3 if size < 40 else 1, 3, size, size),), **more)  # fmt: skip
    put_other("timesformer", "TimesformerModel", "TimesformerConfig", lambda: (torch.randn(1, 3, 3, 30, 30),),
              **{**small, "num_frames": 3})  # fmt: skip
    put_other("vivit", "VivitModel", "VivitConfig", lambda: (torch.randn(1, 4, 3, 32, 32),),
              **{**small, "image_size": 32, "num_frames": 4, "tubelet_size": [2, 16, 16]})  # fmt: skip
    put_other("vjepa2", "VJEPA2Model", "VJEPA2Config", lambda: (torch.randn(1, 4, 3, 32, 32),), crop_size=32,
              patch_size=16, frames_per_clip=4, hidden_size=36, num_hidden_layers=2, num_attention_heads=2,
              pred_hidden_size=24, pred_num_attention_heads=2, pred_num_hidden_layers=1)  # fmt: skip
    put_other("depth_anything", "DepthAnythingForDepthEstimation", "DepthAnythingConfig",
              lambda: (image(1, 3, 56, 70),),
              backbone_config={"model_type": "dinov2", **small, "patch_size": 14, "image_size": 56,
                               "num_hidden_layers": 4, "out_indices": [1, 2, 3, 4], "reshape_hidden_states": False,
                               "apply_layernorm": True},
              reassemble_hidden_size=32, patch_size=14, neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16,
              head_in_index=-1, head_hidden_size=8)  # fmt: skip
    put("rt_detr", _rt_detr)


def _rt_detr() -> Made:
    import transformers

    backbone = transformers.RTDetrResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1],
                                               layer_type="basic",
                                               out_features=["stage2", "stage3", "stage4"])  # fmt: skip
    config = transformers.RTDetrConfig(
        backbone_config=backbone, backbone=None, encoder_hidden_dim=16, encoder_in_channels=[16, 16, 24], d_model=16,
        encoder_ffn_dim=24, decoder_ffn_dim=24, encoder_attention_heads=2, decoder_attention_heads=2, num_queries=9,
        decoder_layers=2, decoder_in_channels=[16, 16, 16], hidden_expansion=0.5, num_labels=5,
        anchor_image_size=None)  # fmt: skip
    return transformers.RTDetrForObjectDetection(config), (image(1, 3, 64, 96),)


def _fill_sounds() -> None:
    speech = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
              "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3), "vocab_size": 32,
              "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}  # fmt: skip
    for name, model in (("unispeech_sat", "UniSpeechSat"), ("data2vec_audio", "Data2VecAudio"),
                        ("wav2vec2_conformer", "Wav2Vec2Conformer")):  # fmt: skip
        put_other(name, f"{model}Model", f"{model}Config", lambda: (torch.randn(3, 1011),), **speech)
    put_other("sew_d", "SEWDModel", "SEWDConfig", lambda: (torch.randn(1, 1011),), squeeze_factor=2,
              position_buckets=8, max_position_embeddings=64, **speech)  # fmt: skip
    put_other("wav2vec2_bert", "Wav2Vec2BertModel", "Wav2Vec2BertConfig", lambda: (torch.randn(1, 23, 20),),
              hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
              feature_projection_input_dim=20)  # fmt: skip
    put_other("encodec", "EncodecModel", "EncodecConfig", lambda: (torch.randn(1, 1, 333),), num_filters=4,
              hidden_size=16, codebook_size=16, codebook_dim=16, upsampling_ratios=[4, 2],
              num_lstm_layers=1)  # fmt: skip
    put_other("dac", "DacModel", "DacConfig", lambda: (torch.randn(1, 1, 320),), encoder_hidden_size=8,
              downsampling_ratios=[2, 4], decoder_hidden_size=32, upsampling_ratios=[4, 2], n_codebooks=2,
              codebook_size=16, codebook_dim=4)  # fmt: skip
    put_called_by_name("speech_to_text", "Speech2TextModel", "Speech2TextConfig",
                       lambda: {"input_features": torch.randn(1, 25, 16), "decoder_input_ids": tokens(1, 5)},
                       vocab_size=99, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                       decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, input_feat_per_channel=16,
                       conv_channels=16, use_cache=False)  # fmt: skip
    put_called_by_name("moonshine", "MoonshineModel", "MoonshineConfig",
                       lambda: {"input_values": torch.randn(1, 2000), "decoder_input_ids": tokens(1, 5)},
                       vocab_size=99, hidden_size=32, intermediate_size=37, encoder_num_hidden_layers=1,
                       decoder_num_hidden_layers=1, encoder_num_attention_heads=4, decoder_num_attention_heads=4,
                       use_cache=False)  # fmt: skip
    put_other("patchtst", "PatchTSTModel", "PatchTSTConfig", lambda: (torch.randn(3, 32, 2),), num_input_channels=2,
              context_length=32, patch_length=4, patch_stride=4, d_model=16, num_attention_heads=4, ffn_dim=37,
              num_hidden_layers=2)  # fmt: skip
    put_other("patchtsmixer", "PatchTSMixerModel", "PatchTSMixerConfig", lambda: (torch.randn(3, 32, 2),),
              num_input_channels=2, context_length=32, patch_length=4, patch_stride=4, d_model=16,
              num_layers=2)  # fmt: skip
    put_other("univnet", "UnivNetModel", "UnivNetConfig", lambda: (torch.randn(1, 9, 12),), num_mel_bins=12,
              model_in_channels=64, model_hidden_channels=8, resblock_stride_sizes=[2, 2, 2],
              resblock_kernel_sizes=[3, 3, 3], resblock_dilation_sizes=[[1, 3]] * 3)  # fmt: skip


def _fill_sequences() -> None:
    small = {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
             "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37,
             "max_position_embeddings": 64, "use_cache": False}  # fmt: skip
    for name, model in (("bigbird_pegasus", "BigBirdPegasus"), ("mvp", "Mvp"), ("plbart", "PLBart"),
                        ("pegasus_x", "PegasusX"), ("nllb_moe", "NllbMoe"), ("blenderbot_small", "BlenderbotSmall"),
                        ("fsmt", "FSMT")):  # fmt: skip
        more: dict[str, Any] = {
            "nllb_moe": {"num_experts": 4},
            "fsmt": {"src_vocab_size": 99, "tgt_vocab_size": 99, "langs": ["a", "b"]},
        }.get(name, {})
        put_called_by_name(name, f"{model}ForConditionalGeneration", f"{model}Config", pair, **{**small, **more})
    put_called_by_name("prophetnet", "ProphetNetModel", "ProphetNetConfig", pair, vocab_size=99, hidden_size=32,
                       num_encoder_layers=1, num_decoder_layers=1, num_encoder_attention_heads=4,
                       num_decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37,
                       max_position_embeddings=64, use_cache=False)  # fmt: skip
    put_called_by_name("t5gemma", "T5GemmaForConditionalGeneration", "T5GemmaConfig", pair, vocab_size=99,
                       encoder={**DECODER, "head_dim": 8, "sliding_window": 4},
                       decoder={**DECODER, "head_dim": 8, "sliding_window": 4,
                                "cross_attention_hidden_size": 32})  # fmt: skip


def put_timm(name: str, size: int, batch: int = 1, **options: Any) -> None:
    def make() -> Made:
        import timm

        return timm.create_model(name, pretrained=False, **options), (image(batch, 3, size, size),)

    put(f"timm_{name}", make)


def _fill_timm() -> None:
    for name in ("resnetv2_50", "seresnet18", "ecaresnet26t", "gcresnet33ts", "res2net50_26w_4s",
                 "skresnet18", "rexnet_100", "ghostnet_100", "hardcorenas_a", "lcnet_050", "mobilenetv4_conv_small",
                 "fastvit_t8", "repvgg_a0", "vovnet39a", "cspresnet50", "nf_regnet_b0", "dpn48b", "selecsls42",
                 "tinynet_e", "repghostnet_050", "mobileone_s0", "edgenext_xx_small",
                 "inception_next_tiny"):  # fmt: skip
        put_timm(name, 65)
    for name in ("deit_tiny_patch16_224", "cait_xxs24_224", "xcit_nano_12_p16_224", "pit_ti_224", "mixer_s32_224",
                 "resmlp_12_224", "gmlp_ti16_224", "convmixer_768_32", "coat_tiny", "crossvit_tiny_240",
                 "beit_base_patch16_224",
                 "efficientformer_l1", "efficientvit_b0", "davit_tiny", "gcvit_xxtiny", "tiny_vit_5m_224",
                 "volo_d1_224", "visformer_tiny", "sequencer2d_s", "poolformerv2_s12", "starnet_s1", "caformer_s18",
                 "twins_svt_small", "nest_tiny", "mvitv2_tiny", "eva02_tiny_patch14_224",
                 "coatnet_nano_rw_224"):  # fmt: skip
        put_timm(name, 240 if "240" in name else 224)


_fill_decoders()
_fill_encoders()
_fill_images()
_fill_sounds()
_fill_sequences()
_fill_timm()
