"""Gradients in the hands of code: what changes or computes them, and how many batches a step accumulates."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis.built_layers import last_name
from lintrain.interpreter.grad_modes import CHANGES
from lintrain.knowledge.target import Targets, Version
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import Constant, Function, Instance, is_missing, literal, number_of, text_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.evidence.run import Evidence


REPORTS = lazy_pattern(
    r"(^|\.)(print|log\w*|add_(histogram|scalar\w*)|append|info|debug|write|warning|update_metrics?)$", re.IGNORECASE
)
"""Functions that report what they are given."""

REDUCES = frozenset({"norm", "item", "mean", "sum", "max", "min", "isnan", "isfinite", "isinf", "std", "median"})
"""Methods and functions whose result is a number about a gradient, and no gradient."""


def handled(pipeline: Pipeline) -> frozenset[int]:
    """The events, by their order, in which a script changes gradients, computes them, or hands them on."""
    return pipeline.cached(_handled, pipeline)


def handles(pipeline: Pipeline, event: Event) -> bool:
    """Whether an event is one of those: reading `p.grad` for a histogram is not."""
    return event.act is Act.GRADIENT and event.order in handled(pipeline)


def _handled(pipeline: Pipeline, _: Pipeline) -> frozenset[int]:
    return frozenset(event.order for event in pipeline.acts(Act.GRADIENT) if not _only_looks(pipeline, event))


PENALTY = lazy_pattern(r"(\w+\.)*grad\(.*\bcreate_graph *= *True\b", re.DOTALL)
"""A gradient that becomes a term of the loss, as a penalty: the call writes no `.grad`."""


def _only_looks(pipeline: Pipeline, event: Event) -> bool:
    if PENALTY.match(pipeline.code(event.location)):
        return True
    match blocks.statement_at(pipeline, event.location):
        # The innermost statement: the gradient is in its test.
        case ast.If() | ast.While() | ast.Assert():
            return True
        case ast.Expr(value=ast.Call(func=callee)):
            return REPORTS.search(unparse(callee)) is not None
        case (
            ast.Assign(targets=[ast.Name()], value=value)
            | ast.AugAssign(target=ast.Name(), value=value)
            | ast.Return(value=ast.expr() as value)
        ):
            return any(_reduces(node) for node in walk(value))
        case _:
            return False


def _reduces(node: ast.AST) -> bool:
    """Whether a node makes a number of what contains a gradient."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in REDUCES and ".grad" in unparse(node)
        case _:
            return False


TOLERANCE = 0.15
"""Tolerance of a measured ratio: the number of ignored labels differs from batch to batch."""

LOSS_METHODS = frozenset({"compute_loss", "training_step", "get_batch_samples", "_get_num_items_in_batch"})
"""Methods of Trainer with which a subclass can change the loss of a step."""

SCALING_ATTRIBUTES = frozenset({"loss_is_scaled_for_ga", "model_accepts_loss_kwargs"})
"""Attributes of Trainer that decide whether it divides by the number of batches."""

EVERY_HEAD = {
    Task.SEQUENCE_CLASSIFICATION: re.compile(r"esm|zamba"),
    Task.TOKEN_CLASSIFICATION: re.compile(r"esm"),
    Task.MULTIPLE_CHOICE: re.compile(r"esm"),
}
"""Tasks whose heads always average over one batch, except in these families.

Counted over the modelling files of transformers 5.0, 5.8, 5.16 and 5.23; measured for 60 heads on 5.23.
"""

SETS_LOSS_KWARGS = lazy_pattern(r"esm|mlcd|timm|convnext|vl|gemma-?[34]|gemma3|glm|paligemma|video")
"""Families with classes that set `accepts_loss_kwargs = False`, and related ones."""

SOME_HEADS = {
    Task.MASKED_LM: re.compile(
        r"(?:distil|al|camem)?bert(?:-|for)|(?:distil|xlm-?)?roberta|m?deberta|electra|mpnet|camembert"
    ),
    Task.SEQ2SEQ_LM: re.compile(
        r"m?bart|(?:flan-|m|long-?)?t5(?!gemma)|pegasus|opus-mt|marian|m2m100|nllb|blenderbot|led(?:-|for)"
    ),
}
"""Tasks whose heads average over one batch only in these families."""


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The number of batches in a step, as the script certainly sets it."""

    steps: int
    location: Location


def accumulation_of(run: TrainerRun) -> Accumulation | None:
    """The accumulation in a run's arguments; None if there is none or it is not certain."""
    settings = run.settings
    steps = literal(settings.value("gradient_accumulation_steps")) if settings else None
    location = settings.locations.get("gradient_accumulation_steps") if settings else None
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 2 or location is None:
        return None
    return Accumulation(steps, location)


def is_since(targets: Targets, package: str, version: Version) -> bool:
    """Whether all versions of a package that the project supports are this one or newer."""
    target = targets.get(package)
    return target is not None and all(each >= version for each in target.versions)


