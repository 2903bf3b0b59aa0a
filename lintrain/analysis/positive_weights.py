"""What `pos_weight` is computed from: the rows of the positive class over those of the negative one, or the reverse."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum, auto

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

NAME = lazy_pattern(r"(?:^|_)pos(?:itive)?_weights?$")
"""Names of the weights of positive rows."""

WRAPS = frozenset(
    {"tensor", "as_tensor", "FloatTensor", "Tensor", "array", "asarray", "from_numpy", "float", "int", "to", "cuda"}
    | {"astype", "values", "tolist", "list", "to_numpy", "float32", "float64", "item", "long", "double", "cpu", "numpy"}
    | {"max", "maximum", "clamp", "clamp_min", "clip", "nan_to_num", "squeeze", "view", "reshape", "round", "full"}
)
"""What gives the same numbers in another form, or in a smaller range."""

LIBRARIES = frozenset({"torch", "np", "numpy", "math"})
SUMS = frozenset({"sum", "count_nonzero", "nansum"})
COUNTERS = frozenset({"bincount", "value_counts", "Counter"})
NEGATIVE = lazy_pattern(r"\b1(?:\.0?)? - |== ?0|!= ?1|~|(?i:neg|zero|not_|inv|absent|normal|background)|< ?0?\.5")
POSITIVE = lazy_pattern(r"(?i)label|target|tag|pos|^y$|^y_|_y$|\by\b|== ?1|> ?0|annot|gt\b|truth|mask|class")
MOST = 12
"""How many names and wraps are followed."""


class Share(Enum):
    """What a number counts or measures: rows of a class, all rows, or their shares of all rows."""

    POSITIVES = auto()
    NEGATIVES = auto()
    ALL = auto()
    POSITIVE_RATE = auto()
    NEGATIVE_RATE = auto()


Pair = tuple[Share | None, Share | None]
INVERTED: set[Pair] = {
    (Share.POSITIVES, Share.NEGATIVES),
    (Share.POSITIVES, Share.ALL),
    (Share.POSITIVE_RATE, Share.NEGATIVE_RATE),
}
RATES: dict[Pair, Share] = {
    (Share.POSITIVES, Share.ALL): Share.POSITIVE_RATE,
    (Share.NEGATIVES, Share.ALL): Share.NEGATIVE_RATE,
}
OTHERS: dict[Pair, Share] = {
    (Share.ALL, Share.POSITIVES): Share.NEGATIVES,
    (Share.ALL, Share.NEGATIVES): Share.POSITIVES,
}
BY_NUMBER = {0: Share.NEGATIVES, 1: Share.POSITIVES}
REST = {Share.POSITIVE_RATE: Share.NEGATIVE_RATE, Share.NEGATIVE_RATE: Share.POSITIVE_RATE}


@dataclass(frozen=True, slots=True)
class Inverted:
    """Positives over negatives: where the weight is given or bound, and where it is computed."""

    location: Location
    made: Location


def inverted(source: Source) -> Iterator[Inverted]:
    """The weights of positive rows that grow with the number of these rows, given to a call, bound or returned."""
    scopes: list[ast.AST] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    found: dict[Location, Location] = {}
    for scope in scopes:
        for value in _weights(scope):
            counts = _Counts(source, scope)
            made = counts.behind(value)
            if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Div) and counts.is_inverted(made):
                # The argument of a loss says more than the assignment before it.
                found[source.location(made)] = source.location(value)
    yield from (Inverted(location, made) for made, location in found.items())


def _weights(scope: ast.AST) -> Iterator[ast.expr]:
    """What a function or a file binds to the name of such a weight, returns as one, or gives as the argument."""
    if isinstance(scope, ast.FunctionDef) and NAME.search(scope.name):
        yield from (each.value for each in own_nodes(scope) if isinstance(each, ast.Return) and each.value is not None)
    calls: list[ast.Call] = []
    for node in own_nodes(scope):
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
                if NAME.search(last_name(target)):
                    yield value
            case ast.Call():
                calls.append(node)
            case _:
                pass
    yield from (each.value for call in calls for each in call.keywords if each.arg and NAME.search(each.arg))


class _Counts:
    """What the names of a function count, and those of the file that the function does not bind."""

    def __init__(self, source: Source, scope: ast.AST) -> None:
        self.bound = source.once(_bindings, source.tree) | source.once(_bindings, scope)

    def is_inverted(self, made: ast.BinOp) -> bool:
        """Whether a quotient is positives over negatives."""
        return (self.share(made.left, MOST), self.share(made.right, MOST)) in INVERTED

    def behind(self, value: ast.expr) -> ast.expr:
        """What a name is bound to, without what gives it another form or a smaller range."""
        for _ in range(MOST):
            inner = self._inner(value)
            if inner is None:
                break
            value = inner
        return value

    def _inner(self, value: ast.expr) -> ast.expr | None:
        match value:
            case ast.Name(id=name):
                given = self.bound.get(name, [])
                return given[0] if len(given) == 1 and isinstance(given[0], ast.expr) else None
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if (
                name in WRAPS and unparse(owner) not in LIBRARIES
            ):
                return owner
            case ast.Call(func=func, args=[ast.Tuple() | ast.List(), filled, *_]) if last_name(func) == "full":
                return filled
            case ast.Call(func=func, args=[first, *_]) if last_name(func) in WRAPS:
                return first
            case ast.Attribute(value=owner, attr="values"):
                return owner
            case ast.List(elts=[only]):
                return only
            case ast.BinOp(left=inner, op=ast.Add(), right=ast.Constant(value=int() | float() as small)):
                return inner if small <= 1 else None
            case _:
                return None

    def share(self, value: ast.expr, most: int) -> Share | None:
        """What a number counts, None for what is not known."""
        value = self.behind(value)
        match value:
            case _ if most == 0:
                return None
            case ast.Name(id=name):
                return self._counted(name)
            case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=right):
                part = self.share(right, most - 1)
                return REST.get(part) if part is not None else None
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return OTHERS.get((self._all(left, most), self.share(right, most - 1)))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                both = {self.share(left, most - 1), self.share(right, most - 1)}
                return Share.ALL if both == {Share.POSITIVES, Share.NEGATIVES} else None
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return RATES.get((self.share(left, most - 1), self._all(right, most)))
            case ast.Subscript(value=counted, slice=ast.Constant(value=int(number))):
                counts = self.behind(counted)
                is_count = isinstance(counts, ast.Call) and last_name(counts.func) in COUNTERS
                return BY_NUMBER.get(number) if is_count else _counted_here(value)
            case _:
                return _counted_here(value)

    def _all(self, value: ast.expr, most: int) -> Share | None:
        return Share.ALL if _is_size(self.behind(value)) else self.share(value, most - 1)

    def _counted(self, name: str) -> Share | None:
        """What a name counts that is unpacked from counts, or that a loop adds to."""
        shares = set[Share | None]()
        for given in self.bound.get(name, []):
            match given:
                case Share():
                    shares.add(given)
                case ast.AugAssign(value=added):
                    added = self.behind(added)
                    shares.add(Share.ALL if _is_size(added) else _counted_here(added))
                case ast.Constant(value=0 | 0.0 | None):
                    pass
                case _:
                    shares.add(None)
        return shares.pop() if len(shares) == 1 else None


Bound = dict[str, list[ast.expr | ast.AugAssign | Share | None]]


def _bindings(scope: ast.AST) -> Bound:
    """What the names of a function are bound to: a value, the statement that adds to it, or None for another form."""
    found: Bound = {}
    for node in own_nodes(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add()):
                found.setdefault(name, []).append(node)
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)])], value=value):
                for index, name in enumerate((first, second)):
                    found.setdefault(name, []).append(_unpacked(value, index))
            case ast.Name(id=name, ctx=ast.Store()) if name not in found:
                found[name] = []
            case ast.arg(arg=name):
                found[name] = [None]
            case _:
                pass
    return found


def _unpacked(value: ast.expr, index: int) -> ast.expr | Share | None:
    """`negative, positive = np.bincount(y)`, and two values for two names."""
    match value:
        case ast.Tuple(elts=[_, _]):
            return value.elts[index]
        case ast.Call(func=func) if last_name(func) == "bincount":
            return (Share.NEGATIVES, Share.POSITIVES)[index]
        case _:
            return None


def _is_size(value: ast.expr) -> bool:
    """Whether an expression is the number of all rows: `len(rows)`, `y.shape[0]`, `y.numel()`."""
    match value:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() | ast.Attribute() | ast.Subscript() as rows]):
            return not isinstance(rows, ast.Subscript) or "==" not in unparse(rows)
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case ast.Call(func=ast.Attribute(attr="numel")) | ast.Attribute(attr="size"):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case _:
            return False


def _counted_here(value: ast.expr) -> Share | None:
    """The rows that a call counts: `(y == 1).sum()`, `np.sum(y)`, `labels.sum(axis=0)`, `len(df[df.y == 1])`."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr="mean")) if unparse(owner) not in LIBRARIES:
            return RATES.get((_side(owner), Share.ALL))
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in SUMS and unparse(owner) not in LIBRARIES:
            return _side(owner)
        case ast.Call(func=func, args=[ast.GeneratorExp(elt=_, generators=[over]), *_]) if last_name(func) == "sum":
            return _side(over.ifs[0]) if len(over.ifs) == 1 else None
        case ast.Call(func=func, args=[counted, *_]) if last_name(func) in SUMS:
            return _side(counted)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Subscript(slice=test)]) if "==" in unparse(test):
            return _side(test)
        case ast.Call(func=ast.Name(id="len"), args=[ast.ListComp(generators=[over])]) if len(over.ifs) == 1:
            return _side(over.ifs[0])
        case ast.Call(func=ast.Attribute(attr="count"), args=[ast.Constant(value=int(number))]):
            return BY_NUMBER.get(number)
        case _:
            return None


def _side(counted: ast.expr) -> Share | None:
    """The class that a mask or an array of labels holds as its ones."""
    code = unparse(counted)
    if NEGATIVE.search(code):
        return Share.NEGATIVES
    return Share.POSITIVES if POSITIVE.search(code) else None
