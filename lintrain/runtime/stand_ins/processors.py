"""What turns images and sound into numbers for a checkpoint: processors of its family, and the tokens that they write.

Their sizes and tokens are those of the small model.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.library import is_dictionary, is_row, library
from lintrain.runtime.stand_ins.ledger import Ledger, is_there

MARKS = {
    "qwen": {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    },
    "gemma3": {
        "image_token_id": "<image_soft_token>",
        "boi_token_index": "<start_of_image>",
        "eoi_token_index": "<end_of_image>",
    },
    "": {"image_token_id": "<image>", "video_token_id": "<video>", "audio_token_id": "<audio>"},
}
"""By the beginning of a family's name: its tokens that stand for images and sound."""
PUBLISHED = {"wav2vec2-bert": "SeamlessM4TFeatureExtractor"}
"""Feature extractors that checkpoints of a family are published with, in contrast to the mapping of transformers."""
IGNORED = 255
"""The number of pixels of a mask that belong to no class."""
IMAGE_MARK = re.compile(r"({%- else %}{{- ')[^']*'")
SIZES = (
    "num_query_tokens",
    "patch_size",
    "spatial_merge_size",
    "image_seq_len",
    "image_seq_length",
    "num_image_tokens",
    "img_size",
    "downsample_factor",
)
NAMED = {"img_size": "image_size"}
"""Sizes that a processor and its model have under different names."""
OWN_TOKEN = re.compile(
    r"\btokenizer(?:\.|, \")((?!(?:bos|eos|pad|unk|sep|cls|mask|add_bos|add_eos)_)\w+_token)(?:_id)?\b"
)
"""What a processor asks its tokenizer for, in addition to the tokens that every tokenizer may have."""


def marks_of(family: str, config: Any) -> dict[str, str]:
    """By their names: tokens of images and sound that the configuration numbers, or that the processor writes."""
    known = next(found for start, found in MARKS.items() if family.startswith(start))
    marks = {name: token for name, token in known.items() if hasattr(config, name)}
    for kind in _classes("processing_auto", "PROCESSOR_MAPPING_NAMES", family):
        source = ""
        for name, parameter in inspect.signature(kind.__init__).parameters.items():
            if name.endswith("_token") and isinstance(parameter.default, str):
                numbered = [each for each in (f"{name}_id", f"{name}_index") if hasattr(config, each)]
                marks |= dict.fromkeys(numbered or [name], parameter.default)
        with suppress(OSError, TypeError):  # a class that lacks a library has no source
            source = inspect.getsource(kind)
        # A processor that takes the content of a token makes that token by itself.
        made_by_itself = re.findall(r"self\.(\w+_token)\.content", source)
        for name in dict.fromkeys(each for each in OWN_TOKEN.findall(source) if each not in made_by_itself):
            marks.setdefault(name, marks.get(f"{name}_id") or marks.get(f"{name}_index") or f"<{name}>")
    return marks


def write_processors(family: str, folder: str, config: Any, tokenizer: Any) -> None:
    """What turns images and sound into numbers, with the values of its class."""
    pieces = {"tokenizer": tokenizer, "qformer_tokenizer": tokenizer}
    # A model put together from two others has the image processor of the one that sees.
    seeing = config.vision_config if family.endswith("dual-encoder") else getattr(config, "encoder", None)
    seen_by = getattr(seeing, "model_type", family)
    for module, mapping, piece in (
        ("image_processing_auto", "IMAGE_PROCESSOR_MAPPING_NAMES", "image_processor"),
        ("feature_extraction_auto", "FEATURE_EXTRACTOR_MAPPING_NAMES", "feature_extractor"),
        ("video_processing_auto", "VIDEO_PROCESSOR_MAPPING_NAMES", "video_processor"),
    ):
        for kind in _classes(module, mapping, seen_by):
            with suppress(Exception):  # a class that lacks a library, or a value of its own
                pieces[piece] = _sized(kind(), _of_vision(config, "image_size"), _of_vision(config, "patch_size"))
                _count_places(pieces[piece], config)
                if getattr(pieces[piece], "ignore_index", 0) is None:
                    pieces[piece].ignore_index = IGNORED  # as published ones have it, in contrast to their classes
                pieces[piece].save_pretrained(folder)
                break
    for kind in _classes("processing_auto", "PROCESSOR_MAPPING_NAMES", family):
        wanted = inspect.signature(kind.__init__).parameters
        given = {name: piece for name, piece in pieces.items() if name in wanted and piece is not None}
        given |= {name: size for name in SIZES if name in wanted and (size := _size(config, name)) is not None}
        given |= {"chat_template": getattr(tokenizer, "chat_template", None)} if "chat_template" in wanted else {}
        if "vision_feature_select_strategy" in wanted:
            given["vision_feature_select_strategy"] = getattr(config, "vision_feature_select_strategy", "default")
        if "num_additional_image_tokens" in wanted:
            given["num_additional_image_tokens"] = 1  # the token of the whole image, which the strategy leaves out
        with suppress(Exception):  # as above
            made = kind(**given)
            _mark_images(made, tokenizer, config)
            made.save_pretrained(folder)


