"""Preprocessors that are fitted on all rows after these were split, and applied to the parts.

train, test = rows[:800], rows[800:]
scaler.fit(rows)
train, test = scaler.transform(train), scaler.transform(test)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field

from lintrain.analysis import rows_in_code
from lintrain.analysis.evaluations import EVALUATION_WORDS
from lintrain.analysis.fitted_names import LEARNERS
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

JOINS = frozenset({"concat", "concatenate", "vstack", "cat", "append"})
CONDITIONS = ast.Compare | ast.UnaryOp | ast.BinOp | ast.BoolOp
VIEWS = frozenset({"iloc", "loc", "values"})


@dataclass(frozen=True, slots=True)
class WholeFit:
    """A `fit` on all rows: the class that is fitted, where, and where the rows were split before."""

    learner: str
    location: Location
    split: Location


@dataclass(slots=True)
class _Block:
    """What the names of one block refer to: whole rows that were split, their parts, preprocessors and their fits."""

    columns: frozenset[str]
    splits: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    parts: dict[str, str] = field(default_factory=dict[str, str])
    learners: dict[str, str] = field(default_factory=dict[str, str])
    fits: dict[str, tuple[ast.Call, str]] = field(default_factory=dict[str, tuple[ast.Call, str]])
    heads: dict[tuple[str, str], ast.expr] = field(default_factory=dict[tuple[str, str], ast.expr])
    chosen: dict[str, list[tuple[str, ast.expr]]] = field(default_factory=dict[str, list[tuple[str, ast.expr]]])


def fitted_on_whole(pipeline: Pipeline, splits: set[Location]) -> Iterator[WholeFit]:
    """The fits on rows that are already split, if a part of these is transformed by them afterwards."""
    source = pipeline.source
    own = [call for call in pipeline.calls if call.path.startswith("sklearn.")]
    classes = {call.location: name for call in own if (name := call.path.rpartition(".")[2]) in LEARNERS}
    if not classes or not source.contains(r"\.transform\("):
        return
    for body in (source.tree.body, *(function.body for function in source.nodes_of(ast.FunctionDef))):
        block = _Block(source.cached(rows_in_code.column_lists))
        for statement in _in_order(body):
            yield from _of_statement(source, statement, classes, splits, block)


def _in_order(body: list[ast.stmt]) -> Iterator[ast.Assign | ast.AnnAssign | ast.Expr | ast.Return]:
    for statement in body:
        if rows_in_code.runs_in_order(statement):
            yield from _in_order(statement.body)
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return) and statement.value is not None:
            yield statement


def _of_statement(
    source: Source,
    statement: ast.Assign | ast.AnnAssign | ast.Expr | ast.Return,
    classes: dict[Location, str],
    splits: set[Location],
    block: _Block,
) -> Iterator[WholeFit]:
    calls = [each for each in walk(statement) if isinstance(each, ast.Call)]
    for call in sorted(calls, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0)):
        yield from _of_call(source, call, classes, block)
    if not isinstance(statement, ast.Assign):
        return
    cut = list(_cuts(statement))
    for name in rows_in_code.bound_by(statement.targets):
        for known in (block.splits, block.parts, block.learners, block.fits):
            known.pop(name, None)
    _note_slices(statement, cut, block)
    if isinstance(statement.value, ast.Call):
        _note_split(source, statement, statement.value, splits, block)
        _note_learner(source, statement, statement.value, classes, block)


def _of_call(source: Source, call: ast.Call, classes: dict[Location, str], block: _Block) -> Iterator[WholeFit]:
    """Record a fit on whole rows; report it where a part of these rows is transformed."""
    if not isinstance(call.func, ast.Attribute) or not call.args:
        return
    owner, method = rows_in_code.code_of(call.func.value), call.func.attr
    if method in {"fit", "fit_transform"}:
        if owner in block.learners:
            block.fits.pop(owner, None)
            if rows := _whole(call.args[0], block):
                block.fits[owner] = call, rows
    elif method == "transform" and owner in block.fits:
        fit, rows = block.fits[owner]
        given = rows_in_code.rows_behind(call.args[0], block.columns)
        if block.parts.get(given) == rows and rows in block.splits:
            yield WholeFit(block.learners[owner], source.location(fit), source.location(block.splits[rows]))
            del block.fits[owner]


def _whole(given: ast.expr, block: _Block) -> str:
    """The rows that are split and all given to a fit, also joined from their parts; empty for others."""
    match given:
        case ast.Call(args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_], func=ast.Attribute(attr=name)):
            names = [rows_in_code.rows_behind(part, block.columns) for part in parts] if name in JOINS else []
            rows = {block.parts.get(each, "") for each in names}
            is_all = len(set(names)) > 1 and len(rows) == 1 and any(words_of(each) & EVALUATION_WORDS for each in names)
            return rows.pop() if is_all else ""
        case _:
            found = rows_in_code.rows_behind(given, block.columns)
            return found if found in block.splits else ""


def _note_learner(
    source: Source, statement: ast.Assign, made: ast.Call, classes: dict[Location, str], block: _Block
) -> None:
    """Record the name of a preprocessor, which may be fitted where it is made: `scaler = PCA(8).fit(rows)`."""
    name = rows_in_code.code_of(statement.targets[0])
    match made:
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="fit"), args=[given, *_]):
            learner = classes.get(source.location(inner))
            if learner is not None and name and (rows := _whole(given, block)):
                block.fits[name] = made, rows
        case _:
            learner = classes.get(source.location(made))
    if learner is not None and name:
        block.learners[name] = learner


def _note_split(source: Source, statement: ast.Assign, call: ast.Call, splits: set[Location], block: _Block) -> None:
    """Record what `train_test_split` divides, and the names of the parts: two for each of its arguments."""
    if source.location(call) not in splits or not isinstance(statement.targets[0], ast.Tuple):
        return
    names = [rows_in_code.code_of(each) for each in statement.targets[0].elts]
    for number, given in enumerate(call.args):
        rows, parts = rows_in_code.rows_behind(given), names[2 * number : 2 * number + 2]
        if rows and rows not in names and len(names) == 2 * len(call.args):
            block.splits[rows] = call
            block.parts |= dict.fromkeys(parts, rows)


def _cuts(statement: ast.Assign) -> Iterator[tuple[str, str, ast.Subscript]]:
    """The names that a statement gives parts of rows, with the code of the rows and the part."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            pairs = list(zip(names, values, strict=True))
        case ast.Assign(targets=[name], value=value):
            pairs = [(name, value)]
        case _:
            pairs = []
    for name, value in pairs:
        part = _bare(value)
        if isinstance(part, ast.Subscript):
            owner = part.value
            if isinstance(owner, ast.Attribute) and owner.attr in VIEWS:
                owner = owner.value
            yield rows_in_code.code_of(name), rows_in_code.code_of(owner), part