def declares_loss_scaling(run: TrainerRun) -> bool:
    """Whether the script sets on the trainer or the model what divides the loss by the number of batches."""
    set_on_trainer = {*run.overrides, *run.attributes, *(run.instance.attributes if run.instance else ())}
    model = run.model
    set_on_model = bool(model and {"accepts_loss_kwargs", "forward", "loss_function"} & set(model.attributes))
    return bool(SCALING_ATTRIBUTES & set_on_trainer) or set_on_model


def smooths_labels(run: TrainerRun) -> bool:
    """Whether the Trainer may compute the loss itself, with smoothed labels."""
    given = run.settings.value("label_smoothing_factor") if run.settings else None
    return given is not None and not is_missing(given) and not (isinstance(given, Constant) and number_of(given) == 0)


def averages_each_batch(model: Model) -> bool:
    """Whether the head certainly averages over its own batch, although its `**kwargs` make the Trainer expect more.

    This holds since transformers 5: earlier, most of these heads had no `**kwargs`, and the Trainer divided.
    """
    if not model.path.startswith("transformers.") or model.framework != "torch" or _may_have_remote_code(model):
        return False
    family = family_of(model)
    if model.task in EVERY_HEAD:
        return family is not None and not EVERY_HEAD[model.task].search(family)
    return family is not None and model.task in SOME_HEADS and bool(SOME_HEADS[model.task].match(family))


def _may_have_remote_code(model: Model) -> bool:
    """Whether the checkpoint may contain its own model class."""
    return not is_missing(model.arguments.get("trust_remote_code", Constant(None))) or not model.is_complete


def family_of(model: Model) -> str | None:
    """The name that contains a model's family, in lower case: its class, or its checkpoint for an Auto class."""
    if not model.name.startswith("Auto"):
        return model.name.lower()
    checkpoint = text_of(model.checkpoint)
    if checkpoint is None or (isinstance(model.checkpoint, Constant) and model.checkpoint.may_differ):
        return None
    return checkpoint.lower().rpartition("/")[2]


def verdict_on_accumulation(evidence: Evidence) -> Verdict:
    """The verdict on undivided losses, from the gradients of one batch as a whole and in parts."""
    asked, measured = evidence.arguments.get("gradient_accumulation_steps"), evidence.accumulation
    if isinstance(asked, int) and asked < 2:
        return Verdict.refuted(f"each step uses {asked} batch")
    if measured is None:
        return Verdict.inconclusive("no batch was split into parts: " + evidence.not_reached("backward"))
    parts, ratio = measured.parts, measured.ratio
    text = f"{measured.rows} rows in {parts} batches have {ratio:.2f} times the gradient of one batch"
    if abs(ratio / parts - 1) <= TOLERANCE:
        return Verdict.confirmed(text, ratio=ratio, parts=parts)
    return (
        Verdict.refuted(text, ratio=ratio) if abs(ratio - 1) <= TOLERANCE else Verdict.inconclusive(text, ratio=ratio)
    )


def counts_labels(run: TrainerRun) -> bool:
    """Whether the model's `forward` takes `**kwargs`, so that the Trainer leaves the division to the loss.

    All heads of transformers 5.0 to 5.23 take them.
    """
    model = run.value("model")
    if isinstance(model, Instance):
        found = model.cls.lookup("forward")
        return found is not None and isinstance(found[1], Function) and found[1].node.args.kwarg is not None
    if not isinstance(model, Model) or _may_have_remote_code(model) or not model.path.startswith("transformers."):
        return False
    family = family_of(model)
    return family is not None and model.task is not Task.NO_HEAD and not SETS_LOSS_KWARGS.search(family)


@dataclass(frozen=True, slots=True)
class Rebound:
    """A step by hand that makes a new tensor in place of changing the weight: where, and the name of the weight.

    `is_name` if the name is that of a loop over parameters, which stay what they are.
    """

    location: Location
    name: str
    is_name: bool


def rebound(source: Source) -> Iterator[Rebound]:
    """The statements such as `w = w - rate * w.grad` of a file that uses torch."""
    if "torch" not in source.text or ".grad" not in source.text:
        return
    targets = {
        each.id
        for loop in source.nodes_of(ast.For)
        if ".parameters()" in unparse(loop.iter)
        for each in walk(loop.target)
        if isinstance(each, ast.Name)
    }
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[target], value=ast.BinOp(left=left, op=ast.Sub(), right=step)):
                name = unparse(target)
            case _:
                continue
        if isinstance(target, ast.Name | ast.Attribute) and unparse(left) == name and _uses(step, f"{name}.grad"):
            yield Rebound(source.location(node), name, name in targets)


WEIGHTS = frozenset({"weight", "bias"})
"""The attributes of layers that are parameters."""

MAKES_LEAF = lazy_pattern(r"Parameter\(|parameters\(|requires_grad")
"""What makes tensors that require gradients, or gives them."""


