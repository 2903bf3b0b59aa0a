"""Preprocessors that see test rows: they are fitted on all rows before the split."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from lintrain.analysis import handed_on, rows_in_code, whole_fits
from lintrain.analysis.evaluations import EVALUATION_WORDS
from lintrain.analysis.fitted_names import LEARNERS, Known, Learned, Names
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.pipeline.blocks import PlainFunction, given_back, given_names, plain_functions
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

SPLITS = frozenset({"sklearn.model_selection.train_test_split", "torch.utils.data.random_split"})
DIVIDES = r"/ *\(?(?:\w+(?:\[\w+\])?\.)*(?:\w*(?:std|sd|dev|sigma|range|max|high|scale)|s)\b|/ *\("
"""A division by what may be a statistic: `/ x.std()`, `/ (high - low)`."""

STATISTICS = frozenset({"mean", "std", "min", "max", "median", "nanmean", "nanstd", "amin", "amax"})
FITTING = frozenset({"fit_transform", "fit_resample"})


@dataclass(frozen=True, slots=True)
class Leak:
    """A `fit` on all rows: which class is fitted, where, and where the rows are split afterwards.

    `learner` is empty where the script's own arithmetic scales the rows: `(rows - rows.mean()) / rows.std()`.
    """

    learner: str
    location: Location
    split: Location
    target: str = ""
    """The column whose means a feature is made of, if the leak is that of targets."""
    is_after_split: bool = False


def fitted_before_split(pipeline: Pipeline) -> Iterator[Leak]:
    """Each such fit whose names are bound and used in one block, in order, or returned to it by a function."""
    splits = {call.location for call in pipeline.calls if call.path in SPLITS}
    own = [call for call in pipeline.calls if call.path.startswith("sklearn.")]
    classes = {call.location: call.path.rpartition(".")[2] for call in own}
    classes |= dict(_copiers(pipeline))
    if not LEARNERS & {*classes.values()} and not pipeline.source.contains(rf"{DIVIDES}|groupby"):
        return
    for fit in whole_fits.fitted_on_whole(pipeline, splits):
        yield Leak(fit.learner, fit.location, fit.split, is_after_split=True)
    if not splits and not any(map(rows_in_code.begins, pipeline.source.nodes_of(ast.Slice))):
        return  # nothing is held out
    known = Known(classes, splits, {})
    for function in pipeline.source.cached(plain_functions).values():
        _note_given_back(pipeline, function, known)
    for node in pipeline.source.cached(_data_classes).values():
        _note_fitting_class(pipeline, node, known)
    functions = pipeline.source.nodes_of(ast.FunctionDef)
    for body in [pipeline.source.tree.body, *(function.body for function in functions)]:
        yield from _in_block(pipeline, body, known, Names({}, {}, set()))


def _note_given_back(pipeline: Pipeline, function: PlainFunction, known: Known) -> None:
    """Record which names the calls of a function bind to rows on which it fitted a preprocessor."""
    source, names = pipeline.source, Names({}, {}, set())
    list(_in_block(pipeline, function.node.body, known, names))
    end = source.location(function.node.body[-1])
    parameters = {each.arg for each in walk(function.node.args) if isinstance(each, ast.arg)}
    for node, bound in source.cached(given_back).items():
        learned = names.learned.get(node.id)
        if learned is None or not end.holds(source.location(node)):
            continue
        for call, name in zip(function.calls, bound, strict=True):
            given = given_names(function.node.args, call).get(learned.rows)
            if given is not None or learned.rows not in parameters:
                rows = given.id if given else ""
                known.given_back.setdefault(call, {})[name] = replace(learned, rows=rows)


def _note_fitting_class(pipeline: Pipeline, node: ast.ClassDef, known: Known) -> None:
    """Record a data set that keeps rows on which its constructor fitted a preprocessor: whoever splits it, too late."""
    made = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    names = Names({}, {}, set())
    list(_in_block(pipeline, made.body if made else [], known, names))
    kept = [learned for name, learned in names.learned.items() if name.startswith("self.")]
    if kept and not names.parts and made is not None:
        known.fitting[node.name] = kept[0], made.args


def _copiers(pipeline: Pipeline) -> Iterator[tuple[Location, str]]:
    """The calls of classes of imbalanced-learn, which the interpreter does not model."""
    imports = pipeline.source.nodes_of(ast.ImportFrom)
    names = {each.name for node in imports if (node.module or "").startswith("imblearn.over") for each in node.names}
    for node in pipeline.source.nodes_of(ast.Call) if names else ():
        if isinstance(node.func, ast.Name) and node.func.id in names:
            yield pipeline.source.location(node), node.func.id


def _in_block(pipeline: Pipeline, body: list[ast.stmt], known: Known, names: Names) -> Iterator[Leak]:
    for statement in body:
        if rows_in_code.runs_in_order(statement):
            yield from _in_block(pipeline, statement.body, known, names)
        if isinstance(statement, ast.For):
            _note_windows(statement, names)
        value = statement.value if isinstance(statement, ast.Assign | ast.Expr | ast.Return) else None
        if value is None:
            continue
        targets = rows_in_code.bound_by(statement.targets) if isinstance(statement, ast.Assign) else []
        for target, cut in rows_in_code.cuts(statement):
            yield from _leaks_by_slices(pipeline, target, cut, names)
        if isinstance(value, ast.Call) and pipeline.source.location(value) in known.splits:
            yield from _leaks(pipeline, value, names)
            names.parts |= set(targets)
        passed = dict(_passed_on(pipeline, statement, names))
        _forget(names, targets)
        names.learned |= passed
        if (
            isinstance(statement, ast.Assign)
            and len(targets) == 1
            and (numbered := rows_in_code.rows_numbered(value, names.counts))
        ):
            names.counts[targets[0]] = numbered
        _learn(pipeline, value, targets, known, names)
        _note_columns(pipeline, statement, known, names)
        _note_means(pipeline, statement, names)


def _note_columns(pipeline: Pipeline, statement: ast.stmt, known: Known, names: Names) -> None:
    """Record a frame some columns of which are replaced by scaled ones: `df[few] = scaler.fit_transform(df[few])`."""
    columns = pipeline.source.cached(rows_in_code.column_lists)
    match statement:
        case ast.Assign(targets=[ast.Subscript() as target], value=value):
            frame = rows_in_code.frame_written(target, columns)
        case _:
            return
    scaled, fit = _scaled(value, names, columns), None
    if isinstance(value, ast.Call):
        fit = _fitted_by(pipeline, value, known, names)
    if fit is not None and fit[1] in FITTING:
        learned = fit[2]
    elif fit is not None and fit[1] == "transform" and fit[0] in names.fitted:
        learned = names.fitted[fit[0]]
    else:
        learned = Learned("", value, scaled)
    if frame and frame not in names.parts and learned.rows.partition("[")[0] == frame:
        names.learned[frame] = replace(learned, rows=frame)


def _note_means(pipeline: Pipeline, statement: ast.stmt, names: Names) -> None:
    """Record a frame that gets a column of the means of its targets; they may have a name and be looked up by `map`."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if found := _means_of(pipeline, value):
            names.fitted[name] = found
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=frame))], value=value):
            found = _means_of(pipeline, value)
            match value:
                case ast.Call(func=ast.Attribute(attr="map"), args=[ast.Name(id=name)]) if name in names.fitted:
                    found = names.fitted[name]
                case ast.Call(func=ast.Attribute(attr="map"), args=[given]):
                    found = _means_of(pipeline, given)
                case _:
                    pass
            if found is not None and found.target and found.rows == frame and frame not in names.parts:
                names.learned[frame] = found
        case _:
            pass


