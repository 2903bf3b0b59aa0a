"""The terms that a loss is the sum of, each with its sign, through the names and functions of a file.

`loss = pg - 0.01 * entropy.mean()` has the terms `pg` with +1 and `entropy` with -1; `pg` is followed to what it was
given before, and `evaluate(x)` into the function of that name. Only signs are certain: a factor with a name counts as
positive, unless the file gives it a negative number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice

from lintrain.analysis import origins
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

PASSES = frozenset(
    {
        *("mean", "sum", "nanmean", "float", "double", "half", "to", "type", "type_as", "cuda", "cpu", "clone"),
        *("squeeze", "unsqueeze", "view", "view_as", "reshape", "flatten", "contiguous", "expand", "t"),
    }
)
"""Methods whose result has the sign of the tensor that they are called on."""

FUNCTIONS = frozenset(
    {
        *("mean", "sum", "stack", "cat", "squeeze", "unsqueeze", "flatten", "reshape", "nanmean"),
        *("reduce_mean", "reduce_sum", "cast", "expand_dims"),
    }
)
"""Functions of torch, TensorFlow and Keras whose result has the sign of their first argument."""

ARRAYS = frozenset({"torch", "th", "np", "tf", "math", "K", "backend", "ops", "jnp"})
"""The last names of the modules that compute with arrays: `torch`, `tf.math`, `keras.ops`."""

MOST_STEPS = 12
"""How many names and functions are followed one after another."""

BACKWARD = lazy_pattern(r"\bbackward\(|\bGradientTape\(|\badd_loss\(")

WEIGHTS = lazy_pattern(r"trainable|weights|variables|params")
"""Code of what an optimizer of TensorFlow changes; the gradient of an input is for something else."""

TYPED = ast.Name | ast.Attribute


@dataclass(frozen=True, slots=True)
class Factor:
    """What a term is a product of: the last expression that its names lead to, and its code in the product."""

    expression: ast.expr
    written: ast.expr


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a loss: its factors without literal numbers, the sign of the whole, and its code in the last sum."""

    factors: tuple[Factor, ...]
    sign: int
    site: ast.expr

    @property
    def expression(self) -> ast.expr:
        """The only factor, or the first one."""
        return self.factors[0].expression


def losses(source: Source) -> Iterator[tuple[ast.Call, list[Term]]]:
    """The `backward` calls of a file, each with the terms of its loss; for TensorFlow and Keras those of tapes."""
    if not source.contains(BACKWARD):
        return
    yield from ((call, list(terms(source, loss))) for call, loss in source.gathered(_passes))


def _passes(statement: ast.stmt) -> list[tuple[ast.Call, ast.expr]]:
    """The calls of a statement that give a loss to its gradients, each with its loss."""
    found: list[tuple[ast.Call, ast.expr]] = []
    for call in walk(statement):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Attribute(attr="scale"), args=[loss]), attr=name)):
                pass
            case ast.Call(func=ast.Attribute(attr=name), args=[loss]):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id=tape), attr="gradient"), args=[loss, weights, *_]):
                name = "backward" if "tape" in tape and WEIGHTS.search(unparse(weights)) else ""
            case ast.Call(func=ast.Attribute(value=loss, attr=name)):
                pass
            case _:
                continue
        if name in {"backward", "manual_backward", "add_loss"}:
            found.append((call, loss))
    return found


def terms(source: Source, expression: ast.expr) -> Iterator[Term]:
    """The terms of an expression."""
    yield from _Terms(source).of(expression, 1, expression, 0)


def definitions(source: Source, name: TYPED) -> Iterator[tuple[ast.expr, int | None, ast.operator | None]]:
    """What a name was given before an expression, latest first: the value, its number in a tuple, and an operator."""
    text = origins.text_of(name)
    found = origins.origins(source, name, uses=lambda each: {text} if each is name else set())
    for origin in islice(found, 1, None):
        statement = origins.owner_of(source, origin.expression)
        position = _position(statement, text) if isinstance(statement, ast.Assign) else None
        yield origin.expression, position, origin.operator


def _position(statement: ast.Assign, name: str) -> int | None:
    """The number of a name among those that an assignment unpacks a value into; None if it gets all of it."""
    match statement.targets[0], statement.value:
        case ast.Tuple(elts=names), value if not isinstance(value, ast.Tuple):
            return next((number for number, each in enumerate(names) if unparse(each) == name), None)
        case _:
            return None


