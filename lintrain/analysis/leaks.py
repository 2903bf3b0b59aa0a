"""Preprocessors that see test rows: fitted on all rows before the split, or fitted again on the test rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import field, replace

from lintrain.analysis.evaluations import EVALUATION_WORDS, TRAINING_WORDS
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.pipeline.blocks import PlainFunction, given_back, given_names, plain_functions
from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

LEARNERS = frozenset(
    {
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "PowerTransformer",
        "QuantileTransformer",
        "KBinsDiscretizer",
        "TargetEncoder",
        "SimpleImputer",
        "KNNImputer",
        "IterativeImputer",
        "PCA",
        "TruncatedSVD",
        "NMF",
        "SelectKBest",
        "SelectPercentile",
        "SelectFromModel",
        "TfidfVectorizer",
        "RandomOverSampler",
        "SMOTE",
        "ADASYN",
        "BorderlineSMOTE",
        "SVMSMOTE",
    }
)
"""Classes of scikit-learn and imbalanced-learn whose `fit` learns statistics of the rows, or that copy rows."""

SPLIT = "sklearn.model_selection.train_test_split"
FITTING = frozenset({"fit_transform", "fit_resample"})


@dataclass(frozen=True, slots=True)
class Leak:
    """A `fit` on all rows: which class is fitted, where, and where the rows are split afterwards."""

    learner: str
    location: Location
    split: Location


@dataclass(frozen=True, slots=True)
class _Learned:
    """The class that was fitted, the call, and the name of the rows."""

    learner: str
    call: ast.Call
    rows: str


@dataclass(slots=True)
class _Names:
    """What the names of one block refer to: preprocessors, rows that one was fitted on, parts of a split.

    `fitted` are preprocessors that `fit` was called on; `heads` the first parts of rows that are cut with slices, by
    the name of the rows and the code of the bound.
    """

    learners: dict[str, str]
    learned: dict[str, _Learned]
    parts: set[str]
    fitted: dict[str, _Learned] = field(default_factory=dict[str, _Learned])
    heads: dict[tuple[str, str], ast.expr] = field(default_factory=dict[tuple[str, str], ast.expr])


@dataclass(slots=True)
class _Known:
    """What calls in all blocks do: the classes that they create, the splits, and the fitted rows that they return."""

    classes: dict[Location, str]
    splits: set[Location]
    given_back: dict[ast.Call, dict[str, _Learned]]


def fitted_before_split(pipeline: Pipeline) -> Iterator[Leak]:
    """Each such fit whose names are bound and used in one block, in order, or returned to it by a function."""
    splits = {call.location for call in pipeline.calls if call.path == SPLIT}
    own = [call for call in pipeline.calls if call.path.startswith("sklearn.")]
    classes = {call.location: call.path.rpartition(".")[2] for call in own}
    classes |= dict(_copiers(pipeline))
    known = _Known(classes, splits, {})
    for function in pipeline.source.cached(plain_functions).values():
        _note_given_back(pipeline, function, known)
    functions = pipeline.source.nodes_of(ast.FunctionDef)
    for body in [pipeline.source.tree.body, *(function.body for function in functions)]:
        yield from _in_block(pipeline, body, known, _Names({}, {}, set()))


def _note_given_back(pipeline: Pipeline, function: PlainFunction, known: _Known) -> None:
    """Record which names the calls of a function bind to rows on which it fitted a preprocessor."""
    source, names = pipeline.source, _Names({}, {}, set())
    list(_in_block(pipeline, function.node.body, known, names))
    end = source.location(function.node.body[-1])
    parameters = {each.arg for each in ast.walk(function.node.args) if isinstance(each, ast.arg)}
    for node, bound in source.cached(given_back).items():
        learned = names.learned.get(node.id)
        if learned is None or not end.holds(source.location(node)):
            continue
        for call, name in zip(function.calls, bound, strict=True):
            given = given_names(function.node.args, call).get(learned.rows)
            if given is not None or learned.rows not in parameters:
                rows = given.id if given else ""
                known.given_back.setdefault(call, {})[name] = replace(learned, rows=rows)


def _copiers(pipeline: Pipeline) -> Iterator[tuple[Location, str]]:
    """The calls of classes of imbalanced-learn, which the interpreter does not model."""
    imports = pipeline.source.nodes_of(ast.ImportFrom)
    names = {each.name for node in imports if (node.module or "").startswith("imblearn.over") for each in node.names}
    for node in pipeline.source.nodes_of(ast.Call) if names else ():
        if isinstance(node.func, ast.Name) and node.func.id in names:
            yield pipeline.source.location(node), node.func.id


def _in_block(pipeline: Pipeline, body: list[ast.stmt], known: _Known, names: _Names) -> Iterator[Leak]:
    for statement in body:
        value = statement.value if isinstance(statement, ast.Assign | ast.Expr | ast.Return) else None
        if value is None:
            continue
        targets = _targets(statement.targets) if isinstance(statement, ast.Assign) else []
        for target, cut in _cuts(statement):
            yield from _leaks_by_slices(pipeline, target, cut, names)
        if isinstance(value, ast.Call) and pipeline.source.location(value) in known.splits:
            yield from _leaks(pipeline, value, names)
            names.parts |= set(targets)
        _forget(names, targets)
        _learn(pipeline, value, targets, known, names)


def _leaks(pipeline: Pipeline, split: ast.Call, names: _Names) -> Iterator[Leak]:
    for argument in split.args:
        found = names.learned.get(_code(argument))
        if found is not None:
            yield Leak(found.learner, pipeline.source.location(found.call), pipeline.source.location(split))
            return


def _cuts(statement: ast.stmt) -> Iterator[tuple[str, ast.Subscript]]:
    """The slices that a statement gives to names: `train, test = rows[:n], rows[n:]`."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            pairs = list(zip(names, values, strict=False))
        case ast.Assign(targets=[name], value=value):
            pairs = [(name, value)]
        case _:
            pairs = []
    for name, value in pairs:
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) and value.slice.step is None:
            yield _code(name), value


