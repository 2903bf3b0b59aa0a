"""The ratio of PPO: the probability of a stored action by the policy of now, to that by the policy that chose it.

It is written as the exponential of a difference of log-probabilities, and clipped to `1 - eps` and `1 + eps`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CLIPPED = lazy_pattern(r"\b(?:clamp|clip)\(")
STORED = lazy_pattern(r"(?i)old|prev|target|\bref|behaviou?r|anchor")
"""Names of the policy that chose the actions."""

OLD = lazy_pattern(r"(?i)(?:^|[_.])old(?:_|log|$)")
NEW = lazy_pattern(r"(?i)(?:^|[_.])new(?:_|log|$)")
"""Names that show of which policy a log-probability is, where its value does not."""

KEEPS = frozenset({"sum", "squeeze", "unsqueeze", "view", "reshape", "flatten", "mean", "to", "float", "cuda"})
SAMPLES = frozenset({"sample", "rsample"})
MOST_STEPS = 6


@dataclass(frozen=True, slots=True)
class Scored:
    """A log-probability with gradients: the call of `log_prob`, and the call of the function that holds it, if any."""

    call: ast.Call
    by: ast.Call | None = None


@dataclass(frozen=True, slots=True)
class Ratio:
    """A clipped ratio: the difference that it is the exponential of, and the sides that have gradients."""

    difference: ast.BinOp
    left: Scored | None
    right: Scored | None


@dataclass(frozen=True, slots=True)
class Resampled:
    """A log-probability of an action that was sampled just now: where, and where it is sampled."""

    location: Location
    sampled: Location


def upside_down(source: Source) -> Iterator[Location]:
    """The ratios of a file that divide the stored probability by that of now."""
    for ratio in _ratios(source):
        if ratio.right is not None and ratio.left is None and _is_stored(source, ratio.difference.left):
            given = ratio.right.by or ratio.right.call
            if STORED.search(unparse(ratio.difference.right)) is None and STORED.search(unparse(given.func)) is None:
                yield source.location(ratio.difference)
        elif ratio.left is None and ratio.right is None and _is_named_upside_down(ratio.difference):
            yield source.location(ratio.difference)


def _is_named_upside_down(difference: ast.BinOp) -> bool:
    first, second = unparse(difference.left), unparse(difference.right)
    is_old = OLD.search(first) is not None and OLD.search(second) is None
    return is_old or (NEW.search(second) is not None and NEW.search(first) is None)


def resampled(source: Source) -> Iterator[Resampled]:
    """The log-probabilities in ratios that are those of new actions, not of the stored ones."""
    for ratio in _ratios(source):
        both = [each for each in (ratio.left, ratio.right) if each is not None]
        for scored in both if len(both) == 1 else ():
            sample = _sample_of(source, scored)
            if sample is not None:
                yield Resampled(source.location(scored.by or scored.call), source.location(sample))


@dataclass(frozen=True, slots=True)
class KeptGraph:
    """A stored log-probability that keeps its graph: where it is stored, and the ratio that goes back through it."""

    location: Location
    ratio: Location


def kept_graphs(source: Source) -> Iterator[KeptGraph]:
    """The stored log-probabilities of ratios in a loop over the same experience, whose graph the first pass frees."""
    for ratio in _ratios(source):
        loops = [each for each in source.nodes_of(ast.For) if _is_in(each, ratio.difference)]
        if ratio.left is None or ratio.right is not None or "retain_graph" in source.text:
            continue
        for value in _stored_in(source, ratio.difference.right, MOST_STEPS):
            repeats = [each for each in loops if not _is_in(each, value) and _trains(each)]
            if repeats and _scored(source, value, MOST_STEPS) is not None:
                yield KeptGraph(source.location(value), source.location(ratio.difference))


def _trains(loop: ast.For) -> bool:
    calls = (each.func for each in walk(loop) if isinstance(each, ast.Call))
    return any(isinstance(each, ast.Attribute) and each.attr == "backward" for each in calls)


def _stored_in(source: Source, node: ast.expr, steps: int) -> Iterator[ast.expr]:
    """What a file puts into the tensor or list that an expression is a part of, if nothing takes it off its graph."""
    match node:
        case ast.Subscript(value=inner):
            yield from _stored_in(source, inner, steps)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch" | "th"), attr="stack" | "cat" | "squeeze"), args=given
        ):
            yield from _stored_in(source, given[0], steps) if given else ()
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS:
            yield from _stored_in(source, inner, steps)
        case ast.Name() if steps:
            value = _value_of(source, node)
            if value is not None and not _is_new(value):
                yield from _stored_in(source, value, steps - 1)
            elif value is not None:
                yield from _put_into(source, node)
        case ast.Attribute():
            yield from _put_into(source, node)
        case _:
            pass


def _is_new(value: ast.expr) -> bool:
    """Whether an expression is an empty list, or a tensor without values."""
    match value:
        case ast.List(elts=[]):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="to" | "cuda")):
            return _is_new(inner)
        case ast.Call(func=called):
            return last_name(called) in {"zeros", "empty", "zeros_like", "list"}
        case _:
            return False


def _put_into(source: Source, container: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
    """What is appended to a list, or assigned to an item of a tensor."""
    yield from loss_terms.appended(source, container)
    code = unparse(container)
    for node in source.nodes_of(ast.Assign):
        match node.targets[0]:
            case ast.Subscript(value=owner) if unparse(owner) == code:
                yield node.value
            case _:
                pass


def _ratios(source: Source) -> Iterator[Ratio]:
    if not (source.contains(CLIPPED) and "log_prob" in source.text and "exp(" in source.text):
        return
    for call in source.nodes_of(ast.Call):
        clipped = _clipped(call)
        difference = _difference(source, clipped, MOST_STEPS) if clipped is not None else None
        if difference is not None:
            left, right = (_scored(source, each, MOST_STEPS) for each in (difference.left, difference.right))
            yield Ratio(difference, left, right)


def _clipped(call: ast.Call) -> ast.expr | None:
    """What a call clips to `1 - eps` and `1 + eps`."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch" | "th"), attr="clamp" | "clip"), args=[inner, *rest]
        ):
            pass
        case ast.Call(func=ast.Attribute(value=inner, attr="clamp" | "clip"), args=rest):
            pass
        case _:
            return None
    bounds = [*rest, *(each.value for each in call.keywords if each.arg in {"min", "max"})]
    return inner if len(bounds) == 2 and _surround_one(*bounds) else None


