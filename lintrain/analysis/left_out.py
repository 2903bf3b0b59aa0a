"""What a training script builds and then leaves out.

Parameter groups that never reach their optimizer, losses under `accumulate` without a backward pass, and graphs of
networks whose outputs are only read detached.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class LeftOutGroup:
    """A parameter group that is built and read by nothing: where, its name, and the optimizer that lacks it."""

    location: Location
    name: str
    optimizer: Location
    listed: str


OPTIMIZERS = lazy_pattern(r"(?:^|\.)(?:Adam\w*|SGD|RMSprop|Adagrad|Adadelta|RAdam|NAdam|Lion|Lamb|LARS)$")


def left_out_groups(source: Source) -> Iterator[LeftOutGroup]:
    """The parameter groups that a function builds after others that it appends to a list, and then never reads."""
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        for optimizer, listed in source.once(_optimizers_over_lists, scope):
            appended = _appended_to(listed, nodes)
            for name, made in _groups(nodes):
                reads = [each for each in _reads(name, nodes) if each.lineno > made.lineno]
                is_used = any(not _fills(each, nodes) for each in reads)
                is_last = made.lineno < optimizer.lineno and not is_used
                if is_last and any(each.lineno < made.lineno for each in appended):
                    yield LeftOutGroup(source.location(made), name, source.location(optimizer), listed)


@dataclass(frozen=True, slots=True)
class OtherParameters:
    """An optimizer named for one module that gets the parameters of another, which an optimizer above has already."""

    location: Location
    given: str
    meant: str
    first: Location


def optimizers_of_others(source: Source) -> Iterator[OtherParameters]:
    """Optimizers like `critic_optimizer = Adam(actor.parameters())` below the one of the actor.

    No other code asks for the parameters of the module that the name means, whose class or attribute is in the scope.
    """
    made = [each for each in source.nodes_of(ast.Assign) if _module_trained(each)]
    for one, other in pairwise(made):
        given = _module_trained(one)
        if given != _module_trained(other) or other.lineno - (one.end_lineno or 0) > LINES_BETWEEN:
            continue
        names = [unparse(each.targets[0]) for each in (one, other)]
        first, subject = (OF_OPTIMIZER.sub("", name.rpartition(".")[2], count=1) for name in names)
        if names[0] == names[1] or not subject or subject == names[1].rpartition(".")[2]:
            continue
        for meant in _modules_named(subject, given, first):
            if meant != given and _is_module(source, meant) and not _gives_parameters(source, meant, other):
                yield OtherParameters(source.location(other.value), given, meant, source.location(one.value))
                break


LINES_BETWEEN = 3
"""Optimizers of parts that train together are created one below the other."""

OF_OPTIMIZER = lazy_pattern(r"_?(?:optimi[sz]er|optim|opt)_?", re.IGNORECASE)


def _module_trained(made: ast.Assign) -> str:
    """The module whose parameters are the only ones that a statement makes an optimizer of; empty for others."""
    match made:
        case ast.Assign(targets=[ast.Name() | ast.Attribute()], value=ast.Call(func=optimizer, args=[params, *_])):
            match params:
                case ast.Call(func=ast.Attribute(value=module, attr="parameters"), args=[]):
                    return unparse(module) if OPTIMIZERS.search(unparse(optimizer)) else ""
                case _:
                    return ""
        case _:
            return ""


def _modules_named(subject: str, given: str, first: str) -> Iterator[str]:
    """What the name of an optimizer may mean, spelled like another module: `self.critic` next to `self.actor`.

    Also `model_beta`, where the optimizer of `model_alpha` is `optimizer_alpha` and this one is `optimizer_beta`.
    """
    owner, _, last = given.rpartition(".")
    letters = {"g": "generator", "d": "discriminator", "c": "critic", "a": "actor"}
    names = [subject, letters.get(subject.lower(), subject)]
    if len(subject) == 1 and last[-1:].isupper():
        names.append(last[:-1] + subject.upper())
    if first and re.search(rf"(?:^|_){re.escape(first)}(?:_|$)", last):
        names.insert(0, last.replace(first, subject))
    yield from (f"{owner}.{name}".strip(".") for name in dict.fromkeys(names))


def _is_module(source: Source, name: str) -> bool:
    """Whether a file has something of this name: an attribute that it uses, or a name that it sets or calls."""
    used = r"(?!\w)" if "." in name else r"\s*(?:=(?!=)|\(|,[^=\n]*=)"
    return source.contains(rf"(?<![\w.]){re.escape(name)}{used}")


def _gives_parameters(source: Source, name: str, at: ast.Assign) -> bool:
    """Whether code hands the parameters of a module on, where it runs together with a statement.

    Not a line that copies, clips or freezes them, one of another function about a local name, or an `else`.
    """
    made = source.location(at)
    for call in calls_of(source, {"parameters", "named_parameters"}):
        if not isinstance(call.func, ast.Attribute) or unparse(call.func.value) != name:
            continue
        if "." not in name and _function_around(source, call) is not _function_around(source, at):
            continue
        leaves = LEAVES.search(source.lines[call.lineno - 1]) is not None
        if not leaves and not blocks.are_exclusive(source, made, source.location(call)):
            return True
    return False


LEAVES = lazy_pattern(r"\bzip\(|clip_grad|\bfor\b")


def _function_around(source: Source, node: ast.stmt | ast.expr) -> ast.FunctionDef | None:
    around = (each for each in source.nodes_of(ast.FunctionDef) if each.lineno <= node.lineno <= (each.end_lineno or 0))
    return max(around, key=lambda each: each.lineno, default=None)


def _optimizers_over_lists(scope: ast.AST) -> list[tuple[ast.Call, str]]:
    """The calls that make an optimizer from a list with a name."""
    found: list[tuple[ast.Call, str]] = []
    for node in own_nodes(scope):
        match node:
            case ast.Call(func=made, args=[ast.Name(id=listed), *_]) if OPTIMIZERS.search(unparse(made)):
                found.append((node, listed))
            case _:
                pass
    return found


def _appended_to(listed: str, nodes: Sequence[ast.AST]) -> list[ast.Call]:
    return [
        node
        for node in nodes
        if isinstance(node, ast.Call) and unparse(node.func) == f"{listed}.append" and len(node.args) == 1
    ]


def _groups(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.Assign]]:
    """The dictionaries of rates that get their `params` afterwards, or with them, by their names."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)):
                named = {each.value for each in keys if isinstance(each, ast.Constant)}
                if "params" in named or ("lr" in named and _sets_params(name, nodes)):
                    yield name, node
            case _:
                pass


