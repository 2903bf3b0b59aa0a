"""Labels of images that are read in another order than their predictions: of a generator, or in a second pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import handed_on, tf_datasets
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

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
    if not _may_shuffle(source) or not any(_called(call) in METRICS for call in source.nodes_of(ast.Call)):
        return
    if _reads_order(source):
        return
    calls = source.nodes_of(ast.Call)
    makers = {call: _shuffled(source, call.args[0]) for call in calls if _called(call) in PREDICTS and call.args}
    predicted = {id(maker) for maker in makers.values() if maker is not None}
    for node in source.nodes_of(ast.Attribute) if predicted else ():
        made = _shuffled(source, node.value) if node.attr in {"classes", "labels"} else None
        if made is not None and id(made) in predicted and _called(made) in READERS and _meets_metric(source, node):
            yield OutOfOrder(source.location(node), unparse(node.value), source.location(made), False)
    for rows, location in _passes(source) if predicted else ():
        made = _shuffled(source, rows)
        if made is not None and id(made) in predicted and _called(made) not in READERS:
            yield OutOfOrder(location, unparse(rows), source.location(made), True)


def _may_shuffle(source: Source) -> bool:
    return source.contains(rf"{'|'.join(READERS)}|{DIRECTORY}|\.shuffle\(")


def _passes(source: Source) -> Iterator[tuple[ast.expr, Location]]:
    """The passes over rows that only collect their labels."""
    for listed in source.nodes_of(ast.ListComp):
        if isinstance(listed.generators[0].target, ast.Tuple) and not _predicts_within(listed):
            yield listed.generators[0].iter, source.location(listed)
    for loop in source.nodes_of(ast.For):
        match loop:
            case ast.For(target=ast.Tuple(elts=[ast.Name(id=images), ast.Name(id=labels)]), body=[statement]):
                code = unparse(statement)
                is_kept = (
                    any(f"{way}({labels}" in code for way in (".append", ".extend")) or f"+= list({labels}" in code
                )
                if is_kept and images not in {each.id for each in walk(statement) if isinstance(each, ast.Name)}:
                    yield loop.iter, source.location(loop.iter)
            case _:
                pass


def _called(call: ast.Call) -> str:
    return last_name(call.func)


def _shuffled(source: Source, rows: ast.expr) -> ast.Call | None:
    """The call that gives rows another order in each pass, if nothing keeps one; of a generator, the call of it."""
    for call in tf_datasets.made_by(source, rows):
        name = _called(call)
        if name in {"cache", "take", "skip"}:
            return None
        if name == "shuffle":
            return call if not tf_datasets.keeps_order(call) else None
        if name in READERS or name == DIRECTORY:
            is_changed = source.contains(r"\.shuffle *=[^=]")  # `images.shuffle = False`
            return call if _is_shuffled(source, call) and not is_changed else None
    return None


def _is_shuffled(source: Source, call: ast.Call) -> bool:
    """Whether a call of Keras shuffles the images of a directory: it does by default."""
    named: dict[str | None, str] = {}
    for each in call.keywords:
        named |= {each.arg: unparse(each.value)} if each.arg is not None else _spread(source, each.value)
    return None not in named and named.get("shuffle", "True") == "True" and len(call.args) < 2


def _spread(source: Source, node: ast.expr) -> dict[str | None, str]:
    """The arguments in `**common`; with None among them if they are not known."""
    made = handed_on.given_to(source, node) if isinstance(node, ast.Name | ast.Attribute) else node
    match made:
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=given):
            return {each.arg: unparse(each.value) for each in given}
        case ast.Dict(keys=keys, values=values):
            names = [unparse(each).strip("'") if isinstance(each, ast.Constant) else None for each in keys]
            return {name: unparse(value) for name, value in zip(names, values, strict=True)}
        case _:
            return {None: ""}


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
