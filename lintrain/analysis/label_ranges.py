"""The numbers that the labels of a loss have, where the code that makes them says it: classes, and ignored rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import expressions, origins
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Tensor
from lintrain.source import places
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CLASSES = {
    "MNIST": 10, "FashionMNIST": 10, "KMNIST": 10, "QMNIST": 10, "CIFAR10": 10, "CIFAR100": 100, "SVHN": 10,
    "Flowers102": 102, "Food101": 101, "StanfordCars": 196, "GTSRB": 43, "EuroSAT": 10, "DTD": 47, "FGVCAircraft": 100,
    "Country211": 211, "SUN397": 397, "Imagenette": 10, "FER2013": 7, "PCAM": 2, "OxfordIIITPet": 37, "Places365": 365,
}  # fmt: skip
"""The numbers of classes of data sets of torchvision 0.28, whose labels count from 0."""

LETTERS = {"letters": (1, 26), "balanced": (0, 46), "bymerge": (0, 46), "byclass": (0, 61), "digits": (0, 9)}
"""The labels of the splits of EMNIST."""

DEFAULT_IGNORED = -100


@dataclass(frozen=True, slots=True)
class LabelRange:
    """The least and the largest class number of some labels, and where they are made."""

    least: int
    most: int
    made: Location


def range_of(pipeline: Pipeline, labels: Tensor, ignored: object) -> LabelRange | None:
    """The class numbers of labels that nothing has changed since they were made; None where they are not known."""
    made = labels.made
    if made is None or made.location is None or made.name != "data":
        return None
    found = expressions.call_at(pipeline, made.location)
    tree = ast.parse(found.code, mode="eval").body if found is not None else None
    if not isinstance(tree, ast.Call):
        return None
    if any(_is_written(pipeline.source, binding.name) for binding in pipeline.names_of(labels)):
        return None
    bounds = _of_call(tree, DEFAULT_IGNORED if not isinstance(ignored, int) else ignored)
    return LabelRange(*bounds, made.location) if bounds is not None else None


def _is_written(source: Source, name: str) -> bool:
    """Whether a script writes entries of what has this name: `labels[labels != 3] = 0`."""
    return source.contains(rf"(?<![\w.]){re.escape(name)}\[[^\n]*\]\s*=(?!=)")


def _of_call(call: ast.Call, ignored: int) -> tuple[int, int] | None:
    name = unparse(call.func).rpartition(".")[2]
    given = {each.arg: each.value for each in call.keywords}
    if name == "randint":
        return _of_random(call)
    if name in {"tensor", "LongTensor"} and len(call.args) == 1:
        return _of_numbers(call.args[0], ignored)
    if "target_transform" in given or None in given:
        return None
    if name == "EMNIST":
        split = given.get("split", call.args[1] if len(call.args) > 1 else None)
        return LETTERS.get(str(split.value)) if isinstance(split, ast.Constant) else None
    return (0, CLASSES[name] - 1) if name in CLASSES else None


def _of_random(call: ast.Call) -> tuple[int, int] | None:
    """`randint(high, sizes)` and `randint(low, high, sizes)` of torch; so many that all numbers are among them."""
    numbers = [_number(each) for each in call.args if not isinstance(each, ast.Tuple | ast.List)]
    if None in numbers or len(numbers) not in {1, 2} or any(each.arg in {"low", "high"} for each in call.keywords):
        return None
    low, high = (0, numbers[0]) if len(numbers) == 1 else numbers
    return (low, high - 1) if low is not None and high is not None and low < high else None


def _of_numbers(node: ast.expr, ignored: int) -> tuple[int, int] | None:
    if not isinstance(node, ast.List | ast.Tuple):
        return None
    leaves = [each for each in walk(node) if not isinstance(each, ast.List | ast.Tuple | ast.Load)]
    numbers = [_number(each) for each in leaves if isinstance(each, ast.Constant | ast.UnaryOp)]
    signed = {id(each.operand) for each in leaves if isinstance(each, ast.UnaryOp)}
    plain = [_number(each) for each in leaves if isinstance(each, ast.expr) and id(each) not in signed]
    known = [each for each in plain if each is not None and each != ignored]
    return (min(known), max(known)) if known and None not in numbers and None not in plain else None


def _number(node: ast.AST) -> int | None:
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
        case _:
            return None


@dataclass(frozen=True, slots=True)
class MaskedLabels:
    """Labels that are a copy of the token ids, of which some are set to a number: where, the name, and the number."""

    location: Location
    name: str
    number: int


LABEL_NAME = lazy_pattern(r"(?:^|_)(?:labels?|targets?)$")
COPIES = lazy_pattern(r"^[\w.\[\]'\"]+\.clone\(\)$|^(?:copy\.)?(?:deep)?copy\(|^np\.copy\(|^[\w.\[\]'\"]+\.copy\(\)$")


def masked_labels(source: Source) -> Iterator[MaskedLabels]:
    """The last numbers that functions write into copies of token ids under a mask: 0, or a negative one but -100."""
    for function in source.nodes_of(ast.FunctionDef):
        nodes = own_nodes(function)
        for name in source.once(_copied_names, function):
            writes = [each for each in map(_write_under_mask, nodes) if each is not None and each[1] == name]
            if not writes or any(number == DEFAULT_IGNORED for _, _, number in writes):
                continue
            node, _, number = max(writes, key=lambda each: each[0].lineno)
            is_row = _returns_row(nodes, name)
            if is_row or number < 0:
                yield MaskedLabels(source.location(node), name, number)


def _copied_names(function: ast.FunctionDef) -> list[str]:
    """The names of labels that a function binds to a copy of something else."""
    found: list[str] = []
    for node in own_nodes(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value):
                if LABEL_NAME.search(name) and COPIES.search(unparse(value)):
                    found.append(name)
            case _:
                pass
    return found


def _write_under_mask(node: ast.AST) -> tuple[ast.Assign, str, int] | None:
    """`labels[~mask] = 0`: the assignment, the name, and a whole number that is no label by itself."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=index)], value=value):
            number = _whole_number(value)
            is_mask = isinstance(index, ast.UnaryOp | ast.Name | ast.Compare)
            return (node, name, number) if number is not None and number <= 0 and is_mask else None
        case _:
            return None


