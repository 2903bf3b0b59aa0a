"""Verdicts on custom training loops that several rules share.

The calls of losses: their arguments, and the operations that computed them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import is_module_class
from lintrain.pipeline.record import Pipeline, Returned
from lintrain.pipeline.values.model import Module, Tensor
from lintrain.pipeline.values.python import Constant, Value, literal, options_of
from lintrain.pipeline.values.tensors import Operation
from lintrain.pipeline.values.training import LossCall
from lintrain.source import parsing
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.evidence.run import Evidence


def weights_outside(evidence: Evidence, holders: Literal["optimizers", "modules"]) -> Verdict:
    """Whether the loss depends on weights outside all optimizers, or outside all called modules."""
    loop = evidence.loop
    if loop is None:
        return Verdict.inconclusive(evidence.without_loop)
    reached = loop.reached
    if reached is None or not reached.tensors:
        return Verdict.inconclusive(f"the losses of {loop.backwards} backward passes depend on no weight")
    if holders == "optimizers":
        outside, which = reached.outside_optimizers, "in no optimizer"
    else:
        outside, which = reached.outside_modules, "in no module that was called"
    text = f"{outside} of {reached.tensors} weights that the loss depends on are {which}"
    if not outside and len(loop.optimizers) > 1:
        return Verdict.inconclusive(
            f"{text}, and only the first loss of {len(loop.optimizers)} optimizers was followed"
        )
    return (Verdict.confirmed if outside else Verdict.refuted)(text, **{f"outside_{holders}": outside})


def losses_called(pipeline: Pipeline, *names: str) -> list[LossCall]:
    """The calls of these losses that training can use: those with autograd enabled.

    A script that trains nothing only measures its losses, so there the others count as well.
    """
    is_only_measured = not pipeline.acts(Act.BACKWARD)
    used = [loss for loss in pipeline.losses if loss.name in names]
    # Of `criterion = CrossEntropyLoss() if many else BCEWithLogitsLoss()` each fits its own targets.
    others = {loss.location for loss in pipeline.losses if loss.is_alternative and loss.name not in names}
    fitting = [loss for loss in used if not loss.is_alternative or loss.location not in others]
    certain = [loss for loss in fitting if not (loss.is_alternative and _is_chosen_with(pipeline, loss))]
    return [loss for loss in certain if is_only_measured or not loss.without_grad]


def losses_measured(pipeline: Pipeline, *names: str) -> list[LossCall]:
    """The calls of these losses, those that a training script only measures too, last.

    What is computed twice, or not at all, is wrong in an evaluation as well: its number chooses the weights to keep.
    """
    used = losses_called(pipeline, *names)
    if not pipeline.acts(Act.BACKWARD):
        return used
    measured = (loss for loss in pipeline.losses if loss.name in names and loss.without_grad)
    return [*used, *(loss for loss in measured if not loss.is_alternative)]


def _is_chosen_with(pipeline: Pipeline, loss: LossCall) -> bool:
    """Whether a condition chooses what is given to a loss that is one of several: both branches call the criterion."""
    locations = [loss.location, *(tensor.made.location for tensor in tensors_given(loss) if tensor.made)]
    for location in (each for each in locations if each is not None):
        source = pipeline.source_of(location)
        for node in source.nodes_of(ast.If):
            if node.orelse and source.location(node).holds(location):
                first, other = (
                    frozenset(CRITERION.findall("\n".join(map(unparse, block)))) for block in (node.body, node.orelse)
                )
                if first & other:
                    return True
    return False


CRITERION = lazy_pattern(r"[\w.]*(?:loss|crit)\w*(?=\()", re.IGNORECASE)
"""What is called by the name of a loss."""


def tensors_given(loss: LossCall, parameter: str = "prediction") -> tuple[Tensor, ...]:
    """The tensors that an argument of a loss may be; empty if it may be anything else."""
    argument = loss.prediction if parameter == "prediction" else loss.target
    options = options_of(argument.value) if argument else ()
    tensors = tuple(option for option in options if isinstance(option, Tensor))
    return tensors if len(tensors) == len(options) else ()


MOST_WRITTEN = 2_000
"""Characters of a tensor that is written out, up to which its numbers are looked at."""


def written_numbers(value: Value) -> tuple[float, ...]:
    """The numbers of a tensor that the script writes out, `torch.tensor([[0.0, 1.0]])`; empty for any other."""
    if (
        not isinstance(value, Tensor)
        or value.made is None
        or value.made.name != "data"
        or len(value.text) > MOST_WRITTEN
    ):
        return ()
    match parsing.expression_of(value.text):
        case ast.Call(args=[ast.List() as written, *_]):
            numbers = list(_numbers_in(written))
        case _:
            return ()
    known = [number for number in numbers if number is not None]
    return tuple(known) if len(known) == len(numbers) else ()


def _numbers_in(node: ast.expr) -> Iterator[float | None]:
    """The numbers of nested lists, None for anything else in them."""
    match node:
        case ast.List(elts=items):
            for item in items:
                yield from _numbers_in(item)
        case ast.Constant(value=int() | float() as number):
            yield float(number)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            yield -float(number)
        case _:
            yield None


def operations_before(loss: LossCall, *names: str) -> tuple[Operation, ...]:
    """The last operations of a loss's prediction, if all of them have one of these names; else empty."""
    made = [tensor.made for tensor in tensors_given(loss)]
    known = tuple(operation for operation in made if operation is not None and operation.name in names)
    return known if len(known) == len(made) else ()


