"""Labels that are among the inputs: the columns of a frame that a network is trained on hold the column of its labels.

features = df.columns.tolist()
model.fit(df[features], df["churn"])
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

KEEPS = frozenset(
    {"values", "to_numpy", "astype", "copy", "reset_index", "to", "float", "long", "unsqueeze", "reshape", "view"}
    | {"fillna", "tolist", "ravel", "flatten", "squeeze", "numpy"}
)
"""Methods and attributes after which the columns are the same."""

CONVERTS = frozenset(
    {"array", "asarray", "tensor", "as_tensor", "from_numpy", "FloatTensor", "LongTensor", "Tensor", "DataFrame"}
    | {"fit_transform", "transform", "float32", "csr_matrix"}
)
"""Functions that give the columns of their first argument."""

PAIRS = frozenset({"train_test_split", "fit", "TensorDataset", "cross_val_score", "cross_validate", "DMatrix"})
"""Functions that train on rows and labels, or make the pairs: both as they are, not windows of them."""

HAS_FRAMES = lazy_pattern(r"\b(?:pd|pandas|np|numpy)\b")
STEPS = 8
"""How many expressions are followed one after another."""


@dataclass(frozen=True, slots=True)
class Picked:
    """Columns of a frame: its code, where they are picked, and a single label, or what is left out of all columns."""

    frame: str
    node: ast.expr
    label: str | int | None = None
    without: frozenset[str] = frozenset()
    first: int = 0
    end: int | None = None

    def holds(self, label: str | int) -> bool:
        """Whether the picked columns hold a label, by its name or number."""
        if isinstance(label, str):
            return self.first == 0 and self.end is None and label not in self.without
        is_last = label == -1
        return not self.without and (self.end is None if is_last else self.first <= label < (self.end or label + 1))


@dataclass(frozen=True, slots=True)
class LeakedLabel:
    """Inputs that hold the labels: where, their code, the label, and where the labels are picked."""

    location: Location
    code: str
    label: str
    labels: Location


def leaked_labels(source: Source) -> Iterator[LeakedLabel]:
    """The inputs of a file that hold the column of their labels, the first ones for each label."""
    if not source.contains(HAS_FRAMES):
        return
    seen = set[str | int]()
    for inputs, labels in _pairs(source):
        given = [each for each in _picked(source, labels, STEPS) if each.label is not None]
        for held in _picked(source, inputs, STEPS) if given else ():
            label = given[0]
            if held.label is not None or label.label is None or held.frame != label.frame or label.label in seen:
                continue
            if held.holds(label.label) and not _is_changed(source, held, label):
                seen.add(label.label)
                name = label.label if isinstance(label.label, str) else unparse(label.node)
                yield LeakedLabel(source.location(held.node), unparse(held.node), name, source.location(label.node))


def _pairs(source: Source) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Inputs and labels that are trained on row by row, also by the script's own functions and data sets."""
    own = source.cached(_own_pairs)
    for call in source.nodes_of(ast.Call):
        name = last_name(call.func)
        positions = (1, 2) if name.startswith("cross_val") else (0, 1) if name in PAIRS else own.get(name)
        named = {each.arg: each.value for each in call.keywords}
        if positions is not None and len(call.args) > positions[1]:
            yield call.args[positions[0]], call.args[positions[1]]
        elif name == "fit" and {"x", "y"} <= named.keys():
            yield named["x"], named["y"]


def _own_pairs(source: Source) -> dict[str, tuple[int, int]]:
    """The positions of rows and labels in the functions of a file that pair them, and in its data sets."""
    found: dict[str, tuple[int, int]] = {}
    for function in source.nodes_of(ast.FunctionDef):
        names = [each.arg for each in function.args.args]
        for call in own_nodes(function):
            if not isinstance(call, ast.Call) or last_name(call.func) != "TensorDataset" or len(call.args) < 2:
                continue
            given = [_parameter(each, names) for each in call.args[:2]]
            is_bound = bool(names) and names[0] == "self"
            if given[0] is not None and given[1] is not None:
                found[function.name] = (given[0] - is_bound, given[1] - is_bound)
    for owner in source.nodes_of(ast.ClassDef):
        methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
        if {"__init__", "__getitem__"} <= methods.keys() and _pairs_rows(methods["__getitem__"]):
            kept = dict(_kept(methods["__init__"]))
            rows = [kept.get(each) for each in _read(methods["__getitem__"])]
            if len(rows) == 2 and rows[0] is not None and rows[1] is not None:
                found[owner.name] = (rows[0] - 1, rows[1] - 1)
    return found


def _parameter(node: ast.expr, names: Sequence[str]) -> int | None:
    """The number of the parameter that an expression converts."""
    match node:
        case ast.Name(id=name):
            return names.index(name) if name in names else None
        case ast.Call(func=function, args=[inner, *_]) if last_name(function) in CONVERTS:
            return _parameter(inner, names)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) | ast.Attribute(value=inner, attr=name):
            return _parameter(inner, names) if name in KEEPS else None
        case _:
            return None