def _bare(node: ast.expr) -> ast.expr:
    """What an expression is another form of: `rows[:n]` of `rows[:n].copy()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner)) | ast.Attribute(value=inner, attr="values"):
            return _bare(inner)
        case _:
            return node


def _note_slices(statement: ast.Assign, cut: list[tuple[str, str, ast.Subscript]], block: _Block) -> None:
    """Record rows that slices or conditions divide, if one part begins where another ends, or is named for a test."""
    bound = set(rows_in_code.bound_by(statement.targets))
    for name, rows, part in cut:
        if not name or not rows or rows in bound:
            continue
        bounds = part.slice.elts[0] if isinstance(part.slice, ast.Tuple) and part.slice.elts else part.slice
        if isinstance(bounds, ast.Slice):
            lower, upper = (unparse(each) if each is not None else "" for each in (bounds.lower, bounds.upper))
            head = block.heads.get((rows, lower))
            if rows_in_code.begins(bounds):
                block.heads[rows, upper] = part
            elif not lower or bounds.step is not None:
                continue  # columns of all rows
            block.parts[name] = rows
            if head is not None and (head.lineno == part.lineno or words_of(name) & EVALUATION_WORDS):
                block.splits[rows] = head
        elif isinstance(bounds, CONDITIONS) and not isinstance(part.slice, ast.Tuple):
            block.parts[name] = rows
            others = block.chosen.setdefault(rows, [])
            others.append((name, part))
            is_test = [bool(words_of(each) & EVALUATION_WORDS) for each, _ in others]
            if any(is_test) and not all(is_test):
                block.splits[rows] = others[0][1]