def _sets_params(name: str, nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(node, ast.Subscript) and unparse(node) == f"{name}['params']" for node in nodes)


def _reads(name: str, nodes: Sequence[ast.AST]) -> list[ast.Name]:
    return [node for node in nodes if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)]


def _fills(read: ast.Name, nodes: Sequence[ast.AST]) -> bool:
    """Whether a read only reaches into the group to fill it: `group["params"].append(weight)`."""
    return any(isinstance(node, ast.Subscript) and node.value is read for node in nodes)


@dataclass(frozen=True, slots=True)
class LossBlock:
    """A `with accelerator.accumulate(…)` that computes a loss and no gradients: the loss, its name, and the `with`."""

    location: Location
    name: str
    launcher: str
    around: Location


LOSS_NAME = lazy_pattern(r"(?:^|_)loss$")


def blocks_without_backward(source: Source) -> Iterator[LossBlock]:
    """The blocks under `accumulate` that assign a loss which nothing in them passes to a backward pass."""
    if not source.contains(r"\.accumulate\("):
        return
    for node in source.nodes_of(ast.With):
        match node.items:
            case [ast.withitem(context_expr=ast.Call(func=ast.Attribute(value=owner, attr="accumulate")))]:
                pass
            case _:
                continue
        inside = [part for statement in node.body for part in walk(statement)]
        calls = [each for each in inside if isinstance(each, ast.Call)]
        if any(_may_compute(each) for each in calls) or any(isinstance(each, ast.Return) for each in inside):
            continue
        losses = [
            each
            for each in inside
            if isinstance(each, ast.Assign)
            and isinstance(each.targets[0], ast.Name)
            and LOSS_NAME.search(each.targets[0].id)
            and isinstance(each.value, ast.BinOp | ast.Call)
        ]
        after = _is_used_later(source, node, losses[-1]) if losses else True
        if not after:
            target = losses[-1].targets[0]
            name = target.id if isinstance(target, ast.Name) else ""
            yield LossBlock(source.location(losses[-1]), name, unparse(owner), source.location(node))


MAY_COMPUTE = lazy_pattern(r"backward|step|train|update|optimi[sz]e|manual|fit|run")


def _may_compute(call: ast.Call) -> bool:
    """Whether a call may compute gradients: by its name, or because it gets the loss and is no method of it."""
    called = unparse(call.func)
    name = called.rpartition(".")[2]
    return MAY_COMPUTE.search(name) is not None


def _is_used_later(source: Source, block: ast.With, loss: ast.Assign) -> bool:
    """Whether code after the block may pass its loss to a backward pass."""
    target = loss.targets[0]
    name = target.id if isinstance(target, ast.Name) else ""
    end = block.end_lineno or block.lineno
    return any(
        call.lineno > end
        and "backward" in unparse(call.func)
        and any(isinstance(part, ast.Name) and part.id == name for part in walk(call))
        for call in source.nodes_of(ast.Call)
    )


@dataclass(frozen=True, slots=True)
class ThrownGraph:
    """A pass of a network whose output is only read behind `detach`: where, its code, and where it is detached."""

    location: Location
    network: str
    detached: Location


NETWORK = lazy_pattern(r"^(?:self\.)?\w*(?:teacher|target|momentum|ema|frozen|pretrained|reference)\w*$")