def _means_of(pipeline: Pipeline, value: ast.expr) -> Learned | None:
    found = rows_in_code.means_of(pipeline.source, value)
    return Learned("", value, *found) if found is not None else None


WRAPS = frozenset(
    {"array", "asarray", "moveaxis", "reshape", "stack", "tensor", "as_tensor", "FloatTensor", "Tensor", "from_numpy"}
    | {"astype", "float", "DataFrame", "expand_dims", "transpose", "TensorDataset", "drop", "copy", "to_numpy"}
    | {"delete", "ravel", "flatten", "squeeze"}
)
"""What makes other arrays of the same rows."""


def _note_windows(loop: ast.For, names: Names) -> None:
    """Record the lists that a loop fills with pieces of fitted rows: `x.append(rows[i - 30 : i])`."""
    for node in walk(loop) if names.learned else ():
        match node:
            case ast.Call(
                func=ast.Attribute(value=filled, attr="append"), args=[ast.Subscript(value=ast.Name(id=rows))]
            ):
                while isinstance(filled, ast.Subscript):
                    filled = filled.value
                if rows in names.learned and isinstance(filled, ast.Name):
                    names.learned[filled.id] = names.learned[rows]
            case _:
                pass


def _passed_on(pipeline: Pipeline, statement: ast.stmt, names: Names) -> Iterator[tuple[str, Learned]]:
    """The names that a statement gives the same fitted rows in another form, or windows of them."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            pairs = list(zip(targets, values, strict=False))
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call(func=called) as call):
            is_window = handed_on.plain_name(called) in _windowing(pipeline)
            pairs = [(target, call) for target in targets] if is_window else []
        case ast.Assign(targets=[target], value=value):
            pairs = [(target, value)]
        case _:
            pairs = []
    for target, value in pairs:
        found = None if isinstance(value, ast.Name) else _rows_behind(pipeline, value, names)
        if found is not None and rows_in_code.code_of(target):
            yield rows_in_code.code_of(target), found


def _rows_behind(pipeline: Pipeline, value: ast.expr, names: Names) -> Learned | None:
    """The fitted rows that an expression has in another form: an array of them, one more axis, windows of them."""
    match value:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _own_data(pipeline):
            parts = [*args, *(each.value for each in keywords)]
        case ast.Call(func=called, args=args):
            name = called.attr if isinstance(called, ast.Attribute) else unparse(called)
            given = [*args[:1], *([called.value] if isinstance(called, ast.Attribute) else [])]
            parts = given if name in WRAPS or name in _windowing(pipeline) else []
        case ast.ListComp(elt=ast.Subscript(value=rows, slice=ast.Slice())):
            parts = [rows]
        case ast.Subscript(value=rows, slice=ast.Tuple(elts=axes)) if rows_in_code.keeps_rows(axes):
            parts = [rows]
        case ast.Subscript(value=rows, slice=ast.List()) | ast.Attribute(value=rows, attr="values"):
            parts = [rows]
        case _:
            parts = []
            if (code := rows_in_code.code_of(value)) in names.learned:
                return names.learned[code]
    return next((found for each in parts if (found := _rows_behind(pipeline, each, names))), None)


def _own_data(pipeline: Pipeline) -> frozenset[str]:
    """The classes of data sets that the project defines: one holds the rows that it is given."""
    return frozenset(name for source in pipeline.sources.values() for name in source.cached(_data_classes))


def _data_classes(source: Source) -> dict[str, ast.ClassDef]:
    classes = source.nodes_of(ast.ClassDef)
    return {node.name: node for node in classes if any(unparse(base).endswith("Dataset") for base in node.bases)}


def _windowing(pipeline: Pipeline) -> frozenset[str]:
    """The functions of a file that cut their first parameter into windows."""
    return pipeline.source.cached(rows_in_code.windowing_functions)


def _leaks(pipeline: Pipeline, split: ast.Call, names: Names) -> Iterator[Leak]:
    for argument in split.args:
        found = names.learned.get(rows_in_code.code_of(argument)) or _of_numbers(argument, names)
        if found is not None:
            at = pipeline.source.location
            yield Leak(found.learner, at(found.call), at(split), found.target)
            return


def _of_numbers(node: ast.expr, names: Names) -> Learned | None:
    """The fitted rows that a list of their numbers divides: `order[:n]` of `order = torch.randperm(len(rows))`."""
    return names.learned.get(rows_in_code.rows_numbered(node, names.counts))


def _leaks_by_slices(pipeline: Pipeline, target: str, cut: ast.Subscript, names: Names) -> Iterator[Leak]:
    """The leak where a slice takes the test rows behind those of training: `rows[:n]` came before `rows[n:]`."""
    rows, bounds = rows_in_code.code_of(cut.value), cut.slice
    learned = names.learned.get(rows) or _of_numbers(cut.value, names)
    match cut.value:
        case ast.Attribute(value=ast.Call() as frame, attr="iloc"):  # `pd.DataFrame(scaled).iloc[:n]`
            rows, learned = unparse(frame), _rows_behind(pipeline, frame, names)
        case _:
            pass
    if learned is None or not isinstance(bounds, ast.Slice):
        return
    lower, upper = (unparse(each) if each is not None else "" for each in (bounds.lower, bounds.upper))
    if rows_in_code.begins(bounds):
        names.heads[rows, upper] = cut
        return
    head = names.heads.get((rows, lower))
    if head is not None and (head.lineno == cut.lineno or words_of(target) & EVALUATION_WORDS):
        at = pipeline.source.location
        yield Leak(learned.learner, at(learned.call), at(head), learned.target)


def _forget(names: Names, targets: list[str]) -> None:
    for name in targets:
        names.learners.pop(name, None)
        names.learned.pop(name, None)
        names.fitted.pop(name, None)
        names.counts.pop(name, None)


def _learn(pipeline: Pipeline, value: ast.expr, targets: list[str], known: Known, names: Names) -> None:
    """Record a preprocessor that a statement creates, or rows that it fits one on or scales by themselves."""
    scaled = _scaled(value, names)
    if scaled and targets and scaled not in names.parts:
        names.learned[targets[0]] = Learned("", value, scaled)
    for target, part in zip(targets, value.elts if isinstance(value, ast.Tuple) else [value], strict=False):
        if rows := _measured(part, names):
            names.fitted[target] = Learned("", part, rows)
    if not isinstance(value, ast.Call):
        return
    if (inner := _wrapped(value)) is not None:
        _learn(pipeline, inner, targets, known, names)
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
    own = known.fitting.get(value.func.id) if isinstance(value.func, ast.Name) else None
    if own is not None and targets:
        kept, parameters = own
        given = given_names(parameters, value, first=1).get(kept.rows)
        if given is None or given.id not in names.parts:
            names.learned[targets[0]] = replace(kept, rows=given.id if given else "")
    for name, each in known.given_back.get(value, {}).items():
        if each.rows not in names.parts:
            names.learned[name] = each


def _wrapped(call: ast.Call) -> ast.Call | None:
    """The call whose rows another call gives in another form: `torch.tensor(scaler.fit_transform(rows))`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else unparse(call.func)
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    inner = next((each for each in (*call.args[:1], *owner) if isinstance(each, ast.Call)), None)
    return inner if name in WRAPS else None


