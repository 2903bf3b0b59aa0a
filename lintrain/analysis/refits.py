"""Preprocessors that are fitted again, on test rows: the same object, another of its class, or a function.

Names of one block are followed; loops over a pair of training and test rows count, and methods that fit at each call.
For a fix of a fit before the split: whether both are statements next to each other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis.evaluations import EVALUATION_WORDS, TRAINING_WORDS
from lintrain.analysis.fitted_names import LEARNERS
from lintrain.analysis.leaks import SPLITS
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.blocks import PlainFunction, plain_functions
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

PREPROCESSORS = LEARNERS | {"CountVectorizer", "LabelEncoder", "OneHotEncoder", "OrdinalEncoder"}


ADAPTED = frozenset(
    {"TextVectorization", "Normalization", "StringLookup", "IntegerLookup", "CategoryEncoding", "Discretization"}
)
"""Layers of Keras that learn from rows by `adapt`, and forget what they learnt at a second call."""

ALIGNS = r"reindex|\.align\(|concat\(|append\(|Categorical|category|(?:[=\[]|in|set\(|difference\() *\w+\.columns"
"""Code that may give two frames the same columns before or after `get_dummies`."""

TEST_ENDS = ("_test", "_val", "_valid", "_validation", "_dev", "_eval")

SCALES = frozenset({"scale", "minmax_scale", "maxabs_scale", "robust_scale", "quantile_transform", "power_transform"})
"""Functions of scikit-learn that fit a preprocessor on what they are given."""


def has_classifier(source: Source) -> bool:
    """Whether a file fits a classifier of scikit-learn, perhaps on features of a network that another file trains."""
    return source.contains(r"\bsklearn\b") and source.contains(r"\.(?:partial_fit|predict|predict_proba|score)\(")


@dataclass(frozen=True, slots=True)
class Refit:
    """A second fit of a preprocessor: its code, where, and where it was fitted on training rows.

    `callee` is None if another object of the same class, or a function, is fitted.
    """

    learner: str
    location: Location
    callee: Location | None
    first: Location
    is_adapted: bool = False
    """Whether a layer of Keras learns again, and forgets the training rows."""


@dataclass(slots=True)
class _Fits:
    """What the statements of one block fit: preprocessors by name, rows that were split off, and rows of training.

    `classes` are those of names and calls; `held_out` are test rows with the training rows of the same split.
    """

    source: Source
    made: dict[Location, str]
    helpers: set[str]
    learners: dict[str, Location | None]
    classes: dict[str, str]
    held_out: dict[str, str]
    trained: list[tuple[str, ast.expr, Location, str]]
    target: str = ""
    """The name that the statement binds."""


def refitted(pipeline: Pipeline) -> Iterator[Refit]:
    """Each second fit on rows that were split off for testing, or have a name for it; names of one block."""
    source = pipeline.source
    names = ((call.location, call.path) for call in pipeline.calls if call.path.startswith("sklearn."))
    made = {at: name for at, path in names if (name := path.rpartition(".")[2]) in PREPROCESSORS | SCALES}
    if ".adapt(" in source.text:
        layers = ((call, unparse(call.func).rpartition(".")[2]) for call in source.nodes_of(ast.Call))
        made |= {source.location(call): name for call, name in layers if name in ADAPTED}
    splits = {call.location for call in pipeline.calls if call.path in SPLITS}
    helpers = {name for name, each in source.cached(plain_functions).items() if _fits_itself(source, each, made)}
    functions = source.nodes_of(ast.FunctionDef)
    helpers |= {f".{function.name}" for function in functions if _fits_own_part(function)}
    for body in [source.tree.body, *(function.body for function in functions)]:
        yield from _refits_in_block(body, splits, _Fits(source, made, helpers, {}, {}, {}, []))


def _fits_itself(source: Source, function: PlainFunction, made: dict[Location, str]) -> bool:
    """Whether each call of a function certainly fits a preprocessor of its own on its first parameter."""
    first = function.node.args.args[0].arg if function.node.args.args else ""
    fits = _Fits(source, made, set(), {}, {}, {}, [])
    for statement in function.node.body:
        call = statement.value if isinstance(statement, ast.Assign | ast.Expr | ast.Return) else None
        if not isinstance(call, ast.Call):
            continue
        found = _fitted(call, fits)
        if found is not None and first and unparse(found[1]) == first:
            return True
        _bind(statement, call, fits, set())
    return False


def _fits_own_part(method: ast.FunctionDef) -> bool:
    """Whether a method returns `self.vectorizer.fit_transform(texts)` of its argument, at each call."""
    names = [each.arg for each in method.args.args]
    match method.body[-1]:
        case ast.Return(
            value=ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr="fit_transform"),
                args=[ast.Name(id=rows)],
            )
        ):
            return len(names) == 2 and rows == names[1]
        case _:
            return False


def _refits_in_block(body: list[ast.stmt], splits: set[Location], fits: _Fits) -> Iterator[Refit]:
    for statement in body:
        for inner in _blocks_in(statement):
            yield from _refits_in_block(inner, splits, fits)
        if isinstance(statement, ast.For):
            yield from _in_loop(statement, fits)
        value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
        is_named = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        fits.target = unparse(statement.targets[0]) if is_named and isinstance(statement, ast.Assign) else ""
        # `pd.DataFrame(scaler.fit_transform(rows))` fits as well.
        for call in walk(value) if value is not None else ():
            if isinstance(call, ast.Call):
                yield from _fit(call, fits)
        _bind(statement, value, fits, splits)


def _blocks_in(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks that run in order with those around them; of two branches only one runs."""
    match statement:
        case ast.If(body=body, orelse=[]) | ast.With(body=body) | ast.Try(body=body) | ast.For(body=body):
            return [body]
        case _:
            return []