def may_change_leaf(source: Source) -> bool:
    """Whether a file may change in place what requires gradients: a weight of a layer, or what it makes itself."""
    makes = source.contains(MAKES_LEAF)
    for base in _changed_in(source):
        match base:
            case ast.Attribute(attr="data" | "grad" | "init"):
                pass
            case ast.Attribute(attr=attr) if attr in WEIGHTS:
                return True
            case ast.Name() | ast.Attribute():
                known = source.cached(_names_of_leaves if makes else _names_of_weights)
                if not known.isdisjoint(_names_in(base)) or "register_parameter" in source.text:
                    return True
            case _:
                if makes and MAKES_LEAF.search(unparse(base)):
                    return True
    return False


def _changed_in(source: Source) -> Iterator[ast.expr]:
    """What the statements and calls of a file change in place, without its indices."""
    added = (node for node in source.nodes_of(ast.AugAssign) if not isinstance(node.value, NO_NUMBERS))
    changed: list[ast.expr] = [node.target for node in added]
    targets = (target for node in source.nodes_of(ast.Assign) for target in node.targets)
    items = (part for target in targets for part in walk(target) if isinstance(part, ast.Subscript))
    changed += [item for item in items if not _is_text(item.slice)]
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in CHANGES:
            changed.append(call.func.value)
        changed += [each.value for each in call.keywords if each.arg == "out"]
    for each in changed:
        base: ast.expr = each
        while isinstance(base, ast.Subscript):
            base = base.value
        yield base


NO_NUMBERS = (ast.JoinedStr, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.Tuple)
"""What is added to texts and lists alone."""


def _is_text(node: ast.expr) -> bool:
    """Whether an index is text, which no tensor takes."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _names_of_leaves(source: Source) -> frozenset[str]:
    """The names and attributes that a file may bind to tensors that require gradients, or to what holds such tensors.

    Those are what is made so, weights of layers, parameters of functions that the file calls, and other names of these
    and of their parts. A `forward` gets what the layers before it give.
    """
    functions = source.nodes_of(ast.FunctionDef)
    makers = {each.name for each in functions if LEAVES.search(source.code(source.location(each)))}
    bound = [(target, node.value) for node in source.nodes_of(ast.Assign) for target in node.targets]
    bound += [(node.target, node.value) for node in source.nodes_of(ast.AnnAssign) if node.value is not None]
    bound += [(node.target, node.value) for node in source.nodes_of(ast.NamedExpr)]
    bound += [(loop.target, loop.iter) for loop in source.nodes_of(ast.For)]
    bound += [(each.target, each.iter) for each in source.nodes_of(ast.comprehension)]
    pairs = [(_names_in(target), value) for target, value in bound]
    found = set(source.cached(_names_of_weights))
    for names, value in pairs:
        is_made = isinstance(value, ast.Call) and last_name(value.func) in makers
        found.update(names if is_made or LEAVES.search(unparse(value)) else ())
    called = {last_name(call.func) for call in source.nodes_of(ast.Call)} | {"__init__"}
    arguments = (walk(each.args) for each in functions if each.name in called)
    found.update(part.arg for parts in arguments for part in parts if isinstance(part, ast.arg) and part.arg != "self")
    parts = [(names, _names_in(value)) for names, value in pairs if _gives_parts(value)]
    more = found
    while more:
        more = {name for names, used in parts if not found.isdisjoint(used) for name in names} - found
        found |= more
    return frozenset(found)


LEAVES = lazy_pattern(r"Parameter\(|parameters\(|requires_grad|param_groups|params\b")
"""What makes such tensors, or holds them."""


def _names_in(node: ast.expr) -> frozenset[str]:
    """The names in an expression, and its attributes with a dot before them."""
    names = {part.id for part in walk(node) if isinstance(part, ast.Name)} - {"self"}
    return frozenset(names | {f".{part.attr}" for part in walk(node) if isinstance(part, ast.Attribute)})


def _gives_parts(value: ast.expr) -> bool:
    """Whether an expression gives one of its names or what that holds: `params`, `params[0]`, `zip(params, grads)`."""
    if isinstance(value, ast.Call):
        return last_name(value.func) in {"enumerate", "items", "iter", "list", "reversed", "tuple", "values", "zip"}
    return isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Tuple | ast.List | ast.IfExp)


def _names_of_weights(source: Source) -> frozenset[str]:
    """The names that a file binds to weights of layers, among others: `w = layer.weight`."""
    assigned = (node for node in source.nodes_of(ast.Assign) if any(map(_is_weight, walk(node.value))))
    loops = (node for node in source.nodes_of(ast.For) if any(map(_is_weight, walk(node.iter))))
    targets = [*(target for node in assigned for target in node.targets), *(node.target for node in loops)]
    return frozenset(part.id for target in targets for part in walk(target) if isinstance(part, ast.Name))


def _is_weight(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in WEIGHTS


def _uses(node: ast.expr, code: str) -> bool:
    return any(isinstance(each, ast.Attribute) and unparse(each) == code for each in walk(node))
