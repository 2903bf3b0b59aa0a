"""How a script uses arrays that it reads from files: their names, their numbers of axes, and which hold labels."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping

from lintrain.startup.lazy_dataclass import dataclass

LABELS = re.compile(
    r"^[yY](_?(t|v|tr|te|trn|tst|train|test|val|valid|dev)\w*)?$|[a-z]Y$|(?i:label|ground_?truth)"
    r"|(?i:(^|[^a-z])(y|gt|gnd|targets?|class(es)?)([^a-z]|$))"
)
READS = frozenset({"load", "loadmat", "File", "loads"})
TAKES_AXES = frozenset({"permute", "transpose"})
KEEPS_AXES = frozenset(
    {
        "astype",
        "copy",
        "from_numpy",
        "tensor",
        "as_tensor",
        "array",
        "asarray",
        "float",
        "long",
        "to",
        "FloatTensor",
        "LongTensor",
        "Tensor",
        "permute",
        "transpose",
    }
)
"""Calls whose result has as many axes as what they are given."""


def is_label(*names: str) -> bool:
    """Whether one of the names of an array says that it holds classes."""
    return any(LABELS.search(each) is not None for each in names if each)


@dataclass(frozen=True)
class Uses:
    """By the names of variables: numbers of axes, keys that they are asked for; and by keys who takes their values."""

    dimensions: Mapping[str, int]
    keys: Mapping[str, tuple[str, ...]]
    takers: Mapping[str, tuple[str, ...]]

    def taken_from(self, key: str) -> tuple[str, ...]:
        """The variables that are assigned the array of a key."""
        return self.takers.get(key, ())


@functools.cache
def uses_of(script: str) -> Uses:
    """What a script's text shows of the arrays in its variables; the text may be that of several modules."""
    dimensions, keys, takers = dict[str, int](), dict[str, dict[str, None]](), dict[str, dict[str, None]]()
    same = dict[str, str]()
    for node in _nodes(script):
        for name, count in _dimensions(node):
            dimensions[name] = max(count, dimensions.get(name, 0))
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)), ctx=ast.Load()):
                keys.setdefault(name, {}).setdefault(key)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if (taken := _key(value)) is not None:
                    takers.setdefault(taken, {}).setdefault(name)
                if (origin := _same_axes(value)) is not None and origin != name:
                    same[name] = origin
            case _:
                pass
    # From the last to the first: what is known of a copy of a copy is known of both.
    for name, origin in reversed(same.items()):
        if name in dimensions:
            dimensions[origin] = max(dimensions[name], dimensions.get(origin, 0))
    plain = {name: tuple(each) for name, each in keys.items()}
    return Uses(dimensions, plain, {name: tuple(each) for name, each in takers.items()})


def targets_at(text: str, line: int, *, whole: bool = False) -> list[str]:
    """The names that the statement at a line assigns (the `whole` value), or that its `with` gives what is opened."""
    for node in _nodes(text):
        if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or line):
            if whole and not isinstance(node.value, ast.Call):
                return []
            return [each for target in node.targets for each in _names(target)]
        if isinstance(node, ast.With) and node.lineno <= line <= (node.items[-1].context_expr.end_lineno or line):
            return [
                each for item in node.items if item.optional_vars is not None for each in _names(item.optional_vars)
            ]
    return []


def targets_of_load(text: str, line: int, opened: str) -> list[str] | None:
    """The names that are assigned what is loaded from an open file, at a line or below it."""
    for node in _nodes(text):
        if isinstance(node, ast.Assign) and node.lineno >= line:
            match node.value:
                case ast.Call(func=ast.Attribute(attr="load"), args=[ast.Name(id=name), *_]) if name == opened:
                    return [each for target in node.targets for each in _names(target)]
                case _:
                    pass
    return None


def _nodes(text: str) -> Iterator[ast.AST]:
    try:
        yield from ast.walk(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return


def _names(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(attr=name):
            yield name
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for each in targets:
                yield from _names(each)
        case _:
            pass


def _dimensions(node: ast.AST) -> Iterator[tuple[str, int]]:
    """The axes that a node shows of a variable."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape", value=owner), slice=ast.Constant(value=int(at))):
            # From the end of a shape, an axis tells nothing of their number.
            yield from ((name, at + 1) for name in _names(owner) if at >= 0)
        case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Attribute(attr="shape", value=owner)):
            yield from ((name, len(parts)) for name in _names(owner))
        case ast.Assign(
            targets=[ast.Tuple(elts=parts)], value=ast.Call(func=ast.Attribute(attr="shape" | "size"), args=[owner])
        ):
            yield from ((name, len(parts)) for name in _names(owner))
        case ast.Call(func=ast.Attribute(attr=method, value=owner), args=axes) if method in TAKES_AXES and axes:
            # `transpose(1, 2)` of torch swaps two axes of any number.
            yield from ((name, len(axes)) for name in _names(owner) if len(axes) > 2)
        case ast.Call(func=ast.Attribute(attr="pad" | "transpose"), args=[owner, ast.Tuple(elts=parts), *_]):
            yield from ((name, len(parts)) for name in _names(owner))
        case ast.Subscript(value=owner, slice=ast.Tuple(elts=parts)):
            if not any(isinstance(each, ast.Constant) and each.value in (None, ...) for each in parts):
                yield from ((name, len(parts)) for name in _names(owner))
        case _:
            pass


def _key(value: ast.expr) -> str | None:
    """The key of `archive["images"]`, also within calls: `numpy.array(archive["images"][:])`."""
    for node in ast.walk(value):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                return key
            case _:
                pass
    return None


def _same_axes(value: ast.expr) -> str | None:
    """The variable whose axes a value has: `torch.from_numpy(images).float()`."""
    match value:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Attribute(attr=method, value=owner), args=arguments) if method in KEEPS_AXES:
            first = next(iter(arguments), None)
            found = (
                _same_axes(first) if first is not None and not isinstance(first, ast.Constant | ast.Attribute) else None
            )
            return found or _same_axes(owner)
        case ast.BinOp(left=left):
            return _same_axes(left)
        case _:
            return None