def _in_loop(loop: ast.For, fits: _Fits) -> Iterator[Refit]:
    """What is fitted on each of the rows in `for rows in (train, test)`."""
    rows = loop.iter.elts if isinstance(loop.iter, ast.Tuple | ast.List) else []
    if len(rows) != 2 or not isinstance(loop.target, ast.Name) or not _are_halves(rows[0], rows[1], fits):
        return
    calls = [node for statement in loop.body for node in walk(statement) if isinstance(node, ast.Call)]
    fitted = ((call, found) for call in calls if (found := _fitted(call, fits)) is not None)
    for call, (name, given, _) in fitted:
        if _root(given) == loop.target.id:
            learner = name or unparse(call.func).removesuffix(".fit_transform")
            yield Refit(learner, fits.source.location(call), None, fits.source.location(rows[0]))
            return


def _bind(statement: ast.stmt, call: ast.expr | None, fits: _Fits, splits: set[Location]) -> None:
    """Record which names a statement gives preprocessors, and parts of a split."""
    here = fits.source.location(call) if isinstance(call, ast.Call) else None
    for target in statement.targets if isinstance(statement, ast.Assign) else []:
        if isinstance(target, ast.Name):
            fits.learners.pop(target.id, None)
            if here in fits.made:
                fits.learners[target.id], fits.classes[target.id] = None, fits.made[here]
        elif isinstance(target, ast.Tuple) and here in splits:
            pairs = zip(target.elts[1::2], target.elts[::2], strict=False)
            fits.held_out |= {unparse(test): unparse(train) for test, train in pairs}


def _fit(call: ast.Call, fits: _Fits) -> Iterator[Refit]:
    """The refit that a call is; a first fit is noted."""
    found = _fitted(call, fits)
    if found is None:
        return
    (name, rows, kind), here = found, fits.source.location(call)
    is_test, transforms = _is_test(rows, fits), isinstance(call.func, ast.Attribute) and call.func.attr != "fit"
    first = fits.learners.get(name)
    if first is not None and is_test and transforms:
        is_adapted = kind in ADAPTED
        yield Refit(name, here, None if is_adapted else fits.source.location(call.func), first, is_adapted)
        return
    if name in fits.learners and first is None and not is_test:
        fits.learners[name] = here
    if not is_test:
        fits.trained.append((kind, rows, here, fits.target))
    elif transforms or not name:
        same = (
            at
            for each, train, at, target in fits.trained
            if each == kind and (_are_halves(train, rows, fits) or _are_named_halves(train, rows, target, fits))
        )
        if (at := next(same, None)) is not None:
            learner = re.sub(r"\.(fit_transform|fit_on_texts)$", "", unparse(call.func))
            yield Refit(name or learner, here, None, at)