def _kept(constructor: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    """The attributes that a constructor sets to its parameters."""
    names = [each.arg for each in constructor.args.args]
    for node in own_nodes(constructor):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            number = _parameter(node.value, names)
            if number is not None:
                yield node.targets[0].attr, number


def _pairs_rows(getter: ast.FunctionDef) -> bool:
    """Whether a data set indexes everything with the number of the row, so that it makes no windows."""
    number = getter.args.args[1].arg if len(getter.args.args) == 2 else ""
    return all(unparse(each.slice) == number for each in own_nodes(getter) if isinstance(each, ast.Subscript))


def _read(getter: ast.FunctionDef) -> list[str]:
    """The attributes of which a data set gives a row, in the order of the code."""
    reads = [each for each in own_nodes(getter) if isinstance(each, ast.Subscript)]
    names = [each.value.attr for each in reads if isinstance(each.value, ast.Attribute)]
    return list(dict.fromkeys(names))


def _picked(source: Source, node: ast.expr, steps: int) -> Iterator[Picked]:
    """The columns that an expression holds, through names, conversions and splits of rows."""
    if steps == 0:
        return
    direct = _selection(source, node)
    if direct is not None:
        yield direct
        return
    match node:
        case ast.Name(id=name):
            yield Picked(name, node)
            made = list(loss_terms.definitions(source, node))
            if made and made[0][2] is None:
                value, position, _ = made[0]
                inner = value if position is None else _part(value, position)
                if inner is not None:
                    yield from _picked(source, inner, steps - 1)
        case ast.Call(func=function, args=[inner, *_]) if last_name(function) in CONVERTS:
            yield from _picked(source, inner, steps - 1)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) | ast.Attribute(value=inner, attr=name):
            if name in KEEPS:
                yield from _picked(source, inner, steps - 1)
        case _:
            pass


def _part(value: ast.expr, position: int) -> ast.expr | None:
    """What a split of rows is given for one of its results."""
    match value:
        case ast.Call(func=function, args=arrays) if last_name(function) == "train_test_split":
            return arrays[position // 2] if position // 2 < len(arrays) else None
        case _:
            return None


def _selection(source: Source, node: ast.expr) -> Picked | None:
    """The columns that code picks out of a frame or an array by their names or numbers."""
    match node:
        case ast.Subscript(value=ast.Name(id=frame), slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None), column])):
            return _by_number(frame, node, column)
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id=frame), attr="iloc"),
            slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None), column]),
        ):
            return _by_number(frame, node, column)
        case (
            ast.Subscript(value=ast.Name(id=frame), slice=column)
            | ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=frame), attr="loc"), slice=ast.Tuple(elts=[ast.Slice(), column])
            )
        ):
            label = _text(source, column)
            if label is not None:
                return Picked(frame, node, label)
            without = _columns(source, frame, column, STEPS)
            return Picked(frame, node, None, without) if without is not None else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id=frame), attr="drop")):
            dropped = _dropped(source, node)
            return Picked(frame, node, None, dropped) if dropped is not None else None
        case _:
            return None


def _by_number(frame: str, node: ast.expr, column: ast.expr) -> Picked | None:
    match column:
        case ast.Slice(lower=lower, upper=upper, step=None):
            first, end = _number(lower) if lower else 0, _number(upper) if upper else None
            is_known = first is not None and first >= 0 and (upper is None or (end is not None and end > 0))
            return Picked(frame, node, None, frozenset(), first or 0, end) if is_known else None
        case _:
            label = _number(column)
            return Picked(frame, node, label) if label is not None and label >= -1 else None


