"""What an error asks of a model that was made up: another width, or the family that a class loads."""

from __future__ import annotations

import re
from typing import Any

from lintrain.runtime.child.library import library
from lintrain.runtime.stand_ins.expressions import raised
from lintrain.runtime.stand_ins.small_configs import WIDTH as SMALL

Sizes = dict[str, Any]
HEAD = 16
WIDEST = 4096
DIVIDED = re.compile(r"(?i)divi(de|sible)|multiple of")
SHAPES = re.compile(r"shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)")
"""The message of a linear layer (torch 2.13): the inputs, and the weights' width first."""
UNFIT = re.compile(r"(?i)size|shape|dimension|expected")
UNRECOGNIZED = re.compile(
    r"Unrecognized configuration class .* for this kind of \w+: \w+\.\s+Model type should be one of (.*)\.", re.S
)


def asked_width(error: BaseException) -> int | None:
    """The width that a model needs for heads or layers which the script gives it; None for an error of another kind."""
    if not isinstance(error, ValueError | RuntimeError | AssertionError):
        return None
    message = str(error)
    numbers = [int(each) for each in re.findall(r"\d+", message)]
    if DIVIDED.search(message) and SMALL in numbers:
        # So many heads as the script asks for, each as wide as those of a small model.
        heads = next((each for each in numbers if each not in (SMALL, 0, 1)), None)
        return heads * HEAD if heads is not None and heads * HEAD <= WIDEST else None
    if found := SHAPES.search(message):
        inputs, weights = int(found[2]), int(found[3])
        # Two outputs side by side are twice as wide.
        return _width(inputs, weights) or _width(weights, inputs)
    others = {each for each in numbers if SMALL < each <= WIDEST and each % HEAD == 0}
    return others.pop() if UNFIT.search(message) and SMALL in numbers and len(others) == 1 else None


def _width(made: int, asked: int) -> int | None:
    times = made // SMALL
    is_made = made % SMALL == 0 and asked % max(1, times) == 0
    width = asked // times if is_made else 0
    return width if SMALL < width <= WIDEST and width % 2 == 0 else None


def asked_family(error: BaseException, script: str) -> tuple[str, str] | None:
    """The checkpoint that a class does not load, and the family of those it loads that its name has or the script."""
    found = UNRECOGNIZED.search(str(error)) if isinstance(error, ValueError) else None
    if found is None:
        return None
    names = library("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES
    classes = {each.strip() for each in found[1].split(",")}
    families = [family for family, named in names.items() if named in classes]
    checkpoint = next(
        (
            name
            for each in raised(error)
            if isinstance(name := each.frame.f_locals.get("pretrained_model_name_or_path"), str)
        ),
        None,
    )
    if checkpoint is None:
        return None
    named = [family for text in (checkpoint, script) for family in _in(text, families)]
    return (checkpoint, named[0]) if named else (checkpoint, families[0]) if families else None


def _in(text: str, families: list[str]) -> list[str]:
    plain = re.sub(r"[^a-z0-9]", "", text.lower())
    return sorted((each for each in families if re.sub(r"[^a-z0-9]", "", each) in plain), key=len, reverse=True)