def _leaks_by_slices(pipeline: Pipeline, target: str, cut: ast.Subscript, names: _Names) -> Iterator[Leak]:
    """The leak where a slice takes the test rows behind those of training: `rows[:n]` came before `rows[n:]`."""
    rows, bounds = _code(cut.value), cut.slice
    learned = names.learned.get(rows)
    if learned is None or not isinstance(bounds, ast.Slice):
        return
    lower, upper = (ast.unparse(each) if each is not None else "" for each in (bounds.lower, bounds.upper))
    if lower in {"", "0"} and upper:
        names.heads[rows, upper] = cut
        return
    head = names.heads.get((rows, lower))
    if head is not None and (head.lineno == cut.lineno or words_of(target) & EVALUATION_WORDS):
        yield Leak(learned.learner, pipeline.source.location(learned.call), pipeline.source.location(head))


def _code(node: ast.expr) -> str:
    """The code of a name, an attribute or an entry, by which one thing is known; empty for other code."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name()) | ast.Subscript(value=ast.Name(), slice=ast.Constant()):
            return ast.unparse(node)
        case _:
            return ""


def _targets(targets: list[ast.expr]) -> list[str]:
    """What a statement binds, by its code."""
    parts = [
        part for target in targets for part in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])
    ]
    return [code for part in parts if (code := _code(part))]


def _forget(names: _Names, targets: list[str]) -> None:
    for name in targets:
        names.learners.pop(name, None)
        names.learned.pop(name, None)
        names.fitted.pop(name, None)


def _learn(pipeline: Pipeline, value: ast.expr, targets: list[str], known: _Known, names: _Names) -> None:
    """Record a preprocessor that a statement creates, or rows that it fits one on."""
    if not isinstance(value, ast.Call):
        return
    made = known.classes.get(pipeline.source.location(value))
    found = _fitted_by(pipeline, value, known, names)
    if targets and made is not None and made in LEARNERS:
        names.learners[targets[0]] = made
    elif found is not None:
        owner, method, learned = found
        is_whole = learned.rows not in names.parts
        if method == "fit" and is_whole and (targets or owner):
            names.fitted[targets[0] if targets else owner] = learned
        elif method in FITTING and is_whole and targets:
            names.learned[targets[0]] = learned
        elif method == "transform" and targets and owner in names.fitted and names.fitted[owner].rows == learned.rows:
            names.learned[targets[0]] = names.fitted[owner]
    for name, each in known.given_back.get(value, {}).items():
        if each.rows not in names.parts:
            names.learned[name] = each


def _fitted_by(pipeline: Pipeline, call: ast.Call, known: _Known, names: _Names) -> tuple[str, str, _Learned] | None:
    """The preprocessor that a method is called on, by its code, with the method and what it gets."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in {*FITTING, "fit", "transform"}:
        return None
    owner, given = call.func.value, [code for argument in call.args[:1] if (code := _code(argument))]
    fitted = names.fitted.get(_code(owner))
    learner = names.learners.get(_code(owner)) or _made_in_place(pipeline, owner, known)
    learner = learner or (fitted.learner if fitted else None)
    if learner is None or learner not in LEARNERS or not given:
        return None
    return _code(owner), call.func.attr, _Learned(learner, call, given[0])


