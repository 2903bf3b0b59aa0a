"""Updates that lack their step or their backward pass, as the code around one `zero_grad()` shows it by itself.

An optimizer that a function gets, or that another file makes, is not known to the interpreter. What a loop does with it
between two calls of `zero_grad()` is certain all the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.training_loops import ADDS_ENTRIES, LOGS_PROGRESS, OF_SCHEDULES, UNRELATED_METHODS
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MAY_STEP = lazy_pattern(r"(?i)step|optim|apply|update|train|closure")
"""Names of functions that may step an optimizer, or be given to one that does."""

MAY_DIFFERENTIATE = lazy_pattern(
    r"(?i)back_?(?:ward|prop)|(?<!zero_)grad|closure|scale[r(]|autograd|accelerat|fabric|engine|(?<![a-z])amp(?![a-z])|"
    r"perturb|train_?(?:step|batch|on)|(?<![a-z])(?:fit|learn|optimize|update_\w+)\("
)
"""Code that may compute gradients."""

PLAIN_CALL = lazy_pattern(
    r"(?:^|\.)(?:print|log\w*|update|write|add_scalar\w*|append|extend|debug|info|set_\w+|to|item|cuda|cpu|tick|time|"
    r"float|long|train|eval|zero_grad|step|clear|synchronize|manual_seed|pop|sleep)$"
)
"""Functions and methods that a statement of its own may call without computing gradients."""

NO_UPDATE = lazy_pattern(r"(?i)adv|attack|salien|fisher|importan|grad|find|hessian|attrib|sensitiv|ntk|influence|probe")
"""Names of functions that compute gradients for another end than a step."""

IS_LOSS = lazy_pattern(r"(?i)loss|criterion|objective|cross_entropy|elbo")


@dataclass(frozen=True, slots=True)
class OpenUpdate:
    """An update that lacks a call: the optimizer, and the call that is to be there before or after."""

    optimizer: str
    call: ast.Call


def without_step(source: Source) -> Iterator[OpenUpdate]:
    """The backward calls of loops that clear an optimizer each time, and do nothing else with it."""
    if ".grad" in source.text and any(each.attr == "grad" for each in source.nodes_of(ast.Attribute)):
        return  # gradients that code reads are wanted for themselves
    for scope, loop, block in _blocks(source):
        calls = list(_own_calls(block))
        clears = [call for call in calls if last_name(call.func) == "zero_grad"]
        backwards = [call for call in calls if last_name(call.func) == "backward"]
        if len(clears) != 1 or len(backwards) != 1 or NO_UPDATE.search(getattr(scope, "name", "")):
            continue
        optimizer = _owner(clears[0])
        if "opt" in optimizer.lower() and _only_clears(scope, optimizer) and not _may_step(source, loop):
            yield OpenUpdate(optimizer, backwards[0])


def without_backward(source: Source) -> Iterator[OpenUpdate]:
    """The steps of optimizers that follow a `zero_grad()` with nothing between that computes gradients."""
    for _, _, block in _blocks(source):
        for number, statement in enumerate(block):
            call = _call_of(statement)
            if call is None or last_name(call.func) != "step" or call.args or call.keywords:
                continue
            before = _before_step(block, number, _owner(call))
            if before and any(map(_computes_loss, before)) and not _may_differentiate(source, before):
                yield OpenUpdate(_owner(call), call)


def _blocks(source: Source) -> Iterator[tuple[ast.AST, ast.For | ast.While, Sequence[ast.stmt]]]:
    """The blocks of statements in loops, each with its function and loop."""
    if "zero_grad" not in source.text:
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        for loop in own_nodes(scope):
            if isinstance(loop, ast.For | ast.While):
                yield scope, loop, loop.body
                inner = (node for node in loop.body if isinstance(node, ast.With | ast.If))
                yield from ((scope, loop, node.body) for node in inner)


def _own_calls(block: Sequence[ast.stmt]) -> Iterator[ast.Call]:
    for statement in block:
        call = _call_of(statement)
        if call is not None:
            yield call


def _call_of(statement: ast.stmt) -> ast.Call | None:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None


def _owner(call: ast.Call) -> str:
    return unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _only_clears(scope: ast.AST, optimizer: str) -> bool:
    """Whether a function uses an optimizer only for `zero_grad()` and for reading its rates, and does not make it."""
    nodes = walk(scope)
    named = [node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and unparse(node) == optimizer]
    reads = [node for node in named if isinstance(node.ctx, ast.Load)]
    used = [node for node in nodes if isinstance(node, ast.Attribute) and unparse(node.value) == optimizer]
    harmless = all(node.attr in {"zero_grad", "param_groups", "state_dict"} for node in used)
    is_given = len(reads) == len(named) and isinstance(scope, ast.FunctionDef)
    return is_given and len(used) == len(reads) and harmless


def _may_step(source: Source, loop: ast.For | ast.While) -> bool:
    """Whether a loop calls something that may step the optimizer."""
    return any(_may_be_step(call) for call in walk(loop) if isinstance(call, ast.Call))


def _may_be_step(call: ast.Call) -> bool:
    name, callee = last_name(call.func), unparse(call.func)
    if not MAY_STEP.search(name) or name == "train":
        return False
    known = (LOGS_PROGRESS, OF_SCHEDULES, UNRELATED_METHODS)
    return not any(pattern.search(callee) for pattern in known) and not ADDS_ENTRIES.search(unparse(call))


def _before_step(block: Sequence[ast.stmt], number: int, optimizer: str) -> Sequence[ast.stmt]:
    """The statements since the gradients were cleared; empty if the block does not clear them."""
    clears = [
        index
        for index, each in enumerate(block)
        if (call := _call_of(each)) is not None and last_name(call.func) == "zero_grad" and _owner(call) == optimizer
    ]
    if len(clears) != 1 or "opt" not in optimizer.lower():
        return ()
    return block[clears[0] + 1 : number] if clears[0] < number else block[:number]


def _computes_loss(statement: ast.stmt) -> bool:
    """Whether a statement sets a loss to what a call gives."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func)):
            return IS_LOSS.search(name) is not None or IS_LOSS.search(unparse(func)) is not None
        case _:
            return False


def _may_differentiate(source: Source, statements: Sequence[ast.stmt]) -> bool:
    """Whether some of these statements may compute gradients, by themselves or by what they call."""
    nodes = [node for each in statements for node in walk(each)]
    if any(MAY_DIFFERENTIATE.search(unparse(each)) for each in statements):
        return True
    bare = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    if any(not PLAIN_CALL.search(unparse(call.func)) for call in bare):
        return True
    called = {last_name(node.func) for node in nodes if isinstance(node, ast.Call)}
    own = (each for each in source.nodes_of(ast.FunctionDef) if each.name in called)
    return any(re.search(r"backward|autograd", source.code(source.location(each))) for each in own)