def operations_of_a_choice(pipeline: Pipeline, loss: LossCall, *names: str) -> list[Operation]:
    """The last operations, with these names, of one of several networks that options of a script choose from.

    Each setting of the option is a run that the script offers. Within a network nothing may depend on a condition:
    it could be the mode, or a flag for probabilities.
    """
    source = pipeline.source_of(loss.location)
    holders = (node for node in source.nodes_of(ast.If) if node.orelse)
    if (
        loss.prediction is None
        or loss.is_alternative
        or any(source.location(each).holds(loss.location) for each in holders)
    ):
        return []
    made = [each.made for each in options_of(loss.prediction.value) if isinstance(each, Tensor) and each.made]
    networks: dict[Location, list[Operation]] = {}
    for operation in made:
        network = _network_around(pipeline, operation)
        if network is not None:
            networks.setdefault(network, []).append(operation)
    several = networks.values() if len(networks) > 1 else ()
    return [each for made in several if all(each.name in names for each in made) for each in made]


def _network_around(pipeline: Pipeline, operation: Operation) -> Location | None:
    """The class of a network that an operation is in, if its forward pass has no conditions and one result."""
    if operation.location is None:
        return None
    source = pipeline.source_of(operation.location)
    for node in source.nodes_of(ast.ClassDef):
        forward = next(
            (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "forward"), None
        )
        if forward is not None and source.location(node).holds(operation.location):
            kinds = [type(each) for each in walk(forward)]
            is_plain = ast.If not in kinds and ast.IfExp not in kinds and kinds.count(ast.Return) == 1
            return source.location(node) if is_plain else None
    return None


def softmax_in_a_branch(pipeline: Pipeline, loss: LossCall) -> Operation | None:
    """The softmax that a branch of the code around a loss applies to its prediction, by the text of both.

    What the loss gets otherwise may be unknown. A branch whose condition speaks of the mode or of the loss may fit it.
    """
    name = pipeline.code(loss.prediction.location) if loss.prediction else ""
    source, location = pipeline.source_of(loss.location), loss.location
    body = _body_around(source, location) if name.isidentifier() else []
    last: Operation | None = None
    for statement in body:
        if source.location(statement) >= location or source.location(statement).holds(location):
            break
        for node in walk(statement):
            if isinstance(node, ast.Assign) and unparse(node.targets[0]) == name:
                is_branch = isinstance(statement, ast.If) and not FITS.search(unparse(statement.test))
                last = _softmax_of(source, node.value) if is_branch else None
    return last


def _softmax_of(source: Source, value: ast.expr) -> Operation | None:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="F" | "torch"), attr="softmax"), args=[given, *_]):
            return Operation("softmax", source.location(value), "", unparse(given))
        case ast.Call(func=ast.Attribute(value=given, attr="softmax")):
            return Operation("softmax", source.location(value), "", unparse(given))
        case _:
            return None


BLOCKS = ast.FunctionDef | ast.For | ast.While | ast.With | ast.If


