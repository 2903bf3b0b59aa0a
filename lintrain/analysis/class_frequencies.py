"""Weights of classes that grow with the number of their rows, where rare classes were to count more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import handed_on, positive_weights
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

WRAPS = frozenset(
    {"tensor", "as_tensor", "FloatTensor", "Tensor", "array", "asarray", "from_numpy", "float", "to", "cuda", "astype"}
    | {"values", "tolist", "list", "sort_index", "to_numpy", "float32"}
)
"""What gives the same numbers in another form."""

COUNTS = frozenset({"bincount", "value_counts"})
"""Functions that count the rows of each class, in the order of the classes or with their names."""

USED = {"class_weight": "fit", "weight": "CrossEntropyLoss"}
"""The arguments for weights of classes, each with what takes it."""

OTHER_TAKERS = frozenset({"cross_entropy", "NLLLoss", "nll_loss"})
WEIGHT_FIRST = frozenset({"CrossEntropyLoss", "NLLLoss"})
"""Losses whose first argument are the weights of classes."""

TAKERS = OTHER_TAKERS | frozenset(USED.values())

MOST = 12
"""Names and wraps that are followed."""


@dataclass(frozen=True, slots=True)
class GrowingWeights:
    """Weights that are frequencies: where they are given, by which argument, and where they are computed."""

    location: Location
    argument: str
    made: Location


def growing_weights(source: Source) -> list[GrowingWeights]:
    """The weights of the losses and `fit` calls of a file."""
    return source.cached(_growing_weights)


def _of_positives(source: Source) -> Iterator[GrowingWeights]:
    for each in positive_weights.inverted(source):
        yield GrowingWeights(each.location, "pos_weight", each.made)


def _growing_weights(source: Source) -> list[GrowingWeights]:
    found = list(_of_positives(source)) if source.contains(r"pos(?:itive)?_weight") else []
    if not source.contains(r"class_weight|CrossEntropyLoss\(|cross_entropy\("):
        return found
    known = _Names(source)
    seen = set[Location]()
    for call in source.nodes_of(ast.Call):
        name = last_name(call.func)
        if name not in TAKERS:
            continue
        given = [(each.arg or "", each.value) for each in call.keywords]
        if name in WEIGHT_FIRST and call.args:
            given.append(("weight", call.args[0]))
        for argument, value in given:
            taker = USED.get(argument)
            if taker is None or name not in {taker, *OTHER_TAKERS}:
                continue
            made = known.behind(value)
            if source.location(made) not in seen and _is_growing(known, made):
                seen.add(source.location(made))
                found.append(GrowingWeights(source.location(value), argument, source.location(made)))
    return found


def _is_growing(known: _Names, made: ast.expr) -> bool:
    match made:
        case ast.Dict(keys=keys, values=values):
            classes = [each.value if isinstance(each, ast.Constant) else None for each in keys]
            parts = [_count_over(known, known.behind(each)) for each in values]
            return (
                len(parts) > 1
                and None not in classes
                and all(part is not None and part[0] == number for part, number in zip(parts, classes, strict=True))
            )
        case _:
            return known.direction(made, MOST) > 0


def _count_over(known: _Names, value: ast.expr) -> tuple[int, int | None] | None:
    """The class whose rows `count / other` has on top, and that of `other` if it is one; None for other code."""
    match value:
        case ast.BinOp(left=ast.Name(id=top), op=ast.Div(), right=bottom) if top in known.classes:
            under = known.classes.get(bottom.id) if isinstance(bottom, ast.Name) else None
            return (known.classes[top], under) if under != known.classes[top] else None
        case _:
            return None


class _Names:
    """What the names of a file are bound to once, and the classes whose rows they count."""

    def __init__(self, source: Source) -> None:
        self.source = source
        bound = dict[str, list[ast.expr | None]]()
        self.classes = dict[str, int]()
        for node in source.nodes_of(ast.Assign, ast.AugAssign, ast.For):
            for name, value in _bindings(node):
                bound.setdefault(name, []).append(value)
            self.classes |= dict(_pairs_of_counts(node))
        self.values = {name: given[0] for name, given in bound.items() if len(given) == 1 and given[0] is not None}
        single = ((name, _class_counted(value)) for name, value in self.values.items())
        self.classes |= {name: number for name, number in single if number is not None}
        for name, value in self.values.items():
            match value:
                case ast.BinOp(op=ast.Sub(), right=ast.Name(id=other)) if self.classes.get(other) == 1:
                    self.classes[name] = 0
                case _:
                    pass

    def behind(self, value: ast.expr) -> ast.expr:
        """What a name is bound to, without what gives it another form."""
        for _ in range(MOST):
            match value:
                case ast.Name(id=name) if name in self.values and name not in self.classes:
                    value = self.values[name]
                case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in WRAPS and unparse(owner) not in {
                    "torch",
                    "np",
                    "numpy",
                }:
                    value = owner
                case ast.Call(func=func, args=[first, *_]) if last_name(func) in WRAPS:
                    value = first
                case ast.List(elts=[only]):
                    value = only
                case ast.Name() | ast.Attribute(value=ast.Name(id="self")) if (
                    given := handed_on.given_to(self.source, value)
                ) is not None and given is not value:
                    value = given
                case _:
                    break
        return value

    def direction(self, value: ast.expr, most: int) -> int:
        """1 for what grows with the rows of a class, -1 for what falls, 0 for what is the same or not known."""
        value = self.behind(value)
        match value:
            case ast.Call(func=func) if last_name(func) in COUNTS:
                # `value_counts(normalize=True)` is a frequency too; `minlength` changes nothing.
                return 1
            case ast.BinOp(left=left, op=ast.Div(), right=right) if most:
                top, bottom = self.direction(left, most - 1), self.direction(right, most - 1)
                return top if not bottom else -bottom if not top else 0
            case ast.ListComp(elt=part, generators=[ast.comprehension(target=ast.Name(id=name), iter=over)]) if most:
                return self._of_each(part, name, self.direction(over, most - 1))
            case _:
                return 0

    def _of_each(self, part: ast.expr, name: str, over: int) -> int:
        match part:
            case ast.BinOp(left=ast.Name(id=top), op=ast.Div(), right=bottom) if top == name:
                return 0 if re.search(rf"\b{name}\b", unparse(bottom)) else over
            case ast.BinOp(left=top, op=ast.Div(), right=ast.Name(id=bottom)) if bottom == name:
                return 0 if re.search(rf"\b{name}\b", unparse(top)) else -over
            case _:
                return 0


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.Assign(targets=targets):
            yield from ((each.id, None) for target in targets for each in walk(target) if isinstance(each, ast.Name))
        case ast.AugAssign(target=ast.Name(id=name)):
            yield name, None
        case ast.For(target=target):
            yield from ((each.id, None) for each in walk(target) if isinstance(each, ast.Name))
        case _:
            pass


def _pairs_of_counts(node: ast.AST) -> Iterator[tuple[str, int]]:
    """`negative, positive = np.bincount(y)`."""
    match node:
        case ast.Assign(
            targets=[ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)])], value=ast.Call(func=func)
        ) if last_name(func) == "bincount":
            yield first, 0
            yield second, 1
        case _:
            pass


def _class_counted(value: ast.expr) -> int | None:
    """The class whose rows `(y == 1).sum()`, `np.sum(y == 1)` and `len(df[df.y == 1])` count."""
    code = unparse(value)
    found = re.fullmatch(
        r"\(?[\w.\[\]'\"]+ == ([01])(?:\.0)?\)?(?:\.float\(\)|\.int\(\))?\.sum\(\)(?:\.item\(\))?", code
    )
    found = found or re.fullmatch(r"(?:np|torch)\.(?:sum|count_nonzero)\([\w.\[\]'\"]+ == ([01])\)", code)
    found = found or re.fullmatch(r"len\(\w+\[[\w.\[\]'\"]+ == ([01])\]\)", code)
    return int(found[1]) if found else None
