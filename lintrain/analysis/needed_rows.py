"""Whether code fails without the batch axis of a tensor that was squeezed, or computes another number."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import field

from lintrain.analysis.script_text import networks_of
from lintrain.analysis.single_rows import KEEP_ROWS
from lintrain.analysis.squeezes import KEEP_AXES, MODEL
from lintrain.source.nodes import unparse, walk, whole_number
from lintrain.source.project_search import is_part_of_network
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

KEEPING = KEEP_ROWS | KEEP_AXES | {"abs", "clamp", "clone", "contiguous", "exp", "log", "log_softmax", "pow", "type"}
"""Methods and functions that leave the axes of a tensor as they are, and so the missing one missing."""

BY_AXIS = frozenset(
    {"amax", "amin", "argmax", "argmin", "argsort", "chunk", "cumsum", "flatten", "gather", "index_select", "max"}
    | {"log_softmax", "mean", "median", "min", "narrow", "norm", "normalize", "permute", "select", "size", "softmax"}
    | {"sort", "split", "std", "sum", "topk", "transpose", "unbind", "unsqueeze", "var"}
)
"""Methods and functions that get an axis by its number, which is another one when the first is missing."""

NEED_AXES = frozenset({"bmm", "conv1d", "conv2d", "conv3d", "einsum", "interpolate", "pad_sequence", "rearrange", "t"})
"""Functions that ask for a certain number of axes."""

NUMBER_FIRST = frozenset({"chunk", "norm", "normalize", "split", "topk"})
"""Those of them whose first argument is another number."""

JOINS = frozenset({"cat", "concat", "concatenate", "stack", "vstack"})

READS_ROWS = frozenset({"enumerate", "len", "list", "zip"})

LOSS = lazy_pattern(r"loss|crit|bce|entropy", re.IGNORECASE)

SPREADS = r"\b{name}\s*=\s*[\w.]*(?:MSE|L1|Huber)\w*\("
"""A loss that broadcasts what it gets, so that one row without its axis gives the same number."""

SPREADING = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})

OWN_AXES = lazy_pattern(r"_like\(|\.size\(|\.shape\b|squeeze|view\(|reshape\(")
"""Labels that are made with the axes of the output, or lose the same ones."""

LAYER = lazy_pattern(r"(?m)(?:^|\.)(?:Lazy)?(?:Linear\(|BatchNorm|Conv\w*\d|LSTM|GRU|RNN|Flatten\()")
ONE_NUMBER = lazy_pattern(r"Linear\([^,]+,\s*(?:out_features=)?1\s*[,)]")
"""A layer whose single output is the same for a row without its axis as its label."""


@dataclass(slots=True)
class _Reading:
    """How the functions that are read call what lacks the axis, and what the current one returns without it.

    None is the whole result of a call, a number one entry of a tuple.
    """

    squeeze: ast.expr
    layers: dict[str, str]
    text: Source
    calls: dict[str, set[int | None]] = field(default_factory=dict[str, "set[int | None]"])
    returned: set[int | None] = field(default_factory=set["int | None"])
    is_needed: bool = False


def needs_rows(source: Source, owner: ast.ClassDef, squeeze: ast.expr) -> bool:
    """Whether the network that squeezes a batch, or code of the same file that calls it, needs the axis of the rows."""
    methods = [each for each in owner.body if isinstance(each, ast.FunctionDef)]
    reading = _Reading(squeeze, _layers(owner), source)
    for _ in range(3):  # a method, one that calls it, and one that calls that
        before = len(reading.calls)
        for method in methods:
            reading.returned = set()
            _read(reading, method.body, set())
            if reading.returned:
                names = [f"self.{method.name}", *(["self"] if method.name == "forward" else [])]
                reading.calls.update(dict.fromkeys(names, reading.returned))
        if reading.is_needed or len(reading.calls) == before:
            break
    if reading.is_needed or not reading.calls:
        return reading.is_needed
    # The output of a part of another network goes on to its layers.
    is_whole = None in reading.calls.get("self", ())
    return (is_whole and is_part_of_network(source, owner.name)) or _is_needed_by_callers(reading, owner)


def _layers(owner: ast.ClassDef) -> dict[str, str]:
    """The code that makes each layer of a network, by its attribute; that of all branches where they differ."""
    found: dict[str, str] = {}
    for node in walk(owner):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=made)):
                given = list(zip(targets, made, strict=False))
            case ast.Assign(targets=targets, value=value):
                given = [(target, value) for target in targets]
            case _:
                continue
        for target, value in given:
            if isinstance(target, ast.Attribute) and isinstance(value, ast.Call):
                found[unparse(target)] = f"{found.get(unparse(target), '')}\n{unparse(value)}"
    return found


def _is_needed_by_callers(reading: _Reading, owner: ast.ClassDef) -> bool:
    """Whether code of the file outside a network needs the axis in what its `forward` returns."""
    source = reading.text
    inside = set(walk(owner))
    names = {
        unparse(target)
        for node in source.nodes_of(ast.Assign)
        if any(isinstance(part, ast.Call) and unparse(part.func) == owner.name for part in walk(node.value))
        for target in node.targets
    }
    if len(networks_of(source)) == 1:  # a parameter gets the only network
        names |= {name for each in source.nodes_of(ast.Call) if MODEL.search(name := unparse(each.func))}
    outputs = {call.removeprefix("self"): entries for call, entries in reading.calls.items()}
    reading.calls = {f"{name}{call}": outputs[call] for name in (*names, f"{owner.name}()") for call in outputs}
    if source.is_partial and not any(unparse(each.func) in reading.calls for each in source.nodes_of(ast.Call)):
        return None in outputs.get("", ())  # a piece of a script shows no caller
    for function in source.nodes_of(ast.FunctionDef):
        if function not in inside:
            _read(reading, function.body, set())
    _read(reading, source.tree.body, set())
    return reading.is_needed


def _read(reading: _Reading, body: Sequence[ast.stmt], lacking: set[str]) -> set[str]:
    """The names that lack the axis after some statements; notes in the reading whether one of them needs it."""
    for statement in body:
        parts = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr)]
        if any(_needs(reading, node, lacking) for part in parts for node in walk(part)):
            reading.is_needed = True
        match statement:
            case ast.If(body=then, orelse=other):
                lacking = _read(reading, then, set(lacking)) | _read(reading, other, set(lacking))
            case ast.For(iter=over, body=inner):
                reading.is_needed |= _lacks(reading, over, lacking)
                lacking = lacking | _read(reading, inner, set(lacking))
            case ast.While(body=inner) | ast.With(body=inner) | ast.Try(body=inner):
                lacking = _read(reading, inner, lacking)
            case ast.Return(value=ast.Tuple(elts=items)):
                reading.returned |= {n for n, each in enumerate(items) if _lacks(reading, each, lacking)}
            case ast.Return(value=ast.expr() as value) if _lacks(reading, value, lacking):
                reading.returned.add(None)
            case ast.Assign(targets=[target], value=value):
                lacking = _after(reading, target, value, lacking)
            case ast.AugAssign(target=ast.Name(id=name), value=ast.List(elts=[only])):
                reading.is_needed |= _lacks(reading, only, lacking) and _is_joined(reading, name)
            case _:
                pass
    return lacking


def _after(reading: _Reading, target: ast.expr, value: ast.expr, lacking: set[str]) -> set[str]:
    """The names that lack the axis after an assignment."""
    match target, value:
        case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
            given = {unparse(name) for name, each in zip(names, values, strict=True) if _lacks(reading, each, lacking)}
        case ast.Tuple(elts=names), ast.Call(func=func):
            entries = reading.calls.get(unparse(func), set())
            given = {unparse(name) for number, name in enumerate(names) if number in entries}
        case _:
            given = {unparse(target)} if _lacks(reading, value, lacking) else set[str]()
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return (lacking - {unparse(each) for each in names}) | given


def _lacks(reading: _Reading, node: ast.expr, lacking: set[str]) -> bool:
    """Whether the value of an expression is without the axis of the rows."""
    match node:
        case _ if node is reading.squeeze:
            return True
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            return unparse(node) in lacking
        case ast.Attribute(value=owner, attr=name):
            return name in KEEPING and _lacks(reading, owner, lacking)
        case ast.Call(func=func) if None in reading.calls.get(unparse(func), ()):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "F" | "np"), attr=name), args=[first, *_]):
            return name in KEEPING and _lacks(reading, first, lacking)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[first, *_]):
            return _lacks(reading, first, lacking)
        case ast.Call(func=ast.Name(id=name), args=[first, *_]):
            return MODEL.search(name) is not None and _lacks(reading, first, lacking)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return name in KEEPING and _lacks(reading, owner, lacking)
        case ast.UnaryOp(operand=inner):
            return _lacks(reading, inner, lacking)
        case ast.BinOp(left=left, right=right):
            sides = [_lacks(reading, each, lacking) for each in (left, right)]
            return all(sides) or (any(sides) and any(isinstance(each, ast.Constant) for each in (left, right)))
        case _:
            return False


def _needs(reading: _Reading, node: ast.AST, lacking: set[str]) -> bool:
    """Whether an expression asks a tensor that lacks the axis of the rows for it, or for another one by its number."""
    match node:
        case ast.Subscript(value=ast.Attribute(value=owner, attr="shape")):
            return _lacks(reading, owner, lacking)
        case ast.Subscript(value=owner, slice=index):
            return unparse(index)[:4] not in {"None", "..."} and _lacks(reading, owner, lacking)
        case ast.comprehension(iter=over):
            return _lacks(reading, over, lacking)
        case ast.Call(args=[ast.Tuple(elts=items) | ast.List(elts=items), *axis]) if _last(node) in JOINS:
            without = [_lacks(reading, each, lacking) for each in items]
            return any(without) and (not all(without) or _names_axis(axis, node.keywords))
        case ast.Call(args=given) if any(_lacks(reading, each, lacking) for each in given):
            return _is_needed_by_call(reading, node, lacking)
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=given) if _lacks(reading, owner, lacking):
            return name in NEED_AXES or _is_by_axis(name, given, node.keywords)
        case _:
            return False


def _last(call: ast.Call) -> str:
    return unparse(call.func).rpartition(".")[2]


def _is_needed_by_call(reading: _Reading, call: ast.Call, lacking: set[str]) -> bool:
    """Whether a call that gets a tensor without the axis needs it."""
    name, last = unparse(call.func), _last(call)
    if last in NEED_AXES or name in READS_ROWS or any(each.arg == "grad_outputs" for each in call.keywords):
        return True
    if LAYER.search(reading.layers.get(name, name)):
        return not ONE_NUMBER.search(reading.layers.get(name, ""))
    if name.startswith(("torch.", "F.", "nn.functional.", "np.")) and _is_by_axis(last, call.args[1:], call.keywords):
        return True
    if last in {"append", "extend"} and isinstance(call.func, ast.Attribute):
        return last == "extend" or _is_joined(reading, unparse(call.func.value))
    return _is_loss(reading, call, lacking)


def _is_by_axis(name: str, given: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> bool:
    return name in BY_AXIS and _names_axis(given[1:] if name in NUMBER_FIRST else given, keywords)


def _names_axis(given: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> bool:
    """Whether an axis is named by its number from the front, or as the one before the last."""
    named = [*given, *(each.value for each in keywords if each.arg in {"dim", "axis", "dim0", "start_dim"})]
    return any(whole_number(each) not in {None, -1} for each in named)


def _is_joined(reading: _Reading, rows: str) -> bool:
    """Whether a list of tensors becomes one tensor: `torch.cat(rows)`."""
    return reading.text.contains(rf"\b(?:{'|'.join(sorted(JOINS))})\(\s*[\[(]?\s*{re.escape(rows)}\b")


def _is_loss(reading: _Reading, call: ast.Call, lacking: set[str]) -> bool:
    """Whether a call compares a tensor that lacks the axis with labels that keep it."""
    if not fails_without_rows(reading.text, call):
        return False
    labels = [each for each in call.args[:2] if not _lacks(reading, each, lacking)]
    return any(not has_own_axes(reading.text, each) for each in labels)


def fails_without_rows(source: Source, call: ast.Call) -> bool:
    """Whether a call is a loss that needs the axis of the rows: one of equal numbers broadcasts a single row."""
    last = _last(call)
    return LOSS.search(last) is not None and not (
        last in SPREADING or source.contains(SPREADS.format(name=re.escape(last)))
    )


def has_own_axes(source: Source, labels: ast.expr) -> bool:
    """Whether labels are made with the axes of an output, or lose the same ones: `torch.ones_like(output)`."""
    if not isinstance(labels, ast.Name):
        return OWN_AXES.search(unparse(labels)) is not None
    return source.contains(rf"\b{labels.id}\s*=[^=\n]*(?:{OWN_AXES.pattern})")