def take_defaults(ledger: Ledger, read: str, owner: Any) -> None:
    """Let a class that reads images or sound have its own values where a stand-in has no file with others.

    `read` is the method of `owner` that reads the file: `get_image_processor_dict`.
    """
    original: Any = owner.__dict__[read].__func__

    @functools.wraps(original)
    def values_of(cls: Any, name: Any, **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        rest = {each: value for each, value in given.items() if each not in OF_DOWNLOADS}
        try:
            found: tuple[dict[str, Any], dict[str, Any]] = original(cls, name, **given)
        except OSError:
            if is_there(name):
                raise
            ledger.replace(StandInKind.MODEL, f"{name}, {cls.__name__}", "the values that its class has by default")
            return {}, rest
        return found

    setattr(owner, read, classmethod(values_of))  # type: ignore[arg-type] # `wraps` hides the first argument


OF_DOWNLOADS = (
    "cache_dir",
    "force_download",
    "local_files_only",
    "proxies",
    "revision",
    "subfolder",
    "token",
    "use_auth_token",
    "_from_auto",
    "_from_pipeline",
)
"""Arguments of `from_pretrained` that say where a file is."""


def _size(config: Any, name: str) -> Any:
    """A size that a processor shares with its model."""
    name = NAMED.get(name, name)
    own = _of_vision(config, name) or getattr(config, name, None)
    if "image" in name and (latents := getattr(config, "perceiver_config", None)) is not None:
        return latents.resampler_n_latents
    return own or (_tokens(config) if "image" in name else None)


def _mark_images(processor: Any, tokenizer: Any, config: Any) -> None:
    """In the template of chats, an image has the token that the processor looks for; the model has that number."""
    # Some families mark the start of an image with another token than its patches.
    number = None if hasattr(config, "boi_token_index") else getattr(processor, "image_token_id", None)
    for name in ("image_token_id", "image_token_index"):
        if isinstance(number, int) and hasattr(config, name):
            setattr(config, name, number)
    mark, template = getattr(processor, "image_token", None), getattr(tokenizer, "chat_template", None)
    if isinstance(mark, str) and isinstance(template, str):
        processor.chat_template = tokenizer.chat_template = IMAGE_MARK.sub(lambda found: f"{found[1]}{mark}'", template)


def _tokens(config: Any) -> int | None:
    """The tokens of one image: its patches, or the squares that a connector joins them in."""
    if isinstance(count := getattr(config, "vision_soft_tokens_per_image", None), int):
        return count
    side, patch, joined = (*(_of_vision(config, f"{each}_size") for each in ("image", "patch")), _joined(config))
    return (side // patch // joined) ** 2 if isinstance(side, int) and isinstance(patch, int) else None


def _joined(config: Any) -> int:
    given = getattr(config, "scale_factor", 1)
    return given if isinstance(given, int) else 1


def _sized(made: Any, side: Any, patch: Any) -> Any:
    """A processor whose images and patches have the sizes that the model takes."""
    if isinstance(side, int) and isinstance(patch, int) and hasattr(made, "image_seq_length"):
        made.image_seq_length = (side // patch) ** 2
    if isinstance(patch, int) and isinstance(getattr(made, "patch_size", None), int):
        made.patch_size = patch
    for name in ("size", "crop_size"):
        given = getattr(made, name, None)
        if isinstance(side, int) and given and given.get("longest_edge") and given.get("shortest_edge"):
            setattr(made, name, {"longest_edge": 2 * side, "shortest_edge": side})
            continue
        keys = [key for key in ("height", "width", "shortest_edge") if given and key in given and given[key]]
        if isinstance(side, int) and keys:
            setattr(made, name, dict.fromkeys(keys, side))
    if isinstance(side, int) and getattr(made, "max_image_size", None):
        made.max_image_size = {"longest_edge": side}  # of each part that a large image is cut into
        made.size = {"longest_edge": 2 * side}
    return made


def _count_places(made: Any, config: Any) -> None:
    """A processor that must know how many tokens an encoder with stages makes: one for each place, and their mean."""
    strides = getattr(getattr(config, "vision_config", None), "patch_stride", None)
    crop: Any = getattr(made, "crop_size", None) or {}
    side: Any = crop.get("height")
    if is_row(strides) and isinstance(side, int) and getattr(made, "image_seq_length", None) is None:
        made.image_seq_length = (side // math.prod(strides)) ** 2 + 1


def _of_vision(config: Any, name: str) -> Any:
    part = getattr(config, "vision_config", None) or getattr(config, "encoder", None) or config
    found = getattr(part, name, None)
    return found[0] if is_row(found) and found else found


def _classes(module: str, mapping: str, family: str) -> Iterator[Any]:
    try:
        names = getattr(library(f"transformers.models.auto.{module}"), mapping).get(family)
    except (ImportError, AttributeError):
        return
    if module == "feature_extraction_auto":
        names = PUBLISHED.get(family, names)
    listed = [names] if isinstance(names, str) else [*names.values()] if is_dictionary(names) else names or ()
    for each in listed:
        with suppress(Exception):  # the class lacks a library
            if each is not None and (found := getattr(library("transformers"), each, None)) is not None:
                yield found