def returned(source: Source, call: ast.Call, position: int | None) -> ast.expr | None:
    """What the function of a file that a call names returns at its end, if there is one of that name."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            pass
        case _:
            return None
    function = source.cached(_functions).get(name)
    values = [each.value for each in own_nodes(function) if isinstance(each, ast.Return)] if function else []
    value = values[0] if len(values) == 1 else None
    if position is None or not isinstance(value, ast.Tuple):
        return value if position is None else None
    return value.elts[position] if position < len(value.elts) else None


def _functions(source: Source) -> dict[str, ast.FunctionDef]:
    """The functions and methods of a file whose names are there once."""
    found = dict[str, list[ast.FunctionDef]]()
    for each in source.nodes_of(ast.FunctionDef):
        found.setdefault(each.name, []).append(each)
    return {name: some[0] for name, some in found.items() if len(some) == 1}


def assigned(source: Source, name: str) -> list[ast.expr]:
    """What a file assigns to a name or attribute, also as one of several."""
    return source.cached(_assigned).get(name, [])


def _assigned(source: Source) -> dict[str, list[ast.expr]]:
    found = dict[str, list[ast.expr]]()
    for node in source.nodes_of(ast.Assign):
        match node.targets[0], node.value:
            case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                pairs = list(zip(names, values, strict=True))
            case target, value:
                pairs = [(target, value)]
        for target, value in pairs:
            found.setdefault(unparse(target), []).append(value)
    return found


def elements(source: Source, name: TYPED) -> list[ast.expr]:
    """What a name of a loop or comprehension around it stands for, if that goes through a list that is filled."""
    for target, container in reversed(source.cached(_loops).get(name.lineno, [])):
        match target, container:
            case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=given) if len(names) == len(given):
                pairs = list(zip(names, given, strict=True))
            case _:
                pairs = [(target, container)]
        for each, filled in pairs:
            if isinstance(each, ast.Name) and each.id == origins.text_of(name):
                return appended(source, filled)
    return []


def _loops(source: Source) -> dict[int, list[tuple[ast.expr, ast.expr]]]:
    """By line the targets of the loops and comprehensions around it, and what these go through."""
    found = dict[int, list[tuple[ast.expr, ast.expr]]]()
    made: list[tuple[ast.stmt | ast.expr, ast.expr, ast.expr]] = [
        *((loop, loop.target, loop.iter) for loop in source.nodes_of(ast.For)),
        *((node, each.target, each.iter) for node in source.nodes_of(ast.ListComp) for each in node.generators),
        *((node, each.target, each.iter) for node in source.nodes_of(ast.GeneratorExp) for each in node.generators),
    ]
    for node, target, over in made:
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            found.setdefault(line, []).append((target, over))
    return found


def appended(source: Source, container: ast.expr) -> list[ast.expr]:
    """What a file appends to a list of that name, wherever it does."""
    match container:
        case ast.Call(func=ast.Name(id="reversed" | "list" | "enumerate"), args=[inner]):
            return appended(source, inner)
        case ast.Subscript(value=inner, slice=ast.Slice()):
            return appended(source, inner)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return source.cached(_appended).get(name, [])
        case _:
            return []


def _appended(source: Source) -> dict[str, list[ast.expr]]:
    found = dict[str, list[ast.expr]]()
    for node in source.nodes_of(ast.Call):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr="append"), args=[value]
            ):
                found.setdefault(name, []).append(value)
            case _:
                pass
    return found


@dataclass(slots=True)
class _Terms:
    source: Source

    def of(self, node: ast.expr, sign: int, site: ast.expr, steps: int) -> Iterator[Term]:
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                yield from self.of(inner, -sign, site, steps)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right) if divergence(node) is None:
                yield from self.of(left, sign, left, steps)
                yield from self.of(right, -sign if isinstance(op, ast.Sub) else sign, right, steps)
            case ast.BinOp(left=left, op=ast.Div()):
                yield from self.of(left, sign, site, steps)
            case ast.BinOp(op=ast.Mult()):
                yield self._product(node, sign, site, steps)
            case ast.Constant(value=int() | float() as number):
                yield Term((Factor(node, node),), -sign if number < 0 else sign, site)
            case _:
                within = _inside(node)
                if within is not None:
                    yield from self.of(within, sign, site, steps)
                else:
                    yield from self._followed(node, sign, site, steps)

    def _followed(self, node: ast.expr, sign: int, site: ast.expr, steps: int) -> Iterator[Term]:
        """The terms that a name or a call of the file's own function stands for; the node itself if it is neither."""
        found = list[Term]()
        if steps < MOST_STEPS and isinstance(node, ast.Name | ast.Attribute):
            for value, position, operator in definitions(self.source, node):
                if isinstance(operator, ast.Add | ast.Sub | None):
                    way, is_sum = -sign if isinstance(operator, ast.Sub) else sign, operator is not None
                    found += self._given(node, value, position, way, value if is_sum or site is node else site, steps)
            for each in [] if found else elements(self.source, node):
                found += self.of(each, sign, each if site is node else site, steps + 1)
        elif steps < MOST_STEPS and isinstance(node, ast.Call):
            given_back = returned(self.source, node, None)
            found += self.of(given_back, sign, given_back, steps + 1) if given_back is not None else ()
        yield from found or [Term((Factor(node, node),), sign, site)]

    def _given(
        self, name: ast.expr, value: ast.expr, position: int | None, sign: int, site: ast.expr, steps: int
    ) -> Iterator[Term]:
        """The terms of what a name was given: a value, a part of what a function returns, or a list that is filled."""
        if isinstance(value, ast.List) and not value.elts:
            for each in appended(self.source, name):
                yield from self.of(each, sign, each if site is value else site, steps + 1)
        elif position is None:
            yield from self.of(value, sign, site, steps + 1)
        elif isinstance(value, ast.Call) and (part := returned(self.source, value, position)) is not None:
            yield from self.of(part, sign, site, steps + 1)

    def _product(self, node: ast.BinOp, sign: int, site: ast.expr, steps: int) -> Term:
        found = list[Factor]()
        for part in factors(node):
            each = part
            while isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub):
                sign, each = -sign, each.operand
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add | ast.Sub) and divergence(each) is None:
                found.append(Factor(each, each))
                continue
            inner = list(self.of(each, 1, each, steps + 1))
            if len(inner) != 1:
                found.append(Factor(each, each))
                continue
            sign *= inner[0].sign
            parts = [one for one in inner[0].factors if not isinstance(one.expression, ast.Constant)]
            found += [Factor(parts[0].expression, each)] if len(parts) == 1 else parts
        return Term(tuple(found) or (Factor(node, node),), sign, site)


