"""Images that a function moves at random, and masks of them that it gives back without the same move.

image = tf.image.random_flip_left_right(image)
return image, mask
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

DRAWS = frozenset({"random_flip_left_right", "random_flip_up_down", "random_crop"})
"""Functions of TensorFlow that move an image by numbers of their own."""

LAYERS = lazy_pattern(r"(?:^|\.)Random(?:HorizontalFlip|VerticalFlip|Rotation|Affine|Perspective|ResizedCrop|Crop)\(")
"""Transforms that do, which are called where they are made: `RandomHorizontalFlip(0.5)(image)`."""

MOVES = frozenset({"hflip", "vflip", "fliplr", "flipud", "rot90", "mirror"})
"""Functions that always move an image, so that an `if` around them decides at random."""

IMAGE = lazy_pattern(r"(?i)(?:^|_)(?:im|img|image|picture|photo|scan|slice)s?\d?$")
MASK = lazy_pattern(r"(?i)(?:^|_)(?:mask|segmentation|segmap|gt|ground_truth|depth)s?\d?$")
SEEDS = lazy_pattern(r"seed|rng_state|get_params|get_replay")
RANDOM = lazy_pattern(r"rand")


@dataclass(frozen=True, slots=True)
class MovedImage:
    """A move of an image that its mask does not get: where, what moves it, the image and the mask."""

    location: Location
    move: str
    image: str
    mask: str


def moved_alone(source: Source) -> Iterator[MovedImage]:
    """The moves of images in functions that return the image and its mask as a pair."""
    if not source.contains(r"random_flip_|random_crop|flip|rot90|mirror|Random") or not source.contains(
        r"(?i)mask|gt|depth"
    ):
        return
    for function in source.nodes_of(ast.FunctionDef):
        pair = _pair_returned(function)
        if pair is not None and not SEEDS.search(unparse(function)):
            found = _moved(function, *pair)
            if found is not None:
                yield MovedImage(source.location(found), last_name(found.func) or last_name(_inner(found)) or "", *pair)


def _inner(call: ast.Call) -> ast.expr:
    return call.func.func if isinstance(call.func, ast.Call) else call.func


def _pair_returned(function: ast.FunctionDef) -> tuple[str, str] | None:
    """The names of an image and its mask that a function returns together."""
    for node in walk(function):
        match node:
            case ast.Return(value=ast.Tuple(elts=[ast.Name(id=image), ast.Name(id=mask), *_])) if IMAGE.search(
                image
            ) and MASK.search(mask):
                return image, mask
            case _:
                pass
    return None


def _moved(function: ast.FunctionDef, image: str, mask: str) -> ast.Call | None:
    """The first move of the image alone; None if any call gets both, or the function handles the mask otherwise."""
    nodes = walk(function)
    for node in nodes:
        if (isinstance(node, ast.Call) and {image, mask} <= _names(node)) or _is_joint(node, image, mask):
            return None
    for call in (each for each in nodes if isinstance(each, ast.Call) and each.args):
        if image in _names(call.args[0]) and _draws_alone(call):
            return call
    tests = [each for each in nodes if isinstance(each, ast.If) and RANDOM.search(unparse(each.test))]
    for block in tests:
        # One random number may be asked about twice, for the image and for the mask.
        same = [each for each in tests if unparse(each.test) == unparse(block.test) and "(" not in unparse(each.test)]
        inside = [part for each in {block, *same} for statement in each.body for part in walk(statement)]
        moves = [each for each in inside if isinstance(each, ast.Call) and last_name(each.func) in MOVES]
        of_image = [each for each in moves if image in _names(each)]
        if of_image and not _names_any(inside, mask):
            return of_image[0]
    return None


def _is_joint(node: ast.AST, image: str, mask: str) -> bool:
    """Whether a loop or a list goes through both: `for each in (image, mask)`, `[image, mask]`."""
    if isinstance(node, ast.List | ast.Set | ast.Dict):
        return {image, mask} <= _names(node)
    return isinstance(node, ast.For | ast.comprehension) and {image, mask} <= _names(node.iter)


def _draws_alone(call: ast.Call) -> bool:
    """Whether a call moves an image by random numbers of its own."""
    is_made_here = isinstance(call.func, ast.Call) and LAYERS.search(unparse(call.func)) is not None
    return last_name(call.func) in DRAWS or is_made_here


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _names_any(nodes: Sequence[ast.AST], name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in nodes)