def _number(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case _:
            return None


def _text(source: Source, node: ast.expr) -> str | None:
    """The name of a single column, itself or by a name that is given it once."""
    match node:
        case ast.Constant(value=str(text)) | ast.List(elts=[ast.Constant(value=str(text))]):
            return text
        case ast.Name(id=name):
            made = loss_terms.assigned(source, name)
            return _text(source, made[0]) if len(made) == 1 and isinstance(made[0], ast.Constant) else None
        case _:
            return None


def _texts(source: Source, node: ast.expr) -> frozenset[str] | None:
    """The names of columns in a list that is written out."""
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            texts = [_text(source, each) for each in items]
            return frozenset(each for each in texts if each is not None) if None not in texts else None
        case ast.Name(id=name):
            made = loss_terms.assigned(source, name)
            if len(made) == 1 and isinstance(made[0], ast.List | ast.Tuple | ast.Set | ast.Constant):
                is_changed = source.contains(rf"\b{name}\.(?:append|extend|add|insert|update)\(|\b{name} \+=")
                return None if is_changed else _texts(source, made[0])
            return None
        case _:
            text = _text(source, node)
            return frozenset({text}) if text is not None else None


def _dropped(source: Source, call: ast.Call) -> frozenset[str] | None:
    """The columns that `drop` leaves out."""
    named = {each.arg: each.value for each in call.keywords}
    axis = named.get("axis", call.args[1] if len(call.args) > 1 else None)
    is_of_columns = isinstance(axis, ast.Constant) and axis.value in {1, "columns"}
    given = named.get("columns") or (call.args[0] if call.args and is_of_columns else None)
    return _texts(source, given) if given is not None and not {"inplace", "level", "index"} & named.keys() else None


def _columns(source: Source, frame: str, node: ast.expr, steps: int) -> frozenset[str] | None:
    """What is left out of the list of all columns of a frame, or of one that it is a part of; None for another list."""
    if steps == 0:
        return None
    match node:
        case ast.Attribute(value=ast.Name(id=of), attr="columns"):
            return frozenset() if _is_part(source, frame, of, 3) and not _is_smaller(source, of, node) else None
        case ast.Call(func=ast.Name(id="list" | "sorted"), args=[inner]):
            return _columns(source, frame, inner, steps - 1)
        case ast.Call(func=ast.Attribute(value=inner, attr="tolist" | "to_list" | "copy"), args=[]):
            return _columns(source, frame, inner, steps - 1)
        case ast.Attribute(value=inner, attr="values"):
            return _columns(source, frame, inner, steps - 1)
        case ast.Call(func=ast.Attribute(value=inner, attr="drop" | "difference"), args=[given], keywords=[]):
            return _both(_columns(source, frame, inner, steps - 1), _texts(source, given))
        case ast.ListComp(elt=ast.Name(id=item), generators=[ast.comprehension(target=ast.Name(id=same), ifs=tests)]):
            columns = _columns(source, frame, node.generators[0].iter, steps - 1) if item == same else None
            for test in tests:
                columns = _both(columns, _refused(source, test, item))
            return columns
        case ast.Name(id=name):
            made = loss_terms.assigned(source, name)
            is_changed = source.contains(rf"\b{name}\.(?:remove|pop|clear)\(|\bdel {name}\b|\b{name} [-+&|]=")
            return _columns(source, frame, made[0], steps - 1) if len(made) == 1 and not is_changed else None
        case _:
            return None


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return one | other if one is not None and other is not None else None


def _refused(source: Source, test: ast.expr, item: str) -> frozenset[str] | None:
    """The names of columns for which a condition is false; None for another kind of condition."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.NotEq() | ast.NotIn()], comparators=[given]) if name == item:
            return _texts(source, given)
        case ast.BoolOp(op=ast.And(), values=tests):
            refused: frozenset[str] | None = frozenset()
            for each in tests:
                refused = _both(refused, _refused(source, each, item))
            return refused
        case _:
            return None


def _is_part(source: Source, frame: str, of: str, steps: int) -> bool:
    """Whether a frame has the columns of another one, because its rows are some of them."""
    if frame == of:
        return True
    made = source.cached(_given).get(frame, []) if steps else []
    names = [
        each.id
        for value in made
        if not any(isinstance(node, ast.Attribute) and node.attr in {"drop", "filter"} for node in walk(value))
        for each in walk(value)
        if isinstance(each, ast.Name) and each.id != frame
    ]
    return any(_is_part(source, name, of, steps - 1) for name in dict.fromkeys(names))


def _given(source: Source) -> dict[str, list[ast.expr]]:
    """What each name of a file is given, also as one of several results."""
    found: dict[str, list[ast.expr]] = {}
    for node in source.nodes_of(ast.Assign):
        for target in node.targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Name):
                    found.setdefault(each.id, []).append(node.value)
    return found


def _is_smaller(source: Source, frame: str, node: ast.expr) -> bool:
    """Whether columns are added to a frame after its columns are listed, or taken out of it before."""
    for statement in source.nodes_of(ast.Assign, ast.Delete):
        targets = statement.targets
        is_of_frame = any(isinstance(each, ast.Subscript) and unparse(each.value) == frame for each in targets)
        if is_of_frame and (isinstance(statement, ast.Delete) or statement.lineno > node.lineno):
            return True
    made = loss_terms.assigned(source, frame)
    is_cut = any(last_name(each.func) in {"drop", "pop"} for value in made for each in _calls(value))
    return is_cut or any(isinstance(value, ast.Subscript) for value in made) or _drops_in_place(source, frame)


def _calls(node: ast.expr) -> list[ast.Call]:
    return [each for each in walk(node) if isinstance(each, ast.Call)]


def _drops_in_place(source: Source, frame: str) -> bool:
    return source.contains(rf"\b{frame}\.pop\(|\b{frame}\.drop\([^\n]*inplace|\bdel {frame}\[")


def _is_changed(source: Source, held: Picked, label: Picked) -> bool:
    """Whether a frame may be another one where the inputs are picked than where the labels are."""
    lines = sorted((held.node.lineno, label.node.lineno))
    between = range(lines[0], lines[1] + 1)
    bound = [each for each in source.nodes_of(ast.Assign) if each.lineno in between]
    names = {unparse(one) for each in bound for target in each.targets for one in walk(target)}
    is_set_later = label.frame in names or f"{label.frame}[{label.label!r}]" in names
    return is_set_later or _drops_in_place(source, held.frame)