def factors(node: ast.expr) -> Iterator[ast.expr]:
    """The factors of a product, or the expression itself."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            yield from factors(left)
            yield from factors(right)
        case _:
            yield node


def _inside(node: ast.expr) -> ast.expr | None:
    """What a call computes the mean, the sum or another view of, with the same sign."""
    match node:
        case ast.Call(func=ast.Attribute(value=module, attr=name), args=[inner, *_]) if is_of_arrays(module):
            return inner if name in FUNCTIONS else None
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in PASSES:
            return None if isinstance(inner, ast.Name) and inner.id in {"F", "np", "nn", "torch"} else inner
        case ast.Call(func=ast.Name(id="sum"), args=[inner]):
            return inner
        case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner):
            return inner
        case _:
            return None


def may_be_negative(source: Source, weights: Sequence[ast.expr]) -> bool:
    """Whether a file may give one of these weights of a term a negative number."""
    for weight in weights:
        name = weight.id if isinstance(weight, ast.Name) else weight.attr if isinstance(weight, ast.Attribute) else ""
        option = name.replace("_", "[-_]")
        if not name or source.contains(rf"\b{name}\b['\"]?[^\n=]*[=:]\s*-|--{option}\b[^\n]*=\s*-"):
            return True
    return False


def divergence(node: ast.expr) -> int | None:
    """The sign of the divergence from a normal distribution that a sum is, without its factor; None if it is none.

    `1 + logvar - mu.pow(2) - logvar.exp()` is -1, and `mu**2 + logvar.exp() - 1 - logvar` is 1.
    """
    parts = list(_signed(node, 1)) if isinstance(node, ast.BinOp) else []
    if len(parts) != 4:
        return None
    squares = [sign for each, sign in parts if _is_square(each)]
    exponents = [sign for each, sign in parts if exponent(each) is not None]
    ones = [sign for each, sign in parts if isinstance(each, ast.Constant) and each.value == 1]
    if len(squares) != 1 or len(exponents) != 1 or len(ones) != 1 or squares != exponents or ones[0] == squares[0]:
        return None
    rest = [sign for each, sign in parts if not _is_square(each) and exponent(each) is None]
    return exponents[0] if all(sign == -exponents[0] for sign in rest) else None


def _signed(node: ast.expr, sign: int) -> Iterator[tuple[ast.expr, int]]:
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            yield from _signed(left, sign)
            yield from _signed(right, -sign if isinstance(op, ast.Sub) else sign)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            yield from _signed(inner, -sign)
        case _:
            yield node, sign


def _is_square(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)):
            return True
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return unparse(left) == unparse(right)
        case ast.Call(func=ast.Attribute(attr="pow"), args=[*_, ast.Constant(value=2)]):
            return True
        case ast.Call(func=ast.Attribute(attr="square")):
            return True
        case _:
            return False


def exponent(node: ast.expr) -> ast.expr | None:
    """What a call takes the exponential of: `x` of `torch.exp(x)`, `x.exp()` and `keras.ops.exp(x)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=module, attr="exp"), args=[inner]) if is_of_arrays(module):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="exp"), args=[]):
            return inner
        case _:
            return None


def is_of_arrays(node: ast.expr) -> bool:
    """Whether an expression names a module that computes with arrays."""
    return isinstance(node, TYPED) and (node.id if isinstance(node, ast.Name) else node.attr) in ARRAYS


def names(node: ast.expr) -> set[str]:
    """The names in an expression, and those of its attributes."""
    found = (each for each in walk(node) if isinstance(each, ast.Name | ast.Attribute))
    return {each.id if isinstance(each, ast.Name) else each.attr for each in found}