def thrown_graphs(source: Source) -> Iterator[ThrownGraph]:
    """The passes of teachers whose only result is detached wherever it is read, with autograd on."""
    if not source.contains(r"\.detach\("):
        return
    switched = source.cached(_switched_off)
    for function in source.nodes_of(ast.FunctionDef):
        nodes = own_nodes(function)
        if any(SWITCHES_GRAD.search(unparse(each)) for each in function.decorator_list):
            continue
        detached = [node for node in nodes if isinstance(node, ast.Call) and _is_detach(node)]
        without = [node for node in nodes if isinstance(node, ast.With) and SWITCHES_GRAD.search(_head(node))]
        for node in nodes if detached else ():
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called)) if (
                    _is_teacher(called) and last_name(called) not in switched
                ):
                    pass
                case _:
                    continue
            stores = [each for each in nodes if isinstance(each, ast.Name) and each.id == name]
            reads = [each for each in stores if isinstance(each.ctx, ast.Load)]
            behind = [call for call in detached if any(each is read for each in walk(call) for read in reads)]
            covered = {id(each) for call in behind for each in walk(call)}
            is_off = any(node in walk(each) for each in without)
            is_once = len(stores) - len(reads) == 1
            if reads and is_once and not is_off and all(id(each) in covered for each in reads):
                yield ThrownGraph(source.location(node.value), unparse(called), source.location(behind[0]))


def _switched_off(source: Source) -> frozenset[str]:
    """The functions of a file that switch autograd off for themselves: `@torch.no_grad()`."""
    marked = (each for each in source.nodes_of(ast.FunctionDef) if each.decorator_list)
    off = (each for each in marked if any(SWITCHES_GRAD.search(unparse(mark)) for mark in each.decorator_list))
    return frozenset(each.name for each in off)


SWITCHES_GRAD = lazy_pattern(r"no_grad|inference_mode|set_grad_enabled|eval_decorator")


def _head(node: ast.With) -> str:
    return " ".join(unparse(item.context_expr) for item in node.items)


def _is_detach(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "detach" and not call.args


def _is_teacher(called: ast.expr) -> bool:
    return NETWORK.search(unparse(called)) is not None


DRAWS = frozenset({"save_image", "make_grid", "imshow", "imsave", "add_image", "add_images", "ToPILImage"})
"""Functions that plot or save the pictures that they get."""


@dataclass(frozen=True, slots=True)
class DrawnPass:
    """A call whose result is only drawn or saved as a picture: where, and the call that gets it."""

    location: Location
    drawn: Location


def drawn_passes(source: Source) -> Iterator[DrawnPass]:
    """The calls, of a network or of anything else, that give nothing but a picture, with autograd on."""
    if not any(name in source.text for name in DRAWS):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        draws = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) in DRAWS]
        marks = scope.decorator_list if isinstance(scope, ast.FunctionDef) else []
        if not draws or any(SWITCHES_GRAD.search(unparse(each)) for each in marks):
            continue
        without = [node for node in nodes if isinstance(node, ast.With) and SWITCHES_GRAD.search(_head(node))]
        off = {id(part) for each in without for part in walk(each)}
        for draw in draws:
            given = [part for value in (*draw.args, *(each.value for each in draw.keywords)) for part in walk(value)]
            if any(isinstance(part, ast.Attribute) and part.attr in {"data", "detach"} for part in given):
                # As the DCGAN of PyTorch's own examples: its graph goes with the next line.
                continue
            names = [part for part in given if isinstance(part, ast.Name)]
            calls = [part for part in given if isinstance(part, ast.Call) and last_name(part.func) not in DRAWS]
            made = (call for name in names for call in _only_drawn(nodes, draws, name))
            for call in (*calls, *made):
                if id(call) not in off:
                    yield DrawnPass(source.location(call), source.location(draw))


def _only_drawn(nodes: Sequence[ast.AST], draws: Sequence[ast.Call], read: ast.Name) -> Sequence[ast.Call]:
    """The calls that give a name its value, if all that reads it before it is bound again draws it."""
    own = sorted((node for node in nodes if isinstance(node, ast.Name) and node.id == read.id), key=_place)
    before = [each for each in own if not isinstance(each.ctx, ast.Load) and _place(each) < _place(read)]
    # A name that is read before it is bound may be read in the next iteration.
    if not before or isinstance(own[0].ctx, ast.Load):
        return ()
    made = next((n for n in nodes if isinstance(n, ast.Assign) and n.targets[0] is before[-1]), None)
    later = own[own.index(before[-1]) + 1 :]
    until = next((at for at, each in enumerate(later) if not isinstance(each.ctx, ast.Load)), len(later))
    drawn = {id(part) for draw in draws for part in walk(draw)}
    if made is None or not all(id(each) in drawn for each in later[:until]):
        return ()
    return [part for part in walk(made.value) if isinstance(part, ast.Call)]


def _place(node: ast.Name) -> tuple[int, int]:
    return node.lineno, node.col_offset