def _surround_one(low: ast.expr, high: ast.expr) -> bool:
    match low, high:
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub()), ast.BinOp(op=ast.Add()):
            return True
        case ast.Constant(value=float() as least), ast.Constant(value=float() as most):
            return 0 < least < 1 < most < 2
        case _:
            return False


def _difference(source: Source, node: ast.expr, steps: int) -> ast.BinOp | None:
    """The difference that an expression is the exponential of."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "th"), attr="exp"), args=[inner]):
            return _subtraction(source, inner, steps)
        case ast.Call(func=ast.Attribute(value=inner, attr="exp"), args=[]):
            return _subtraction(source, inner, steps)
        case ast.Name() if steps:
            value = _value_of(source, node)
            return _difference(source, value, steps - 1) if value is not None else None
        case _:
            return None


def _subtraction(source: Source, node: ast.expr, steps: int) -> ast.BinOp | None:
    match node:
        case ast.BinOp(op=ast.Sub()):
            return node
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS:
            return _subtraction(source, inner, steps)
        case ast.Name() if steps:
            value = _value_of(source, node)
            return _subtraction(source, value, steps - 1) if value is not None else None
        case _:
            return None


def _value_of(source: Source, name: ast.Name) -> ast.expr | None:
    """The only value that a name was given before, if it is not a part of one."""
    made = list(loss_terms.definitions(source, name))
    return made[0][0] if len(made) == 1 and made[0][1] is None and made[0][2] is None else None


def _scored(source: Source, node: ast.expr, steps: int) -> Scored | None:
    """The call of `log_prob` that an expression is computed by with gradients, in this function or one it calls."""
    match node:
        case ast.Call(func=ast.Attribute(attr="log_prob"), args=[_]):
            return None if _is_without_gradients(source, node) else Scored(node)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS:
            return _scored(source, inner, steps)
        case ast.Name() if steps:
            made = list(loss_terms.definitions(source, node))
            if len(made) != 1 or made[0][2] is not None:
                return None
            value, position, _ = made[0]
            if position is None and not isinstance(value, ast.Call):
                return None
            return _from_call(source, value, position, steps - 1)
        case _:
            return None


def _from_call(source: Source, value: ast.expr, position: int | None, steps: int) -> Scored | None:
    if position is None:
        found = _scored(source, value, steps)
        if found is not None:
            return found
    if not isinstance(value, ast.Call) or _is_without_gradients(source, value):
        return None
    part = loss_terms.returned(source, value, position)
    found = _scored(source, part, steps) if part is not None else None
    return Scored(found.call, found.by or value) if found is not None else None


def _is_without_gradients(source: Source, node: ast.expr) -> bool:
    """Whether a block or a decorator around an expression switches gradients off."""
    for block in source.nodes_of(ast.With):
        is_off = any("no_grad" in unparse(each) or "inference_mode" in unparse(each) for each in block.items)
        if is_off and _is_in(block, node):
            return True
    return any(
        any("no_grad" in unparse(each) for each in function.decorator_list)
        for function in source.nodes_of(ast.FunctionDef)
        if _is_in(function, node)
    )


def _is_stored(source: Source, node: ast.expr) -> bool:
    """Whether an expression is certainly a constant that was stored: an item, an attribute, or what is detached."""
    match node:
        case ast.Subscript() | ast.Attribute():
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            return name == "detach" or (name in KEEPS and _is_stored(source, inner))
        case ast.Name():
            made = list(loss_terms.definitions(source, node))
            if not made:
                return _is_parameter(source, node)
            value, position, _ = made[0]
            return len(made) == 1 and (
                position is not None or _is_stored(source, value) or "detach()" in unparse(value)
            )
        case _:
            return False


def _is_parameter(source: Source, name: ast.Name) -> bool:
    """Whether a name is an argument of the function around it, or what a loop over stored rows gives."""
    functions = [each for each in source.nodes_of(ast.FunctionDef) if _is_in(each, name)]
    if any(one.arg == name.id for each in functions for one in each.args.args):
        return True
    return any(
        any(isinstance(each, ast.Name) and each.id == name.id for each in walk(loop.target))
        for loop in source.nodes_of(ast.For)
        if _is_in(loop, name)
    )


def _is_in(around: ast.stmt, node: ast.expr) -> bool:
    """Whether an expression is on the lines of a statement."""
    return around.lineno <= node.lineno <= (around.end_lineno or around.lineno)


def _sample_of(source: Source, scored: Scored) -> ast.Call | None:
    """The call that samples the action of a log-probability in the run that computes it."""
    action = scored.call.args[0]
    while isinstance(action, ast.Call) and isinstance(action.func, ast.Attribute) and action.func.attr in KEEPS:
        action = action.func.value
    if not isinstance(action, ast.Name):
        return None
    made = [value for value, _, _ in loss_terms.definitions(source, action)]
    samples = [each for each in made if isinstance(each, ast.Call) and last_name(each.func) in SAMPLES]
    if len(made) != 1 or not samples or not _is_of_same(source, samples[0], scored.call):
        return None
    function = _function_around(source, scored.call)
    parameters = [each.arg for each in function.args.args] if function is not None else []
    if function is None or action.id not in parameters:
        return samples[0]
    is_given = scored.by is None or _passes(scored.by, parameters, action.id)
    return samples[0] if not is_given and _is_sampled_if_missing(function, action.id) else None


def _is_of_same(source: Source, sample: ast.Call, score: ast.Call) -> bool:
    """Whether a sample is taken of the distribution that scores it, and not while experience is collected."""
    owners = [unparse(each.func.value) for each in (sample, score) if isinstance(each.func, ast.Attribute)]
    return len(set(owners)) == 1 and not _is_without_gradients(source, sample)


def _function_around(source: Source, node: ast.expr) -> ast.FunctionDef | None:
    around = [each for each in source.nodes_of(ast.FunctionDef) if any(one is node for one in walk(each))]
    return max(around, key=lambda each: each.lineno, default=None)


def _passes(call: ast.Call, parameters: list[str], name: str) -> bool:
    """Whether a call passes an argument for a parameter; a starred one may be for any."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return True
    position = parameters.index(name) - (parameters[0] == "self")
    return len(call.args) > position or any(each.arg == name for each in call.keywords)


def _is_sampled_if_missing(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function samples an action for itself when it is passed none."""
    defaults = function.args.defaults
    named = dict(zip([each.arg for each in function.args.args][-len(defaults) :], defaults, strict=False))
    default = named.get(name)
    is_none = isinstance(default, ast.Constant) and default.value is None
    tests = [unparse(each.test) for each in own_nodes(function) if isinstance(each, ast.If)]
    return is_none and f"{name} is None" in tests