def _whole_number(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(node.value, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case _:
            return None


def _returns_row(nodes: Sequence[ast.AST], name: str) -> bool:
    """Whether a function returns a row for a language model: a dictionary with token ids and these labels."""
    return any(
        isinstance(node, ast.Return)
        and isinstance(node.value, ast.Dict)
        and {"input_ids", "labels"} <= {each.value for each in node.value.keys if isinstance(each, ast.Constant)}
        and name in unparse(node.value)
        for node in nodes
    )


@dataclass(frozen=True, slots=True)
class NegativePixels:
    """Images as the targets of a binary cross-entropy, which a transform moves below zero: its call, and their name."""

    normalized: Location
    name: str


KEEPS = frozenset({"view", "reshape", "flatten", "to", "cuda", "float", "detach", "clone", "contiguous", "squeeze"})
"""Methods that leave the numbers of an image what they are."""


def negative_pixels(source: Source, target: Location) -> NegativePixels | None:
    """Whether the target of a loss is the images of a batch, all of which go through `Normalize`."""
    lists = [call for call in source.nodes_of(ast.Call) if unparse(call.func).rpartition(".")[2] == "Compose"]
    normalized = [found for each in lists if (found := _normalize_in(each)) is not None]
    node = places.expression_at(source, target) if lists and len(normalized) == len(lists) else None
    if node is None:
        return None
    name = _image_of(source, node)
    return NegativePixels(source.location(normalized[0]), name) if name else None


def _normalize_in(compose: ast.Call) -> ast.Call | None:
    """The transform of a list that subtracts a mean above zero from pixels from 0 to 1."""
    for call in walk(compose):
        if isinstance(call, ast.Call) and unparse(call.func).rpartition(".")[2] == "Normalize" and call.args:
            means = [each.value for each in walk(call.args[0]) if isinstance(each, ast.Constant)]
            return call if any(isinstance(each, float) and each > 0 for each in means) else None
    return None


def _image_of(source: Source, node: ast.expr, steps: int = 6) -> str:
    """The name of the images that a loop over a loader gives, of which an expression holds the numbers as they are."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in KEEPS:
            return _image_of(source, inner, steps)
        case ast.Call(func=ast.Name(id="Variable"), args=[inner]):
            return _image_of(source, inner, steps)
        case ast.Name(id=name):
            found = [each for each in origins.origins(source, node) if each.expression is not node]
            made = found[0].expression if found and found[0].is_certain else None
            if steps and made is not None and (image := _image_of(source, made, steps - 1)):
                return image
            loops = [each for each in source.nodes_of(ast.For) if any(part is node for part in walk(each))]
            return name if any(_first_of_pair(each.target) == name for each in loops) else ""
        case _:
            return ""


def _first_of_pair(target: ast.expr) -> str:
    """The name of the images in `for images, labels in loader`, also with a counter before them."""
    match target:
        case ast.Tuple(elts=[_, ast.Tuple() as pair]):
            return _first_of_pair(pair)
        case ast.Tuple(elts=[ast.Name(id=name), ast.Name()]):
            return name
        case _:
            return ""


@dataclass(frozen=True, slots=True)
class NoBackground:
    """A detector with as many outputs as a list has names, none of which is the background."""

    location: Location
    code: str
    names: Location


DETECTORS = re.compile(r"(?:FastRCNNPredictor|MaskRCNNPredictor|(?:faster|mask)rcnn_\w+)$")
BACKGROUND = re.compile(r"background|^bg$|^_+|none|void", re.IGNORECASE)


def _detectors(statement: ast.stmt) -> list[ast.Call]:
    return [each for each in walk(statement) if isinstance(each, ast.Call) and DETECTORS.search(unparse(each.func))]


def without_background(source: Source) -> Iterator[NoBackground]:
    """The heads of torchvision's detectors that count a list of names, whose class 0 is the background."""
    for call in source.gathered(_detectors):
        given = [each.value for each in call.keywords if each.arg == "num_classes"] or call.args[1:]
        for count in given[-1:]:
            match count:
                case ast.Name():
                    made = [each for each in origins.origins(source, count) if each.expression is not count]
                    node = made[0].expression if made and made[0].is_certain else None
                case _:
                    node = count
            match node:
                case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
                    names = [each.value for each in source.nodes_of(ast.Assign) if unparse(each.targets[0]) == name]
                case _:
                    continue
            if len(names) == 1 and isinstance(names[0], ast.List) and _are_classes(names[0]):
                yield NoBackground(source.location(count), unparse(node), source.location(names[0]))


def _are_classes(names: ast.List) -> bool:
    """Whether a list has names of classes only, without one for the background."""
    values = [each.value for each in names.elts if isinstance(each, ast.Constant)]
    texts = [each for each in values if isinstance(each, str)]
    return 0 < len(texts) == len(names.elts) and not any(BACKGROUND.search(each) for each in texts)
