"""Rows and labels that no longer belong together: one of the two is shuffled, and both train a network.

    np.random.shuffle(labels)
    model.fit(inputs, labels)

Where both are shuffled, their order may be the same, so nothing is said.

A generator of Keras shuffles the files of a directory, while its `classes` stay in the order of the files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SHUFFLES = frozenset({"random.shuffle", "np.random.shuffle", "numpy.random.shuffle", "shuffle", "rng.shuffle"})
PERMUTES = frozenset({"np.random.permutation", "numpy.random.permutation", "rng.permutation"})
CONVERTS = frozenset({"array", "asarray", "list", "tensor", "from_numpy", "to_categorical", "float", "long", "astype"})
"""Functions that keep the order of what they get."""

TRAINS = frozenset({"fit", "TensorDataset"})
MEANT = lazy_pattern(r"perm|null|random|chance|baseline|shuf")
"""Names of code that takes the labels apart on purpose."""


@dataclass(frozen=True, slots=True)
class Parted:
    """A list that is shuffled without the other: where, its name, the other, and where both train."""

    location: Location
    name: str
    other: str
    trained: Location


def parted(source: Source) -> Iterator[Parted]:
    """The shuffles of one of two lists that a network is trained on in their order."""
    if "shuffle(" not in source.text and "permutation(" not in source.text:
        return
    shuffled = dict(_shuffled(source))
    bound = [each for node in source.nodes_of(ast.Assign) for each in _singly(node)]
    for call in source.nodes_of(ast.Call):
        if last_name(call.func) not in TRAINS or len(call.args) < 2:
            continue
        pair = [each.id for each in call.args[:2] if isinstance(each, ast.Name)]
        if len(pair) != 2 or pair[0] == pair[1]:
            continue
        for name, other in (pair, pair[::-1]):
            moment = shuffled.get(name)
            is_single = moment is not None and other not in shuffled and moment.lineno < call.lineno
            if moment is None or not is_single or MEANT.search(f"{name} {other}"):
                continue
            if _keeps_order(bound, name, moment, call) and _is_older(bound, other, moment):
                yield Parted(source.location(moment), name, other, source.location(call))


def _singly(node: ast.Assign) -> Iterator[ast.Assign]:
    """An assignment, or each of the pairs that it makes."""
    match node:
        case ast.Assign(targets=[ast.Name()]):
            yield node
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            for name, value in zip(names, values, strict=True):
                yield ast.copy_location(ast.Assign([name], value), node)
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
            for name in names:
                yield ast.copy_location(ast.Assign([name], value), node)
        case _:
            pass


def _shuffled(source: Source) -> Iterator[tuple[str, ast.stmt]]:
    """The names that a statement outside of any function puts into a random order."""
    for node in source.tree.body:
        match node:
            case ast.Expr(value=ast.Call(func=func, args=[ast.Name(id=name)])) if unparse(func) in SHUFFLES:
                yield name, node
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func, args=[ast.Name(id=same)])) if (
                name == same and unparse(func) in PERMUTES
            ):
                yield name, node
            case _:
                pass


def _keeps_order(bound: list[ast.Assign], name: str, moment: ast.stmt, call: ast.Call) -> bool:
    """Whether a name holds the same rows from its shuffle to the training."""
    later = [node for node in bound if moment.lineno < node.lineno < call.lineno and unparse(node.targets[0]) == name]
    return all(_converts(node.value, name) for node in later)


def _converts(value: ast.expr, name: str) -> bool:
    match value:
        case ast.Call(func=func, args=[ast.Name(id=same), *_]):
            return same == name and last_name(func) in CONVERTS
        case ast.Call(func=ast.Attribute(value=ast.Name(id=same))):
            return same == name and last_name(value.func) in CONVERTS
        case _:
            return False


def _is_older(bound: list[ast.Assign], other: str, moment: ast.stmt) -> bool:
    """Whether the other list was there before the shuffle, and is only converted after it."""
    values = [node for node in bound if unparse(node.targets[0]) == other]
    after = [node for node in values if node.lineno > moment.lineno]
    is_old = any(node.lineno < moment.lineno for node in values)
    return is_old and all(_converts(node.value, other) for node in after)


METRICS = frozenset(
    {
        "classification_report", "confusion_matrix", "accuracy_score", "f1_score", "precision_score", "recall_score",
        "roc_auc_score", "roc_curve", "precision_recall_curve", "cohen_kappa_score", "matthews_corrcoef",
    }
)  # fmt: skip
READERS = frozenset({"flow_from_directory", "flow_from_dataframe"})
DIRECTORY = "image_dataset_from_directory"
PREDICTS = frozenset({"predict", "predict_generator"})


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """The labels of shuffled images that are compared with their predictions: where, the images, where these are made.

    `is_read_again` if the labels are read in another pass over the images, which has another order.
    """

    location: Location
    images: str
    made: Location
    is_read_again: bool


def shuffled_predictions(source: Source) -> Iterator[OutOfOrder]:
    """The labels that a metric compares with predictions which are in another order."""
    made = source.cached(_shuffled_images)
    if not made or not any(_called(call) in METRICS for call in source.nodes_of(ast.Call)):
        return
    calls = source.nodes_of(ast.Call)
    predicted = {unparse(call.args[0]) for call in calls if _called(call) in PREDICTS and call.args}
    for node in source.nodes_of(ast.Attribute):
        images = unparse(node.value)
        is_read = node.attr in {"classes", "labels"} and images in made and images in predicted
        if is_read and _called(made[images]) in READERS and _meets_metric(source, node):
            yield OutOfOrder(source.location(node), images, source.location(made[images]), False)
    for listed in source.nodes_of(ast.ListComp):
        images, target = unparse(listed.generators[0].iter), listed.generators[0].target
        is_read = isinstance(target, ast.Tuple) and images in made and images in predicted
        if is_read and _called(made[images]) == DIRECTORY and not _predicts_within(listed):
            yield OutOfOrder(source.location(listed), images, source.location(made[images]), True)


def _called(call: ast.Call) -> str:
    return last_name(call.func) or ""


def _shuffled_images(source: Source) -> dict[str, ast.Call]:
    """The images that are read in a random order, by the code of what each assignment gives them to."""
    found: dict[str, ast.Call] = {}
    others: set[str] = set()
    for node in source.nodes_of(ast.Assign):
        code = unparse(node.targets[0])
        if isinstance(node.value, ast.Call) and _called(node.value) in READERS | {DIRECTORY}:
            named = {each.arg: unparse(each.value) for each in node.value.keywords}
            is_shuffled = None not in named and named.get("shuffle", "True") == "True" and len(node.value.args) < 2
            (found.setdefault(code, node.value) if is_shuffled else others.add(code))
        elif code.rpartition(".")[2] in {"shuffle", "index_array"}:
            others.add(code.rpartition(".")[0])
        else:
            others.add(code)
    return {} if _reads_order(source) else {code: call for code, call in found.items() if code not in others}


def _reads_order(source: Source) -> bool:
    """Whether the order of shuffled images is read, and for more than to print what it gives."""
    if "index_array" not in source.text:
        return False
    shown = {id(each) for call in source.nodes_of(ast.Call) if _called(call) == "print" for each in call.args}
    others = [each for each in source.nodes_of(ast.Attribute) if each.attr == "index_array" and id(each) not in shown]
    read = {each.id for each in source.nodes_of(ast.Name) if isinstance(each.ctx, ast.Load) and id(each) not in shown}
    for assign in source.nodes_of(ast.Assign):
        match assign.targets[0]:
            case ast.Name(id=name) if name not in read:
                others = [each for each in others if not any(part is each for part in walk(assign.value))]
            case _:
                pass
    return bool(others)


def _meets_metric(source: Source, node: ast.Attribute) -> bool:
    """Whether labels are given to a metric, themselves or under the name that they are assigned to."""
    names: set[str] = set()
    for assign in source.nodes_of(ast.Assign):
        if any(each is node for each in walk(assign.value)):
            names |= {unparse(target) for target in assign.targets if isinstance(target, ast.Name)}
    calls = (call for call in source.nodes_of(ast.Call) if _called(call) in METRICS)
    given = (each for call in calls for each in (*call.args, *(keyword.value for keyword in call.keywords)))
    return any(each is node or unparse(each) in names for each in given)


def _predicts_within(node: ast.ListComp) -> bool:
    return any(isinstance(each, ast.Call) and _called(each) in PREDICTS for each in walk(node))
