"""Updates that lack their step or their backward pass, as the code around one `zero_grad()` shows it by itself.

An optimizer that a function gets, or that another file makes, is not known to the interpreter. What a loop does with it
between two calls of `zero_grad()` is certain all the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.left_out import OPTIMIZERS
from lintrain.analysis.training_loops import ADDS_ENTRIES, LOGS_PROGRESS, OF_SCHEDULES, UNRELATED_METHODS
from lintrain.source.by_name import scopes_naming
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

OF_GRADIENTS = lazy_pattern(r"clip_grad_\w+|no_grad|requires_grad\w*")
"""Names with `grad` in them of what changes or forbids gradients, and computes none."""

PLAIN_CALL = lazy_pattern(
    r"(?:^|\.)(?:print|log\w*|update|write|add_scalar\w*|append|extend|debug|info|set_\w+|to|item|cuda|cpu|tick|time|"
    r"float|long|train|eval|zero_grad|step|clear|synchronize|manual_seed|pop|sleep|clip_grad_\w+)$"
)
"""Functions and methods that a statement of its own may call without computing gradients."""

NO_UPDATE = lazy_pattern(r"(?i)adv|attack|salien|fisher|importan|grad|find|hessian|attrib|sensitiv|ntk|influence|probe")
"""Names of functions that compute gradients for another end than a step."""

SCHEDULES = lazy_pattern(r"LR$|ReduceLROnPlateau$|WarmRestarts$|get_\w*sched\w*$")
"""What makes a schedule of an optimizer, and steps only the rates."""

STEPS_IN_BACKWARD = r"register_post_accumulate_grad_hook"
"""What lets an optimizer step while the gradients are computed."""

IS_LOSS = lazy_pattern(r"(?i)loss|criterion|objective|cross_entropy|elbo")


@dataclass(frozen=True, slots=True)
class OpenUpdate:
    """An update that lacks a call: the optimizer, and the call that is to be there before or after."""

    optimizer: str
    call: ast.Call


def without_step(source: Source) -> Iterator[OpenUpdate]:
    """The backward calls of loops that clear an optimizer each time, and do nothing else with it."""
    for scope, loop, block in _blocks(source):
        calls = list(_own_calls(block))
        clears = [call for call in calls if last_name(call.func) == "zero_grad"]
        backwards = [call for call in calls if last_name(call.func) == "backward"]
        if len(clears) != 1 or len(backwards) != 1 or NO_UPDATE.search(getattr(scope, "name", "")):
            continue
        optimizer = _owner(clears[0])
        is_known = "opt" in optimizer.lower() and (
            _only_given(source, scope, optimizer) or _only_made(scope, optimizer)
        )
        if source.contains(STEPS_IN_BACKWARD):
            return
        if is_known and not _may_step(source, loop) and not _reads_gradients(source, scope, optimizer):
            yield OpenUpdate(optimizer, backwards[0])


def without_backward(source: Source) -> Iterator[OpenUpdate]:
    """The steps of optimizers that follow a `zero_grad()` with nothing between that computes gradients."""
    for _, _, block in _blocks(source):
        for number, statement in enumerate(block):
            call = _call_of(statement)
            if call is None or last_name(call.func) != "step" or call.args or call.keywords:
                continue
            # Behind the step, a backward pass is there, and in the wrong order.
            is_late = any(last_name(each.func) == "backward" for each in _own_calls(block[number:]))
            before = block[:number] if _is_cleared_once(block, _owner(call)) and not is_late else ()
            if any(map(_computes_loss, before)) and not _may_differentiate(source, before):
                yield OpenUpdate(_owner(call), call)


def _blocks(source: Source) -> Iterator[tuple[ast.AST, ast.For | ast.While, Sequence[ast.stmt]]]:
    """The blocks of statements in loops, each with its function and loop."""
    if "zero_grad" not in source.text:
        return
    for scope in scopes_naming(source, "zero_grad"):
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


def _only_given(source: Source, scope: ast.AST, optimizer: str) -> bool:
    """Whether a function gets an optimizer, and only clears its gradients and reads its rates."""
    named = [node for node in walk(scope) if isinstance(node, ast.Name | ast.Attribute) and unparse(node) == optimizer]
    is_given = isinstance(scope, ast.FunctionDef) and all(isinstance(node.ctx, ast.Load) for node in named)
    return is_given and _only_clears(scope, named) and not _steps_elsewhere(source, scope, optimizer)


def _steps_elsewhere(source: Source, scope: ast.AST, optimizer: str) -> bool:
    """Whether another method uses the attribute that holds an optimizer: it may step there."""
    _, dot, name = optimizer.rpartition(".")
    here = {id(node) for node in walk(scope)}
    uses = (node for node in source.nodes_of(ast.Attribute) if dot and node.attr == name and id(node) not in here)
    return any(isinstance(node.ctx, ast.Load) for node in uses)


def _only_made(scope: ast.AST, optimizer: str) -> bool:
    """Whether a scope makes an optimizer once, and only clears its gradients, reads its rates and schedules it."""
    named = [node for node in walk(scope) if isinstance(node, ast.Name) and node.id == optimizer]
    stored = {id(node) for node in named if not isinstance(node.ctx, ast.Load)}
    made = [
        node
        for node in own_nodes(scope)
        if isinstance(node, ast.Assign) and {id(each) for each in node.targets} == stored
    ]
    is_own = (
        len(made) == 1
        and isinstance(made[0].value, ast.Call)
        and OPTIMIZERS.search(unparse(made[0].value.func)) is not None
    )
    return is_own and _only_clears(scope, [node for node in named if id(node) not in stored])


def _only_clears(scope: ast.AST, named: Sequence[ast.Name | ast.Attribute]) -> bool:
    """Whether these uses of an optimizer clear its gradients, read its rates, or give it to a schedule."""
    harmless = set[int]()
    for node in walk(scope):
        match node:
            case ast.Attribute(value=owner, attr="zero_grad" | "param_groups" | "state_dict"):
                harmless.add(id(owner))
            case ast.Call(func=func, args=[first, *_]) if SCHEDULES.search(unparse(func)):
                harmless.add(id(first))
            case _:
                pass
    return all(id(node) in harmless for node in named)


def _reads_gradients(source: Source, scope: ast.AST, optimizer: str) -> bool:
    """Whether code reads gradients, which are then wanted for themselves: what makes an optimizer has its own."""
    is_own = isinstance(scope, ast.FunctionDef) and _only_made(scope, optimizer)
    nodes = walk(scope) if is_own else source.nodes_of(ast.Attribute)
    return any(isinstance(each, ast.Attribute) and each.attr == "grad" for each in nodes)


def _may_step(source: Source, loop: ast.For | ast.While) -> bool:
    """Whether a loop calls something that may step the optimizer."""
    return any(_may_be_step(call) for call in walk(loop) if isinstance(call, ast.Call))


def _may_be_step(call: ast.Call) -> bool:
    name, callee = last_name(call.func), unparse(call.func)
    if not MAY_STEP.search(name) or name == "train":
        return False
    known = (LOGS_PROGRESS, OF_SCHEDULES, UNRELATED_METHODS)
    return not any(pattern.search(callee) for pattern in known) and not ADDS_ENTRIES.search(unparse(call))


def _is_cleared_once(block: Sequence[ast.stmt], optimizer: str) -> bool:
    """Whether one statement of a block clears the gradients of an optimizer."""
    clears = [call for call in _own_calls(block) if last_name(call.func) == "zero_grad" and _owner(call) == optimizer]
    return len(clears) == 1 and "opt" in optimizer.lower()


def _computes_loss(statement: ast.stmt) -> bool:
    """Whether a statement, or one in a branch of it, sets a loss to what a call gives, or to a part of that."""
    return any(map(_sets_loss, walk(statement)))


def _sets_loss(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func)):
            return IS_LOSS.search(name) is not None or IS_LOSS.search(unparse(func)) is not None
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.Attribute() | ast.BinOp()):
            return IS_LOSS.search(name) is not None
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_])], value=ast.Call()):
            return IS_LOSS.search(name) is not None
        case _:
            return False


def _may_differentiate(source: Source, statements: Sequence[ast.stmt]) -> bool:
    """Whether some of these statements may compute gradients, by themselves or by what they call."""
    nodes = [node for each in statements for node in walk(each)]
    if any(MAY_DIFFERENTIATE.search(OF_GRADIENTS.sub("", unparse(each))) for each in statements):
        return True
    bare = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    if any(not PLAIN_CALL.search(unparse(call.func)) for call in bare):
        return True
    called = {last_name(node.func) for node in nodes if isinstance(node, ast.Call)}
    own = (each for each in source.nodes_of(ast.FunctionDef) if each.name in called)
    return any(re.search(r"backward|autograd", source.code(source.location(each))) for each in own)
