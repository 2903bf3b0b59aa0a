"""What an error asks of a model that was made up: another width, or the family that a class loads."""

from __future__ import annotations

import ast
import re
from typing import Any

from lintrain.runtime.child.empty_loops import is_of_empty_loop
from lintrain.runtime.child.going_on import NoBatchesError
from lintrain.runtime.child.library import is_row, library
from lintrain.runtime.stand_ins.expressions import raised, value_of
from lintrain.runtime.stand_ins.small_configs import WIDTH as SMALL

Sizes = dict[str, Any]
HEAD = 16
WIDEST = 4096
DIVIDED = re.compile(r"(?i)divi(de|sible)|multiple of")
SHAPES = re.compile(r"shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)")
"""The message of a linear layer (torch 2.13): the inputs, and the weights' width first."""
UNFIT = re.compile(r"(?i)size|shape|dimension|expected")
BEYOND = re.compile(
    r"_size=\d+ should be (?:either )?positive and smaller than the number of samples \d+"
    r"|Invalid key: \d+ is out of bounds for size \d+"
    r"|[Ii]nd(?:ex|ices) \d+ (?:is )?out of (?:bounds|range)[^\n]*size \d+"
)
"""How scikit-learn, `datasets` and NumPy say that there are too few rows."""
TOO_FEW = re.compile(
    r"num_samples should be a positive integer value, but got num_samples=0|the resulting train set will be empty"
    r"|division by zero|modulo by zero|Sample larger than population|Cannot take a larger sample than population"
    r"|empty sequence|iterable argument is empty|should be greater or equal to the number of classes"
    r"|Cannot have number of splits|least populated class"
)
"""How Python, torch, NumPy, pandas and scikit-learn say that a part or a number of batches is empty, or too small."""
TIMES = 8
MOST_ROWS = 20_000
FEWEST = 8
UNRECOGNIZED = re.compile(
    r"Unrecognized configuration class .* for this kind of \w+: \w+\.\s+Model type should be one of (.*)\.", re.S
)


def asked_width(error: BaseException, made: int = SMALL) -> int | None:
    """The width that models of the width `made` need for heads or layers of the script; None for other errors."""
    if not isinstance(error, ValueError | RuntimeError | AssertionError):
        return None
    message = str(error)
    numbers = [int(each) for each in re.findall(r"\d+", message)]
    if DIVIDED.search(message) and made in numbers:
        # So many heads as the script asks for, each as wide as those of a small model.
        heads = next((each for each in numbers if each not in (made, 0, 1)), None)
        return heads * HEAD if heads is not None and heads * HEAD <= WIDEST else None
    if found := SHAPES.search(message):
        inputs, weights = int(found[2]), int(found[3])
        # Two outputs side by side are twice as wide.
        joined = _joined_width(inputs, weights, made)
        return _width(inputs, weights, made) or _width(weights, inputs, made) or joined
    # With several other numbers nothing tells which one is the width.
    others = {each for each in numbers if made < each <= WIDEST and each % HEAD == 0}
    return others.pop() if UNFIT.search(message) and made in numbers and len(others) == 1 else None


def difference(error: BaseException) -> int | None:
    """By how much the inputs of a layer are too narrow; None for an error of another kind."""
    found = SHAPES.search(str(error)) if isinstance(error, RuntimeError) else None
    return int(found[3]) - int(found[2]) if found is not None else None


CHANNELS = re.compile(r"expected input\[.*\] to have (\d+) channels, but got (\d+) channels")
"""The message of a convolution (torch 2.13): the channels of its weights, and those of the inputs."""


def asked_channels(error: BaseException) -> tuple[int, int] | None:
    """The channels that the first layer of a model has, and those that its inputs have; None for other errors."""
    found = CHANNELS.search(str(error)) if isinstance(error, RuntimeError) else None
    return (int(found[1]), int(found[2])) if found is not None and found[1] != found[2] else None


CROPPED = re.compile(r"(?i)crop size[^\n]*")
SIDE_OF_IMAGES = 96
WIDEST_IMAGE = 1024


def asked_side(error: BaseException) -> int | None:
    """The side that images need for what the script crops from them; None for other errors."""
    # Albumentations has an error of its own for it, which is no ValueError.
    found = CROPPED.search(str(error))
    numbers = {int(each) for each in re.findall(r"\d+", found[0])} if found is not None else set[int]()
    larger = [each for each in numbers if SIDE_OF_IMAGES < each <= WIDEST_IMAGE]
    # More than the crop, so that a random one differs from the whole.
    return min(WIDEST_IMAGE, max(larger) * 5 // 4) if larger and SIDE_OF_IMAGES in numbers else None


def _width(given: int, asked: int, made: int) -> int | None:
    times = given // made
    is_made = given % made == 0 and asked % max(1, times) == 0
    width = asked // times if is_made and times else 0
    return width if made < width <= WIDEST and width % 2 == 0 else None


def _joined_width(inputs: int, weights: int, made: int) -> int | None:
    """The width of a model whose outputs are joined with others of a width of their own: these stay as they are."""
    width = made + weights - inputs
    return width if made < inputs < weights and width % HEAD == 0 and width <= WIDEST else None


def asked_rows(error: BaseException, made: int) -> int | None:
    """How many rows a part or a row number needs that is beyond the end of `made` ones; None for other errors."""
    is_empty = isinstance(error, ValueError | ZeroDivisionError) and TOO_FEW.search(str(error)) is not None
    where = next(raised(error), None)
    is_empty = is_empty or (where is not None and is_of_empty_loop(error, where.frame, where.line))
    if is_empty or isinstance(error, NoBatchesError):
        # The script takes a part of a part, in whole batches: nothing tells how large the first one has to be.
        return min(TIMES * made, MOST_ROWS)
    found = BEYOND.search(str(error)) if isinstance(error, ValueError | IndexError) else None
    if found is None:
        return _rows_of_list(error, made) if isinstance(error, IndexError) else None
    numbers = [int(each) for each in re.findall(r"\d+", found[0])]
    asked, size = max(numbers), max(1, numbers[-1])
    # Twice as many, since the other part of a split must not be empty; more still where a part is taken (`[:6%]`).
    rows = max(2 * asked, made * -(-(asked + 1) // size))
    return min(rows, MOST_ROWS) if 0 < asked <= MOST_ROWS else None


def _rows_of_list(error: IndexError, made: int) -> int | None:
    """As above, for a number beyond a list that the script made of the rows, or of a part of them."""
    where = next(raised(error), None)
    if where is None or not isinstance(where.node, ast.Subscript):
        return None
    items, number = value_of(where.node.value, where.frame), value_of(where.node.slice, where.frame)
    # A short list holds the parts of one row, and no number of rows makes it longer.
    if not is_row(items) or not isinstance(number, int) or len(items) < FEWEST or number < len(items):
        return None
    rows = made * -(-(number + 1) // len(items))
    return rows if rows <= MOST_ROWS else None


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