def _fitted(call: ast.Call, fits: _Fits) -> tuple[str, ast.expr, str] | None:
    """The name of the preprocessor that a call fits, if it has one, the rows, and its class or function."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="fit" | "fit_transform" | "adapt"), args=[rows, *_]
        ) if name in fits.learners:
            return name, rows, fits.classes[name]
        case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr="fit_transform"), args=[rows, *_]):
            kind = fits.made.get(fits.source.location(made))
            return ("", rows, kind) if kind is not None else None
        case ast.Call(args=[rows, *_]) if fits.made.get(fits.source.location(call)) in SCALES:
            return "", rows, fits.made[fits.source.location(call)]
        case ast.Call(func=ast.Name(id=name), args=[rows]) if name in fits.helpers:
            return "", rows, name
        case ast.Call(func=ast.Attribute(attr=name), args=[rows]) if f".{name}" in fits.helpers:
            return "", rows, name
        case ast.Call(func=ast.Attribute(attr="get_dummies") | ast.Name(id="get_dummies"), args=[rows, *_]) if (
            not fits.source.contains(ALIGNS)
        ):
            return "", rows, "get_dummies"
        case ast.Call(func=ast.Attribute(attr="fit_on_texts"), args=[rows]):
            return "", rows, "fit_on_texts"
        case _:
            return None


def _root(rows: ast.expr) -> str:
    """The name behind `x_test`, `x_test.values` and `x_test[columns]`; empty for other code."""
    while isinstance(rows, ast.Subscript | ast.Attribute | ast.Call):
        match rows:
            case ast.Call(func=ast.Attribute(attr="transform"), args=[given, *_]):
                rows = given
            case ast.Call(func=func):
                rows = func
            case _:
                rows = rows.value
    return rows.id if isinstance(rows, ast.Name) else ""


def _is_test(rows: ast.expr, fits: _Fits) -> bool:
    """Whether rows were split off, or are named for an evaluation and not for training."""
    name = _root(rows)
    words = words_of(name)
    if not words & (EVALUATION_WORDS | TRAINING_WORDS):
        words = words_of(fits.target)
    return name in fits.held_out or (bool(words & EVALUATION_WORDS) and not words & TRAINING_WORDS)


def _are_halves(train: ast.expr, test: ast.expr, fits: _Fits) -> bool:
    """Whether two expressions are the same columns of training and of test rows, by their split or their names."""
    one, other = _root(train), _root(test)
    codes = [re.sub(rf"\b{name}\b", "rows", unparse(rows)) for name, rows in ((one, train), (other, test))]
    ones, others = words_of(one), words_of(other)
    are_named = bool(ones & TRAINING_WORDS) and ones - TRAINING_WORDS == others - EVALUATION_WORDS
    # `x` and `x_test`, without a word for the rows of the training.
    is_marked = bool(others & EVALUATION_WORDS) and other in {one + end for end in TEST_ENDS}
    return codes[0] == codes[1] and (fits.held_out.get(other) == one or are_named or is_marked)


def _are_named_halves(train: ast.expr, test: ast.expr, target: str, fits: _Fits) -> bool:
    """Whether the same columns of two frames become a pair by their names: `y_train` and `y_test`."""
    one, other = _root(train), _root(test)
    codes = {re.sub(rf"\b{name}\b", "rows", unparse(rows)) for name, rows in ((one, train), (other, test))}
    ones, others = words_of(target), words_of(fits.target)
    are_named = bool(ones & TRAINING_WORDS) and ones - TRAINING_WORDS == others - EVALUATION_WORDS
    return len(codes) == 1 and one != other and are_named and bool(others & EVALUATION_WORDS)


@dataclass(frozen=True, slots=True)
class FitAndSplit:
    """`x = learner.fit_transform(rows)` above `a, b, … = train_test_split(x, …)`, the only use of `x`."""

    learner: str
    statement: Location
    rows: Location
    given: Location
    parts: tuple[str, str]


def fit_and_split(pipeline: Pipeline, fit: Location, split: Location) -> FitAndSplit | None:
    """The statements around a fit and a split, if they have exactly this form."""
    source = pipeline.source_of(fit)
    match blocks.statement_at(pipeline, fit), blocks.statement_at(pipeline, split):
        case (
            ast.Assign(
                targets=[ast.Name(id=scaled)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=learner), attr="fit_transform"), args=[rows], keywords=[]
                ),
            ) as learned,
            ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id=kept), ast.Name(id=held_out), *_])],
                value=ast.Call(args=[ast.Name(id=given) as first, *_]),
            ) as parted,
        ) if given == scaled:
            pass
        case _:
            return None
    others = [each for each in blocks.uses_of(pipeline, scaled, fit) if each is not first and each not in walk(rows)]
    if others or source.location(parted.value) != split:
        return None
    at = source.location
    return FitAndSplit(learner, at(learned), at(rows), at(first), (kept, held_out))
