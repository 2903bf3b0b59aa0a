"""A configuration of transformers made small: the same class, two narrow layers, and sizes that still fit together.

Only sizes are changed; what a class derives from them (the kinds of its layers) it derives again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from lintrain.runtime.child.library import is_dictionary, is_row

Sizes = dict[str, Any]

HEADS = 2
WIDTH = 32
SMALL: Mapping[str, int] = {
    r"(num_(hidden_|encoder_|decoder_|transformer_)?|encoder_|decoder_|n_)?(layers?|blocks?)|num_hidden_layers": 2,
    r"depth": 2,
    r"(num_|n_)((attention_)?heads?)|attention_heads|(en|de)coder_attention_heads|decoder_n_head|num_attn_heads": HEADS,
    r"hidden_size|d_model|n_embd|dim|embed_dim|d_embed|embedding_size|projection_dim|hidden_dim|word_embed_proj_dim"
    r"|projection_hidden_size|cross_attention_hidden_size|out_hidden_size|text_hidden_size|decoder_hidden_size"
    r"|mask_feature_size|feature_size|emb_dim|projector_dim|hidden_size_per_layer_input|pooler_output_size"
    r"|(proj_)?codevector_dim": WIDTH,
    r"intermediate_size|d_ff|n_inner|ffn_dim|(en|de)coder_ffn_dim|dim_feedforward|d_inner|decoder_intermediate_size"
    r"|ffn_hidden_size|moe_intermediate_size|shared_expert_intermediate_size": 64,
    r"head_dim|d_kv|global_head_dim|v_head_dim|qk_nope_head_dim|attention_head_dim|d_head": 16,
    r"qk_rope_head_dim": 16,
    r"kv_lora_rank|q_lora_rank": 16,
    r"(num_|n_routed_|num_local_)experts|num_local_experts": 4,
    r"num_experts_per_tok|num_experts_per_token|top_k_experts": 2,
    r"rotary_dim": 16,
    r"decoder_num_attention_heads|decoder_num_heads": HEADS,
    r"decoder_num_hidden_layers|decoder_depth|num_global_layers": 2,
    r"num_kv_shared_layers": 0,
}
"""By patterns of their names: sizes that no model needs to be larger than, to be a model of its class."""
_PATTERNS = [(re.compile(pattern), size) for pattern, size in SMALL.items()]
KEY_HEADS = ("num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num")
FEW = ("depths", "encoder_depths", "num_layers_per_stage", "layer_depths")
WIDTHS = ("hidden_sizes", "conv_dim", "tdnn_dim", "neck_hidden_sizes", "decoder_channels")
OFF = {"use_timm_backbone": False, "use_pretrained_backbone": False}
LAYERS = 2
NUMBERED: Mapping[str, int] = {
    "cross_attention_layers": LAYERS - 1,
    "intermediate_layers_indices": 0,
    "vision_feature_layer": LAYERS - 1,
}
"""Lists with numbers of layers, and the number of one that a small model has."""
OF_FAMILY: Mapping[str, Sizes] = {
    "codegen": {"n_head": 4, "n_embd": 64, "rotary_dim": 16},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 64},
}
"""Sizes of families that cannot be smaller, as CodeGen divides its heads among four processors, or are left open."""
SIDE = 224
"""Pixels of an image's side, for families that cut a large image into tiles."""
TIMM, TIMM_PATCH = ("test_convnext", 64), 32
"""A network of timm in place of one with 300 million parameters, its width, and the pixels of one of its outputs."""


CHANNELS = re.compile(r"(num_|in_|input_)?channels|num_mel_bins|feature_size|feature_dim|input_feat_per_channel")
"""Values of a configuration that say how many channels the inputs of a model have."""


def small_config(
    kind: Any, known: Any = None, width: int | None = None, channels: Mapping[int, int] | None = None
) -> Any:
    """A small configuration of a class of transformers; `known` is one of its objects, whose other values are kept.

    `width` is that of every layer which is as wide as small ones are, where the script needs another; `channels` are
    those that inputs have, by the number that the configuration says.
    """
    whole = known if known is not None else _with_vision(kind)
    sizes = _widened({**_sizes(whole), **OF_FAMILY.get(whole.model_type, {})}, width)
    if known is None:
        made = kind(**sizes)
    else:
        values: Sizes = {name: value for name, value in known.to_dict().items() if name not in DERIVED}
        made = kind.from_dict({**values, **sizes})
    for large, small in _pairs(whole, made):
        _keep_kinds(large, small)
        own = cast(Sizes, vars(small))
        for name, value in own.items():
            if CHANNELS.fullmatch(name) and channels and value in channels:
                setattr(small, name, channels[value])
    _fit_sections(made)
    _fit_squares(made)
    return made


def _widened(sizes: Sizes, width: int | None) -> Sizes:
    """Sizes with another width; those of parts too."""
    if width is None:
        return sizes
    made: Sizes = {}
    for name, value in sizes.items():
        is_wide = value == WIDTH and any(size == WIDTH and each.fullmatch(name) for each, size in _PATTERNS)
        made[name] = width if is_wide else _widened(value, width) if is_dictionary(value) else value
    return made


def _with_vision(kind: Any) -> Any:
    """A configuration of a class; one that leaves the part for images to each checkpoint gets that part."""
    made: Any = kind()
    parts: Mapping[str, Any] = getattr(kind, "sub_configs", None) or {}
    part: Any = parts.get("vision_config")
    if part is None or part.__name__ == "AutoConfig" or getattr(made, "vision_config", None) is not None:
        return made
    return kind(vision_config=part().to_dict())