def _scaled(value: ast.expr, names: Names, columns: frozenset[str] = frozenset()) -> str:
    """The rows that arithmetic scales by numbers of all of them: `(rows - rows.mean(0)) / rows.std(0)`; else empty."""
    match value:
        case ast.BinOp(left=ast.BinOp(left=rows, op=ast.Sub(), right=centre), op=ast.Div(), right=spread):
            code = rows_in_code.code_of(rows) or rows_in_code.rows_behind(rows, columns)
            measured = {_measured(centre, names, columns), _measured(spread, names, columns)}
            return code if code and measured == {code} else ""
        case _:
            return ""


def _measured(value: ast.expr, names: Names, columns: frozenset[str] = frozenset()) -> str:
    """The rows that an expression has a statistic of, over all of them; empty for others."""
    match value:
        case ast.BinOp(left=left, op=ast.Sub() | ast.Add(), right=right):
            found = _measured(left, names, columns)
            is_shifted = isinstance(right, ast.Constant) or _measured(right, names, columns) == found
            return found if is_shifted else ""
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=keywords) if name in STATISTICS:
            is_function = isinstance(owner, ast.Name) and owner.id in {"np", "numpy", "torch"}
            rows, axes = (args[0], args[1:]) if is_function and args else (owner, args)
            axes = [*axes, *(each.value for each in keywords if each.arg in {"axis", "dim"})]
            code = rows_in_code.code_of(rows) or rows_in_code.rows_behind(rows, columns)
            return code if all(rows_in_code.is_of_rows(axis) for axis in axes) else ""
        case ast.Name(id=name) if name in names.fitted and not names.fitted[name].learner:
            return names.fitted[name].rows
        case _:
            return ""


def _fitted_by(pipeline: Pipeline, call: ast.Call, known: Known, names: Names) -> tuple[str, str, Learned] | None:
    """The preprocessor that a method is called on, by its code, with the method and what it gets."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in {*FITTING, "fit", "transform"}:
        return None
    columns = pipeline.source.cached(rows_in_code.column_lists)
    owner = call.func.value
    given = [code for each in call.args[:1] if (code := rows_in_code.rows_behind(each, columns))]
    fitted = names.fitted.get(rows_in_code.code_of(owner))
    learner = names.learners.get(rows_in_code.code_of(owner)) or _made_in_place(pipeline, owner, known)
    learner = learner or (fitted.learner if fitted else None)
    if learner is None or learner not in LEARNERS or not given:
        return None
    return rows_in_code.code_of(owner), call.func.attr, Learned(learner, call, given[0])


def _made_in_place(pipeline: Pipeline, owner: ast.expr, known: Known) -> str | None:
    """The class of a preprocessor that is made where it is fitted, or elsewhere for an attribute: `self.scaler`."""
    made = handed_on.given_to(pipeline.source, owner) if isinstance(owner, ast.Name | ast.Attribute) else owner
    return known.classes.get(pipeline.source.location(made)) if isinstance(made, ast.Call) else None
