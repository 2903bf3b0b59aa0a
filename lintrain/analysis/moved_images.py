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

MOVES = frozenset(
    {"hflip", "vflip", "fliplr", "flipud", "flip", "rot90", "mirror", "rotate", "affine", "resized_crop"}
    | {"horizontal_flip", "vertical_flip", "flip_left_right", "flip_up_down"}
)
"""Functions that always move an image, so that an `if` around them decides at random."""

TURNS = lazy_pattern(r"FLIP_|ROTATE_")
"""Arguments with which Pillow's `transpose` moves an image."""

IMAGE = lazy_pattern(r"^(?:[a-z]\w*_)?(?:im|img|image|picture|photo|scan|slice)s?\d?$")
MASK = lazy_pattern(
    r"(?i)(?:^|_)(?:mask|segmentation|segmap|gt|ground_truth|depth)s?\d?$"
    r"|^(?:\w+_)?(?:boxes|bboxes|keypoints|landmarks)\d?$"
)
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
        r"(?i)mask|gt|depth|segm|ground_truth|boxes|keypoints|landmarks"
    ):
        return
    for function in source.nodes_of(ast.FunctionDef):
        pair = _pair_returned(function)
        if pair is not None and not SEEDS.search(unparse(function)):
            images, masks = pair
            found = _moved(function, images, masks)
            named = sorted(filter(MASK.search, masks))
            if found is not None and named:
                image = min(images & _names(found))
                yield MovedImage(source.location(found), _name_of(found), image, named[0])


def _name_of(move: ast.expr) -> str:
    """What moves an image: the name of the function, or the code of a slice that turns an axis around."""
    if isinstance(move, ast.Call):
        return last_name(move.func) or last_name(_inner(move)) or ""
    return unparse(move)


def _inner(call: ast.Call) -> ast.expr:
    return call.func.func if isinstance(call.func, ast.Call) else call.func


def _pair_returned(function: ast.FunctionDef) -> tuple[set[str], set[str]] | None:
    """The names that a function gives to an image and to its mask, which it returns together.

    They may be returned in another form: `return to_tensor(image), target` with `target = torch.from_numpy(mask)`.
    """
    nodes = walk(function)
    for node in nodes:
        match node:
            case (
                ast.Return(value=ast.Tuple(elts=[image, mask, *_]))
                | ast.Return(value=ast.Dict(values=[image, mask, *_]))
            ):
                of_image, of_mask = (_followed(nodes, each) for each in (image, mask))
                images = {each for each in of_image if IMAGE.search(each)}
                is_mixed = any(map(MASK.search, of_image)) or not images.isdisjoint(of_mask)
                if images and any(map(MASK.search, of_mask)) and not is_mixed:
                    own = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
                    own |= {each.arg for each in nodes if isinstance(each, ast.arg)}
                    return images, (of_mask & own) - of_image
            case _:
                pass
    return None


def _followed(nodes: Sequence[ast.AST], expression: ast.expr) -> set[str]:
    """The names in an expression, and those that they were computed from."""
    found, waiting = set[str](), list(_names(expression))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    waiting += _names(value)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                    pairs = zip(targets, values, strict=False)
                    waiting += [each for target, value in pairs if unparse(target) == name for each in _names(value)]
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if name in map(unparse, targets):
                    waiting += _names(value)
                case _:
                    pass
    return found


def _moved(function: ast.FunctionDef, images: set[str], masks: set[str]) -> ast.expr | None:
    """The first move of the image alone; None if any call gets both, or the function handles the mask otherwise."""
    nodes = walk(function)
    for node in nodes:
        names = _names(node) if isinstance(node, ast.Call) else set[str]()
        if (names & images and names & masks) or _is_joint(node, images, masks):
            return None
    for call in (each for each in nodes if isinstance(each, ast.Call) and each.args):
        if images & _names(call.args[0]) and _draws_alone(call):
            return call
    tests = [each for each in nodes if isinstance(each, ast.If) and _is_random(nodes, each.test)]
    for block in tests:
        # One random number may be asked about twice, for the image and for the mask.
        same = [each for each in tests if unparse(each.test) == unparse(block.test) and "(" not in unparse(each.test)]
        inside = [part for each in {block, *same} for statement in each.body for part in walk(statement)]
        of_image = [each for each in inside if isinstance(each, ast.expr) and _moves(each) and images & _names(each)]
        if of_image and not any(_names_any(inside, mask) for mask in masks):
            return of_image[0]
    return None


def _is_random(nodes: Sequence[ast.AST], test: ast.expr) -> bool:
    """Whether a test asks about a random number, which may have a name."""
    if RANDOM.search(unparse(test)):
        return True
    drawn = (each for each in nodes if isinstance(each, ast.Assign) and RANDOM.search(unparse(each.value)))
    return any(unparse(target) in _names(test) for each in drawn for target in each.targets)


def _moves(node: ast.expr) -> bool:
    """Whether an expression is a moved image: `hflip(image)`, `image.transpose(Image.FLIP_LEFT_RIGHT)`."""
    match node:
        case ast.Call(func=called):
            name = last_name(called)
            return name in MOVES or (name == "transpose" and TURNS.search(unparse(node)) is not None)
        case ast.Subscript(slice=cut):
            axes = cut.elts if isinstance(cut, ast.Tuple) else [cut]
            steps = [each.step for each in axes if isinstance(each, ast.Slice) and each.step is not None]
            return len(axes) > 1 and any(unparse(each) == "-1" for each in steps) and not _is_of_colors(axes)
        case _:
            return False


def _is_of_colors(axes: Sequence[ast.expr]) -> bool:
    """Whether only the last axis of three, or the one behind an ellipsis, is turned: `image[..., ::-1]`."""
    turned = [isinstance(each, ast.Slice) and each.step is not None for each in axes]
    return (len(axes) > 2 or unparse(axes[0]) in {"...", "Ellipsis"}) and turned[-1] and not any(turned[:-1])


def _is_joint(node: ast.AST, images: set[str], masks: set[str]) -> bool:
    """Whether a loop or a list goes through both: `for each in (image, mask)`, `[image, mask]`."""
    match node:
        case ast.List() | ast.Set():
            names = _names(node)
        case ast.For(iter=over) | ast.comprehension(iter=over):
            names = _names(over)
        case _:
            return False
    return bool(names & images and names & masks)


def _draws_alone(call: ast.Call) -> bool:
    """Whether a call moves an image by random numbers of its own."""
    is_made_here = isinstance(call.func, ast.Call) and LAYERS.search(unparse(call.func)) is not None
    return last_name(call.func) in DRAWS or is_made_here


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _names_any(nodes: Sequence[ast.AST], name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in nodes)
