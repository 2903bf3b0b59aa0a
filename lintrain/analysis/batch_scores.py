"""The parts of a batch in a scope, and the scores that a network gives for its rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.hits import LOSS_NAME
from lintrain.analysis.loader_loops import loops_over_loaders
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SAME_ROWS = frozenset(
    {"to", "cuda", "cpu", "numpy", "detach", "long", "float", "double", "half", "int", "bool", "contiguous", "clone"}
    | {"data", "type", "requires_grad_", "type_as", "view_as", "view", "reshape", "flatten", "squeeze", "unsqueeze"}
)
"""Methods and attributes after which a part of a batch has the same rows in the same order."""

RESHAPES = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze"})
"""Those of them after which scores may have other axes."""

FILLED = frozenset({"nan_to_num", "zeros_like", "ones_like", "normalize", "tensor", "as_tensor", "from_numpy", "clamp"})
"""Functions of torch that give as many rows as they get."""

STEPS = frozenset({"training_step", "validation_step", "test_step", "_step", "_shared_step", "shared_step"})
"""Methods whose second argument is a batch, as Lightning calls them."""

MODULES = frozenset({"np", "numpy", "torch", "F", "tf", "nn", "functional", "math", "random", "os", "time"})
NOT_NETWORKS = frozenset(
    {"len", "zip", "list", "tuple", "int", "float", "str", "sum", "max", "min", "print", "isinstance", "type", "dict"}
    | {"append", "extend", "update", "set", "range", "sorted", "enumerate", "to_device", "next", "iter", "getattr"}
)
"""Functions that give no scores for what they get."""

TARGETS = lazy_pattern(r"^(?:y|labels?|targets?)$")
SCORES = lazy_pattern(r"logit|out|pred|score|prob|y_?hat", 2)
CLASSES_LAST = frozenset({"softmax", "log_softmax", "sigmoid", "exp", "logsigmoid"})
"""Functions after which scores of the classes still have them in the same order."""

WHOLE, PART = True, False
"""What a name holds: a whole batch, or one of its parts."""

Bindings: TypeAlias = Mapping[str, Sequence[tuple[int, ast.expr | None]]]
"""What each name of a scope is given, and in which line; None for a value that is no expression of its own."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The names of a scope that hold batches (`is_whole`) or their parts, and everything that its names are given."""

    is_whole: Mapping[str, bool]
    given: Bindings
    losses: frozenset[tuple[str, str]]

    def is_part(self, node: ast.expr) -> bool:
        """Whether an expression is part of a batch, with all of its rows: `y`, `batch["labels"].to(device)`."""
        return _kind(node, self.is_whole) is PART

    def has_scores(self, node: ast.expr) -> bool:
        """Whether an expression is what a network gives for the rows of a batch: `model(x)`, `outputs.logits`."""
        match node:
            case ast.Name(id=name):
                given = self._given_last(name, node.lineno)
                if isinstance(given, ast.Subscript) and SCORES.search(name) and isinstance(given.slice, ast.Constant):
                    given = given.value  # `logits = outputs[1]`
                return given is not None and name not in self.is_whole and self.has_scores(given)
            case ast.Attribute(value=owner, attr=name):
                return (name == "data" or bool(SCORES.search(name))) and self.has_scores(owner)
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(key))):
                return SCORES.search(key) is not None and self.has_scores(owner)
            case ast.Call():
                return self._gives_scores(node)
            case _:
                return False

    def _given_last(self, name: str, line: int) -> ast.expr | None:
        """What the last statement above a line gives a name."""
        return next((value for at, value in reversed(self.given.get(name, ())) if at < line), None)

    def _gives_scores(self, call: ast.Call) -> bool:
        name, owner = last_name(call.func), call.func.value if isinstance(call.func, ast.Attribute) else None
        if name in CLASSES_LAST and (scores := softmax_input(call)) is not None:
            return self.has_scores(scores)
        if owner is not None and name in SAME_ROWS - RESHAPES:
            return self.has_scores(owner)
        of = unparse(owner) if owner is not None else ""
        is_library = of.partition(".")[0] in MODULES or name in NOT_NETWORKS or name[:1].isupper()
        if not name or is_library or LOSS_NAME.search(unparse(call.func)):
            return False
        parts = [each.value if isinstance(each, ast.Starred) else each for each in call.args]
        parts += [each.value for each in call.keywords]
        return any(_kind(each, self.is_whole) is not None for each in parts) or (
            len(parts) == 1 and self.has_scores(parts[0])
        )


def softmax_input(call: ast.Call) -> ast.expr | None:
    """What a softmax along another axis than the first, or a function of each number, is computed of."""
    axes = [each for each in (*call.args, *(each.value for each in call.keywords)) if isinstance(each, ast.Constant)]
    if any(each.value == 0 for each in axes) or not isinstance(call.func, ast.Attribute | ast.Name):
        return None
    is_function = isinstance(call.func, ast.Name) or unparse(call.func.value).split(".")[0] in MODULES
    if is_function:
        return call.args[0] if call.args else None
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def batches_in(source: Source, scope: ast.AST) -> Batches:
    """The batches of the loops over loaders in a scope, or those that it gets as a step of Lightning."""
    nodes = own_nodes(scope)
    given = _bindings(nodes)
    found = dict(_seeds(source, scope, nodes))
    for _ in range(3):
        grown = {
            name: kind for name, values in given.items() if (kind := _kind_of_all(values, found, name)) is not None
        }
        if grown.keys() <= found.keys():
            break
        found = {**grown, **found}
    kept = {name: kind for name, kind in found.items() if _is_kept(given.get(name, ()), found)}
    return Batches(kept, given, frozenset(_losses(nodes)))