def _body_around(source: Source, location: Location) -> list[ast.stmt]:
    """The innermost block of statements that one of them shares with a location."""
    blocks = [source.tree.body]
    for node in source.nodes_of(*BLOCKS.__args__):
        if isinstance(node, BLOCKS):
            blocks.extend([node.body, *([] if isinstance(node, ast.FunctionDef | ast.With) else [node.orelse])])
    around = [block for block in blocks if any(source.location(each).holds(location) for each in block)]
    return max(around, key=lambda block: block[0].lineno) if around else []


FITS = lazy_pattern(r"train|eval|infer|test|loss|criterion|crit|soft|prob|logit|nll|bce", re.IGNORECASE)
"""Words of conditions that may choose the loss too, or leave probabilities for evaluation."""


DISTRIBUTIONS = frozenset({"softmax", "log_softmax", "sigmoid", "one_hot"})


def has_soft_targets(loss: LossCall) -> bool:
    """Whether the targets are probabilities: such a loss compares two distributions."""
    targets = tensors_given(loss, "target")
    return any(target.kind == "float" or (target.made and target.made.name in DISTRIBUTIONS) for target in targets)


def endings_before(pipeline: Pipeline, criterion: str, *names: str) -> tuple[Location | None, list[Operation]]:
    """Where the script makes its only criterion, and the last operations of its only network, with these names.

    For scripts that leave the training to code elsewhere: no loss is called, and the network is not either.
    """
    made = [call for call in pipeline.calls if call.path.startswith("torch.nn.") and call.path.endswith("Loss")]
    if pipeline.losses or len(made) != 1 or made[0].path != f"torch.nn.{criterion}" or pipeline.acts(Act.FORWARD):
        return None, []
    forwards = [each for each in pipeline.returned if each.method.name == "forward" and is_module_class(each.cls)]
    returned = [_last_computed(pipeline, each) for each in forwards]
    networks = [binding.value for binding in pipeline.bindings if isinstance(binding.value, Module)]
    sequential = [network for network in networks if network.name == "Sequential"]
    if len(returned) == 1 and not sequential:
        ends = [option.made for option in options_of(returned[0]) if isinstance(option, Tensor) and option.made]
        is_whole = len(ends) == len(options_of(returned[0]))
    else:
        last = sequential[0].parts[-1:] if len(sequential) == 1 and not returned else []
        ends = [Operation(part.name.lower(), part.origin) for part in last if isinstance(part, Module)]
        is_whole = bool(ends)
    if not ends and not returned and pipeline.source.is_partial:
        ends = pipeline.source.cached(_written_endings)
        is_whole = len(ends) == 1
    is_one = is_whole and all(operation.name in names for operation in ends)
    return (made[0].location, ends) if is_one else (None, [])


def _written_endings(source: Source) -> list[Operation]:
    """The last operations of the networks in a piece of a script, by their code: a `forward` alone, or layers alone."""
    stacks = (node for node in source.nodes_of(ast.Call) if _last_name(node.func) == "Sequential" and node.args)
    lasts = [node.args[-1] for node in stacks]
    layers = [last for last in lasts if isinstance(last, ast.Call)]
    found = [Operation(_last_name(layer.func).lower(), source.location(layer)) for layer in layers]
    for function in source.nodes_of(ast.FunctionDef):
        if function.name != "forward" or not isinstance(function.body[-1], ast.Return):
            continue
        last: ast.expr | None = function.body[-1].value
        before = function.body[-2] if len(function.body) > 1 else None
        if isinstance(last, ast.Name) and isinstance(before, ast.Assign) and unparse(before.targets[0]) == last.id:
            last = before.value
        if isinstance(last, ast.Call):
            found.append(Operation(_last_name(last.func).lower(), source.location(last)))
    return found


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _last_computed(pipeline: Pipeline, forward: Returned) -> Value:
    """What a `forward` returns; of one that returns nothing, what it computes last."""
    location = forward.method.origin
    if literal(forward.value) is not None or not isinstance(forward.value, Constant) or location is None:
        return forward.value
    inside = [binding.value for binding in pipeline.bindings if location.holds(binding.location)]
    return inside[-1] if inside else forward.value


def callee_of(loss: LossCall) -> str:
    """The code of the callee (`criterion`, `F.cross_entropy`), or the loss's name if the callee is complex."""
    callee = loss.text.partition("(")[0]
    return callee if callee and all(part.isidentifier() for part in callee.split(".")) else loss.name
