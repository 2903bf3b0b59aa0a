"""Whether a call makes a transform of pictures that is random."""

from __future__ import annotations

import ast
import re

from lintrain.source.nodes import unparse
from lintrain.startup.lazy_pattern import lazy_pattern

RANDOM = lazy_pattern(
    r"(Random(?!Sampl|State|Subset|Apply\b)\w+|ColorJitter|RandAugment|AutoAugment|TrivialAugmentWide|AugMix|CoarseDropout"
    r"|HorizontalFlip|VerticalFlip|ShiftScaleRotate|Cutout|RandomApply)$"
)
"""Transforms of torchvision and albumentations that change with each call."""


def is_random(call: ast.Call) -> bool:
    """Whether a call makes a transform that changes pictures: `ColorJitter()` has all its strengths at 0."""
    name = unparse(call.func).rpartition(".")[2]
    if RANDOM.search(name) is None:
        return False
    strengths = [*call.args, *(each.value for each in call.keywords)]
    is_of_torch = name == "ColorJitter" and re.match(r"(?:A|alb\w*)\.", unparse(call.func)) is None
    return not is_of_torch or any(not is_off(each) for each in strengths)


def is_off(value: ast.expr) -> bool:
    """Whether a strength or a switch is written as one that changes nothing."""
    return isinstance(value, ast.Constant) and not value.value