def _made_in_place(pipeline: Pipeline, owner: ast.expr, known: _Known) -> str | None:
    return known.classes.get(pipeline.source.location(owner)) if isinstance(owner, ast.Call) else None


PREPROCESSORS = LEARNERS | {"CountVectorizer", "OneHotEncoder", "OrdinalEncoder"}


SCALES = frozenset({"scale", "minmax_scale", "maxabs_scale", "robust_scale", "quantile_transform", "power_transform"})
"""Functions of scikit-learn that fit a preprocessor on what they are given."""


@dataclass(frozen=True, slots=True)
class Refit:
    """A second fit of a preprocessor: its code, where, and where it was fitted on training rows.

    `callee` is None if another object of the same class, or a function, is fitted.
    """

    learner: str
    location: Location
    callee: Location | None
    first: Location


@dataclass(slots=True)
class _Fits:
    """What the statements of one block fit: preprocessors by name, rows that were split off, and rows of training.

    `classes` are those of names and calls; `held_out` are test rows with the training rows of the same split.
    """

    source: Source
    made: dict[Location, str]
    helpers: dict[str, PlainFunction]
    learners: dict[str, Location | None]
    classes: dict[str, str]
    held_out: dict[str, str]
    trained: list[tuple[str, ast.expr, Location]]


def refitted(pipeline: Pipeline) -> Iterator[Refit]:
    """Each second fit on rows that were split off for testing, or have a name for it; names of one block."""
    source = pipeline.source
    names = ((call.location, call.path) for call in pipeline.calls if call.path.startswith("sklearn."))
    made = {at: name for at, path in names if (name := path.rpartition(".")[2]) in PREPROCESSORS | SCALES}
    splits = {call.location for call in pipeline.calls if call.path == SPLIT}
    if not made:
        return
    helpers = {name: each for name, each in source.cached(plain_functions).items() if _fits_itself(source, each, made)}
    bodies = [source.tree.body, *(function.body for function in source.nodes_of(ast.FunctionDef))]
    for body in bodies:
        yield from _refits_in_block(body, splits, _Fits(source, made, helpers, {}, {}, {}, []))