def _pairs(large: Any, small: Any) -> Iterator[tuple[Any, Any]]:
    """A configuration and its small one, and their parts."""
    yield large, small
    for name, value in large.__dict__.items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from _pairs(value, getattr(small, name))


def _keep_kinds(large: Any, small: Any) -> None:
    """A model whose layers are of several kinds has one of each: a cache and a mask are made for every kind."""
    # Derived for two layers, the kinds are those of the first two: often the same.
    kinds, made = (getattr(each, "layer_types", None) for each in (large, small))
    if is_row(kinds) and is_row(made) and len(made) == LAYERS == len({*kinds}) > len({*made}):
        small.layer_types = [*dict.fromkeys(kinds)]


def _fit_sections(whole: Any) -> None:
    """Rotary positions of images: the parts for time, height and width fill the small heads."""
    parts: list[Any] = [whole, getattr(whole, "text_config", None)]
    for part in parts:
        given = getattr(part, "rope_parameters", None)
        has_images = whole.model_type.startswith(("qwen", "glm4v")) and hasattr(whole, "vision_config")
        if is_dictionary(given) and ("mrope_section" in given or has_images):
            width = getattr(part, "head_dim", None) or part.hidden_size // part.num_attention_heads
            half = int(width * given.get("partial_rotary_factor", 1)) // 2
            time, height = half // 4, (half - half // 4) // 2
            part.rope_parameters = {**given, "mrope_section": [time, height, half - time - height]}


def _fit_squares(whole: Any) -> None:
    """The side of an image is a whole number of the squares of patches that the connector joins into a token."""
    vision: Any = getattr(whole, "vision_config", None)
    if hasattr(vision, "architecture") and hasattr(whole, "vision_soft_tokens_per_image"):
        vision.architecture, vision.hidden_size = TIMM
        whole.vision_soft_tokens_per_image = (SIDE // TIMM_PATCH) ** 2
    patch: Any = getattr(vision, "patch_size", None)
    if vision is None or not isinstance(patch, int) or not hasattr(vision, "image_size"):
        return
    joined: Any = getattr(whole, "scale_factor", None) or getattr(whole, "downsample_factor", None)
    if isinstance(joined, int):
        vision.image_size = -(-vision.image_size // (patch * joined)) * patch * joined
    if hasattr(whole, "mm_tokens_per_image"):
        whole.mm_tokens_per_image = (vision.image_size // patch) ** 2
    if getattr(vision, "max_num_tiles", None) or getattr(vision, "pixel_shuffle_ratio", None):
        vision.image_size = SIDE // (2 * patch) * 2 * patch
    if hasattr(vision, "intermediate_layers_indices"):
        vision.vision_output_dim = vision.hidden_size * (1 + len(vision.intermediate_layers_indices))


DERIVED = (
    "layer_types",
    "block_types",
    "sliding_window_pattern",
    "no_rope_layers",
    "mlp_layer_types",
    "per_layer_config",
    "activation_sparsity_pattern",
)
"""What has an entry for each layer."""


def _sizes(whole: Any) -> Sizes:
    """The sizes of a configuration that are to be smaller, those of its parts too."""
    given: Mapping[str, Any] = whole.__dict__
    parts: Mapping[str, Any] = getattr(whole.__class__, "sub_configs", None) or {}
    found: Sizes = {}
    for name, value in given.items():
        if name in parts or hasattr(value, "to_dict"):
            if hasattr(value, "to_dict"):
                found[name] = _part(value)
            continue
        small = _small(name, value, given)
        if small != value:
            found[name] = small
    return found


def _part(part: Any) -> Sizes:
    values = {name: value for name, value in part.to_dict().items() if name not in DERIVED}
    return {**values, **_sizes(part), **OF_FAMILY.get(part.model_type, {})}


def _small(name: str, value: Any, given: Mapping[str, Any]) -> Any:
    if name in OFF and value:
        return OFF[name]
    if name in NUMBERED and is_row(value):
        return [NUMBERED[name]]
    if name == "attention_types" and value:  # of GPT-Neo: kinds of layers, and how often they are repeated
        return [[kinds, LAYERS // len(kinds)] for kinds, _ in value[:1]]
    if name in FEW and is_row(value):
        return type(value)(1 for _ in value)
    if name in WIDTHS and is_row(value):
        # Those of `conv_dim` read each sample of a sound: 64 wide they take most of the time of a batch.
        share = 16 if name == "conv_dim" else 8
        return type(value)(max(32, each // share // 32 * 32) if isinstance(each, int) else each for each in value)
    if name == "intermediate_size" and is_row(value) and value:
        return _small(name, value[0], given)  # one for each layer
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if name in KEY_HEADS:
        return _key_heads(value, given)
    for pattern, size in _PATTERNS:
        if pattern.fullmatch(name):
            return value if _is_in_stages(name, given) else min(value, size)
    return value


def _key_heads(value: int, given: Mapping[str, Any]) -> int:
    """As many as there are heads, one, or a part of them: as the family has it."""
    heads = next((given[name] for name in ("num_attention_heads", "n_head", "num_heads") if name in given), value)
    return HEADS if value == heads else min(value, 1)


def _is_in_stages(name: str, given: Mapping[str, Any]) -> bool:
    """Whether the width grows from stage to stage, with heads for each: it stays, since the heads divide it."""
    return name in ("embed_dim", "hidden_size") and any(
        isinstance(given.get(each), list | tuple) for each in ("num_heads", "num_attention_heads")
    )