def _seeds(source: Source, scope: ast.AST, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, bool]]:
    inside = {id(node) for node in nodes}
    for loop, _ in source.cached(loops_over_loaders):
        if id(loop) in inside:
            yield from _of_target(loop.target, is_counted="enumerate(" in unparse(loop.iter))
    if isinstance(scope, ast.FunctionDef):
        arguments = [each.arg for each in scope.args.args]
        if scope.name in STEPS and len(arguments) > 1 and arguments[0] == "self":
            yield arguments[1], WHOLE
        elif "batch" in arguments:  # of `compute_loss(self, batch)`, or a hook of Lightning
            yield "batch", WHOLE


def _of_target(target: ast.expr, *, is_counted: bool) -> Iterator[tuple[str, bool]]:
    """What the target of a loop binds: `batch`, `x, y`, `i, batch`, `i, (x, y)`."""
    if is_counted:
        if isinstance(target, ast.Tuple) and len(target.elts) == 2:
            yield from _of_target(target.elts[1], is_counted=False)
        return
    match target:
        case ast.Name(id=name):
            yield name, WHOLE
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                if isinstance(part, ast.Name):
                    yield part.id, PART
        case _:
            pass


def _bindings(nodes: Sequence[ast.AST]) -> Bindings:
    """What each name is given by assignments; an addition to it, or part of what a call gives, counts as that call."""
    found: dict[str, list[tuple[int, ast.expr | None]]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for name, part in _pairs(target, value):
                        found.setdefault(name, []).append((node.lineno, part))
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                found.setdefault(name, []).append((node.lineno, value))
            case ast.AugAssign(target=ast.Name(id=name)):
                found.setdefault(name, []).append((node.lineno, None))
            case _:
                pass
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case ast.Tuple(elts=parts), ast.Tuple(elts=values) if len(parts) == len(values):
            for part, one in zip(parts, values, strict=True):
                yield from _pairs(part, one)
        case ast.Tuple(elts=parts), (ast.Name() | ast.Call() | ast.GeneratorExp() | ast.ListComp()):
            given = _batch_given(value) if any(TARGETS.search(unparse(part)) for part in parts) else value
            for index, part in enumerate(parts):
                if isinstance(part, ast.Name):
                    key = ast.Constant(value=index)
                    # Of several results, those that are called scores are.
                    of_call = isinstance(value, ast.Call) and SCORES.search(part.id) is not None
                    yield part.id, value if of_call else ast.Subscript(value=given, slice=key, ctx=ast.Load())
        case _:
            for each in walk(target):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                    yield each.id, None


def _batch_given(value: ast.expr) -> ast.expr:
    """The batch that a method takes apart, `x, y = self.parts_of(batch, device)`; else the value."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[ast.Name() as batch, *_]):
            return batch
        case _:
            return value


def _kind_of_all(values: Sequence[tuple[int, ast.expr | None]], known: Mapping[str, bool], name: str) -> bool | None:
    """What a name holds by its first value that is of a batch; `_is_kept` judges the others."""
    others = {each: kind for each, kind in known.items() if each != name}
    kinds = [_kind(value, others) for _, value in values if value is not None]
    return next((kind for kind in kinds if kind is not None), None)


def _is_kept(values: Sequence[tuple[int, ast.expr | None]], known: Mapping[str, bool]) -> bool:
    """Whether everything that a name is given is of a batch."""
    return all(value is not None and _kind(value, known) is not None for _, value in values)


def _kind(node: ast.expr, known: Mapping[str, bool]) -> bool | None:
    """Whether an expression is a whole batch or a part of one; None for others."""
    match node:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=str()), *_]):
            return PART if _kind(owner, known) is WHOLE else None
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in SAME_ROWS:
            return _kind(owner, known)
        case ast.Call(func=ast.Attribute(attr=attr), args=[inner, *_]) if attr in FILLED:
            return _kind(inner, known)
        case ast.IfExp(body=one, orelse=other):
            kind = _kind(one, known)
            return kind if kind == _kind(other, known) else None
        case ast.Call(func=ast.Attribute(value=owner, attr="argmax")) if _is_along_classes(node):
            return PART if _kind(owner, known) is PART else None
        case ast.BinOp(left=inner):  # noise that is added
            return _kind(inner, known)
        case ast.Attribute(value=owner, attr=attr) if attr in SAME_ROWS:
            return _kind(owner, known)
        case ast.Subscript(value=owner, slice=ast.Constant()) | ast.Attribute(value=owner):
            return PART if _kind(owner, known) is WHOLE else None
        case ast.DictComp() | ast.ListComp() | ast.GeneratorExp():
            over = node.generators[0].iter
            owner = over.func.value if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) else over
            return WHOLE if _kind(owner, known) is WHOLE else None
        case ast.Call(func=ast.Name(id="tuple" | "list" | "dict" | "to_device"), args=[inner, *_]):
            return _kind(inner, known)
        case _:
            return None


def _is_along_classes(node: ast.Call) -> bool:
    """Whether `labels.argmax(dim=1)` is of one-hot rows: then each row still has its class."""
    given = [*node.args, *(each.value for each in node.keywords)]
    return len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value == 1


def _losses(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    """The code of scores and targets that losses of a scope get, unless each row is the class of itself."""
    pairs_rows = any(isinstance(node, ast.Call) and last_name(node.func) in {"arange", "eye"} for node in nodes)
    for node in () if pairs_rows else nodes:
        match node:
            case ast.Call(func=called, args=[scores, target, *_]) if LOSS_NAME.search(unparse(called)):
                yield unparse(scores), unparse(target)
            case _:
                pass