def _fits_itself(source: Source, function: PlainFunction, made: dict[Location, str]) -> bool:
    """Whether each call of a function certainly fits a preprocessor of its own on its first parameter."""
    first = function.node.args.args[0].arg if function.node.args.args else ""
    fits = _Fits(source, made, {}, {}, {}, {}, [])
    for statement in function.node.body:
        call = statement.value if isinstance(statement, ast.Assign | ast.Expr | ast.Return) else None
        if not isinstance(call, ast.Call):
            continue
        found = _fitted(call, fits)
        if found is not None and first and ast.unparse(found[1]) == first:
            return True
        _bind(statement, call, fits, set())
    return False


def _refits_in_block(body: list[ast.stmt], splits: set[Location], fits: _Fits) -> Iterator[Refit]:
    for statement in body:
        value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
        # `pd.DataFrame(scaler.fit_transform(rows))` fits as well.
        for call in ast.walk(value) if value is not None else ():
            if isinstance(call, ast.Call):
                yield from _fit(call, fits)
        _bind(statement, value, fits, splits)


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
            fits.held_out |= {ast.unparse(test): ast.unparse(train) for test, train in pairs}


def _fit(call: ast.Call, fits: _Fits) -> Iterator[Refit]:
    """The refit that a call is; a first fit is noted."""
    found = _fitted(call, fits)
    if found is None:
        return
    (name, rows, kind), here = found, fits.source.location(call)
    is_test, transforms = _is_test(rows, fits), isinstance(call.func, ast.Attribute) and call.func.attr != "fit"
    first = fits.learners.get(name)
    if first is not None and is_test and transforms:
        yield Refit(name, here, fits.source.location(call.func), first)
        return
    if name in fits.learners and first is None and not is_test:
        fits.learners[name] = here
    if not is_test:
        fits.trained.append((kind, rows, here))
    elif transforms or not name:
        same = (at for each, train, at in fits.trained if each == kind and _are_halves(train, rows, fits))
        if (at := next(same, None)) is not None:
            yield Refit(name or ast.unparse(call.func).removesuffix(".fit_transform"), here, None, at)


def _fitted(call: ast.Call, fits: _Fits) -> tuple[str, ast.expr, str] | None:
    """The name of the preprocessor that a call fits, if it has one, the rows, and its class or function."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="fit" | "fit_transform"), args=[rows, *_]) if (
            name in fits.learners
        ):
            return name, rows, fits.classes[name]
        case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr="fit_transform"), args=[rows, *_]):
            kind = fits.made.get(fits.source.location(made))
            return ("", rows, kind) if kind is not None else None
        case ast.Call(args=[rows, *_]) if fits.made.get(fits.source.location(call)) in SCALES:
            return "", rows, fits.made[fits.source.location(call)]
        case ast.Call(func=ast.Name(id=name), args=[rows]) if name in fits.helpers:
            return "", rows, name
        case _:
            return None


def _root(rows: ast.expr) -> str:
    """The name behind `x_test`, `x_test.values` and `x_test[columns]`; empty for other code."""
    while isinstance(rows, ast.Subscript | ast.Attribute | ast.Call):
        rows = rows.func if isinstance(rows, ast.Call) else rows.value
    return rows.id if isinstance(rows, ast.Name) else ""


def _is_test(rows: ast.expr, fits: _Fits) -> bool:
    """Whether rows were split off, or are named for an evaluation and not for training."""
    name = _root(rows)
    words = words_of(name)
    return name in fits.held_out or (bool(words & EVALUATION_WORDS) and not words & TRAINING_WORDS)


def _are_halves(train: ast.expr, test: ast.expr, fits: _Fits) -> bool:
    """Whether two expressions are the same columns of training and of test rows, by their split or their names."""
    one, other = _root(train), _root(test)
    codes = [re.sub(rf"\b{name}\b", "rows", ast.unparse(rows)) for name, rows in ((one, train), (other, test))]
    ones, others = words_of(one), words_of(other)
    are_named = bool(ones & TRAINING_WORDS) and ones - TRAINING_WORDS == others - EVALUATION_WORDS
    return codes[0] == codes[1] and (fits.held_out.get(other) == one or are_named)
