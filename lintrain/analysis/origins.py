"""What a value is computed from, statement by statement: the expressions behind the names of an expression.

It goes backwards through one function: through assignments, the branches of an `if`, `with … as` and loops, out of the
block of the expression and up to the head of the function. `self.loss` is a name like `loss`. What a function of the
script does with its arguments is not followed here; the reader's values show that.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import cast

from lintrain.model.location import Location
from lintrain.pipeline.events import Event
from lintrain.pipeline.record import Pipeline
from lintrain.source import places
from lintrain.source.nodes import BLOCKS, WITH_BLOCKS, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MOST_STATEMENTS = 400
"""Statements before an expression that are looked at."""


@dataclass(frozen=True, slots=True)
class Origin:
    """An expression that a value is computed from; `is_certain` if every run that gets there has computed it so.

    `operator` is that of `loss /= steps`.
    """

    expression: ast.expr
    is_certain: bool = True
    operator: ast.operator | None = None

    @property
    def divisors(self) -> list[str]:
        """The code of what it is divided by: of `loss / steps`, `torch.div(loss, steps)` and `loss /= steps`."""
        found = [self.expression] if isinstance(self.operator, ast.Div) else []
        for node in walk(self.expression):
            match node:
                case ast.BinOp(op=ast.Div(), right=divisor):
                    found.append(divisor)
                case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="div"), args=[_, divisor]):
                    found.append(divisor)
                case ast.Call(func=ast.Attribute(attr="div" | "div_"), args=[divisor]):
                    found.append(divisor)
                case _:
                    pass
        return [unparse(_number(each)) for each in found]


def _number(node: ast.expr) -> ast.expr:
    """What `float(steps)` is made of."""
    match node:
        case ast.Call(func=ast.Name(id="float" | "int"), args=[inner]):
            return inner
        case _:
            return node


Follows = Callable[[ast.expr], bool]
"""Whether what an expression is computed from is followed further: not where it leaves autograd's graph."""


Uses = Callable[[ast.expr], set[str]]
"""The names in an expression that are followed further: not those that a function takes off the graph."""


def _always(_: ast.expr) -> bool:
    return True


def names_in(expressions: Iterable[ast.expr]) -> Iterator[ast.Name | ast.Attribute]:
    """The names in expressions, and attributes like `self.codes`."""
    for expression in expressions:
        yield from (node for node in walk(expression) if isinstance(node, ast.Name | ast.Attribute))


def text_of(node: ast.Name | ast.Attribute) -> str:
    """The code of a name."""
    return node.id if isinstance(node, ast.Name) else unparse(node)


def _names_in(expression: ast.expr) -> set[str]:
    return {text_of(each) for each in names_in([expression])}


def origins(
    source: Source, expression: ast.expr, follows: Follows = _always, uses: Uses = _names_in
) -> Iterator[Origin]:
    """The expression itself, and those that its names were given before, latest first."""
    if not follows(expression):
        return
    yield Origin(expression)
    search = _Search(follows, uses, uses(expression))
    for statement in _before(source, owner_of(source, expression)):
        # Most statements bind no wanted name: a long script asks this of each pair of its statements.
        if search.wanted.isdisjoint(source.once(_bound_names, statement)):
            continue
        yield from search.through(statement, is_certain=True)
        if not search.wanted:
            return


def has_one_axis(source: Source, expression: ast.expr) -> bool:
    """Whether a tensor certainly has one axis: `torch.arange(8)`, `torch.linspace(0, 1, 9)[1:]` by any name."""
    match expression:
        case ast.Subscript(value=owner, slice=ast.Slice()):
            return has_one_axis(source, owner)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=made)):
            return made in {"arange", "linspace", "logspace", "randperm"}
        case ast.Name():
            made_of = next(
                (each.expression for each in origins(source, expression) if each.expression is not expression), None
            )
            return made_of is not None and has_one_axis(source, made_of)
        case _:
            return False


def read_by_number(scope: ast.AST) -> set[ast.expr]:
    """What single items of are read with a number or the counter of a loop: `x` in `x[0]` and `x[i]`."""
    loops = (each for each in walk(scope) if isinstance(each, ast.For) and unparse(each.iter).startswith("range("))
    counters = {unparse(each.target) for each in loops}
    parts = [each for each in walk(scope) if isinstance(each, ast.Subscript)]
    return {each.value for each in parts if isinstance(each.slice, ast.Constant) or unparse(each.slice) in counters}


def other_names(owner: ast.ClassDef, name: str) -> set[str]:
    """The attributes that a network gives nothing but its own: `self.noise = self._train_noise`."""
    given = dict[str, set[str]]()
    for node in walk(owner):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=other)], value=value):
                given.setdefault(other, set()).add(unparse(value))
            case _:
                pass
    own = {f"self.{each}" for each in given}
    return {other for other, values in given.items() if f"self.{name}" in values and values <= own}


def loss_of(pipeline: Pipeline, backward: Event) -> ast.expr | None:
    """The loss of a backward call: what it is called on, or what an engine or a launcher is passed."""
    call = places.call_at(pipeline.source_of(backward.location), backward.location)
    if call is None or not isinstance(call.func, ast.Attribute):
        return None
    return call.func.value if backward.details.get("loss") is backward.subject or not call.args else call.args[0]


def owner_of(source: Source, expression: ast.expr) -> ast.stmt | None:
    """The innermost statement around an expression; None for an expression that is not of this file."""
    statement = places.statement_at(source, source.location(expression))
    is_inside = statement is not None and any(each is expression for each in walk(statement))
    return statement if is_inside else None


def _bound_names(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement binds or changes, in its blocks too."""
    return frozenset(_stored(statement) | _detached_in_place(statement))


def _detached_in_place(statement: ast.stmt) -> set[str]:
    """The tensor that a statement takes off its graph: `rewards.detach_()`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr="detach_"))):
            return {text_of(owner)}
        case _:
            return set()


def blocks_of(source: Source) -> dict[ast.stmt, tuple[list[ast.stmt], ast.AST]]:
    """The block of each statement, and what the block belongs to."""
    found: dict[ast.stmt, tuple[list[ast.stmt], ast.AST]] = dict.fromkeys(
        source.tree.body, (source.tree.body, source.tree)
    )
    for statement in source.tree.body:
        found.update(_blocks_right_below(statement))
        found.update(source.once(_blocks_below, statement))
    return found


def _blocks_below(statement: ast.stmt) -> dict[ast.stmt, tuple[list[ast.stmt], ast.AST]]:
    """The same of the statements below one, but for those right below it: a tree has no circle."""
    found: dict[ast.stmt, tuple[list[ast.stmt], ast.AST]] = {}
    for node in walk(statement)[1:]:
        if isinstance(node, WITH_BLOCKS):
            found.update(_blocks_right_below(node))
    return found


def _blocks_right_below(node: ast.AST) -> dict[ast.stmt, tuple[list[ast.stmt], ast.AST]]:
    found: dict[ast.stmt, tuple[list[ast.stmt], ast.AST]] = {}
    for name in BLOCKS:
        held = getattr(node, name, None)
        parts = cast("list[object]", held) if isinstance(held, list) else []
        block = [each for each in parts if isinstance(each, ast.stmt)]
        found.update(dict.fromkeys(block, (block, node)))
    return found


def _before(source: Source, statement: ast.stmt | None) -> Iterator[ast.stmt]:
    """The statements that run before one in its function, latest first; those around it without their blocks."""
    blocks, seen = source.cached(blocks_of), 0
    current: ast.AST | None = statement
    while isinstance(current, ast.stmt) and current in blocks and seen < MOST_STATEMENTS:
        block, owner = blocks[current]
        for each in reversed(block[max(0, (at := block.index(current)) - MOST_STATEMENTS) : at]):
            seen += 1
            yield each
        if isinstance(owner, ast.With):
            yield _head_of(owner)
        current = owner if not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else None


def _head_of(statement: ast.With) -> ast.stmt:
    return ast.With(items=statement.items, body=[])


@dataclass(slots=True)
class _Search:
    """The names whose values are still looked for on the way back."""

    follows: Follows
    uses: Uses
    wanted: set[str]

    def through(self, statement: ast.stmt, *, is_certain: bool, replaces: bool = True) -> Iterator[Origin]:
        """What a statement gives to the wanted names.

        `replaces` if what it binds has no earlier value behind it on this way: not where it is in a loop.
        """
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                yield from self._assigned(statement, is_certain=is_certain, replaces=replaces)
            case ast.Expr(value=call) if replaces and not self.follows(call):
                self.wanted -= _detached_in_place(statement)
            case ast.With(items=items, body=body):
                for each in reversed(body):
                    yield from self.through(each, is_certain=is_certain, replaces=replaces)
                for item in items:
                    if item.optional_vars is not None and _stored(item.optional_vars) & self.wanted:
                        yield from self._found(item.context_expr, is_certain=is_certain)
            case ast.If(body=body, orelse=orelse):
                # What both branches bind has no value from before them.
                wanted = set[str]()
                for block in (body, orelse):
                    branch = _Search(self.follows, self.uses, set(self.wanted))
                    for each in reversed(block):
                        yield from branch.through(each, is_certain=False, replaces=replaces)
                    wanted |= branch.wanted
                self.wanted = wanted
            case ast.For() | ast.While() | ast.Try():
                for name in BLOCKS:
                    for each in reversed(getattr(statement, name, None) or []):
                        inner = each.body[::-1] if isinstance(each, ast.ExceptHandler) else [each]
                        for one in inner:
                            yield from self.through(one, is_certain=False, replaces=False)
            case _:
                pass

    def _assigned(
        self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign, *, is_certain: bool, replaces: bool
    ) -> Iterator[Origin]:
        for target, value in _pairs(statement):
            names = _stored(target)
            if value is None or not names & self.wanted:
                continue
            if isinstance(statement, ast.AugAssign):
                yield from self._found(value, is_certain=is_certain, operator=statement.op)
                continue
            if replaces:
                self.wanted -= names
            yield from self._found(value, is_certain=is_certain)

    def _found(self, value: ast.expr, *, is_certain: bool, operator: ast.operator | None = None) -> Iterator[Origin]:
        if self.follows(value):
            yield Origin(value, is_certain, operator)
            self.wanted |= self.uses(value)


def names_bound_by(source: Source, location: Location) -> frozenset[str]:
    """The names that the statement at a location binds, in its blocks too: for a loop, those that it changes."""
    return source.cached(_bound_at).get(location, frozenset())


def _bound_at(source: Source) -> dict[Location, frozenset[str]]:
    statements = (node for node in source.nodes if isinstance(node, ast.stmt))
    return {source.location(each): source.once(_bound_names, each) for each in statements}


def _pairs(statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Each target with what it gets: of `a, b = f(), g()` and `a, b = map(f, (x, y))` each its own part."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        values = _parts(statement.value)
        if isinstance(target, ast.Tuple) and len(target.elts) == len(values):
            yield from zip(target.elts, values, strict=True)
        else:
            yield target, statement.value


def _parts(value: ast.expr | None) -> list[ast.expr]:
    """The values of a tuple, or what a function gives for each: `f(x)` and `f(y)` of `map(f, (x, y))`."""
    match value:
        case ast.Tuple(elts=values):
            return values
        case ast.Call(func=ast.Name(id="map"), args=[function, ast.Tuple(elts=given) | ast.List(elts=given)]):
            return [ast.copy_location(ast.Call(function, [each], []), each) for each in given]
        case _:
            return []


def _stored(target: ast.expr | ast.stmt) -> set[str]:
    """The names that a target or a statement binds: `loss`, `self.loss`; not that of a container with a new entry."""
    return {
        text_of(each)
        for each in walk(target)
        if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Store)
    }


MEASURES = lazy_pattern(r"\blen\(|\bmap\(len\b|\.str\.len\(")
CAPS = lazy_pattern(r"\bmin\(")


def is_measured(source: Source, code: str) -> bool:
    """Whether a number is that of the longest row, as the file computes it itself, by the name or attribute it has.

    A name with an underscore before it is the same, as constructors keep what they get.
    """
    sought = _plain(code)
    values = [
        node.value
        for node in source.nodes_of(ast.Assign)
        if any(_plain(unparse(each)) == sought for each in node.targets)
    ]
    functions = {_plain(node.name): node for node in source.nodes_of(ast.FunctionDef)}
    called = (functions.get(_plain(unparse(each.func))) for each in values if isinstance(each, ast.Call))
    return any(
        MEASURES.search(text) is not None and CAPS.search(text) is None
        for text in map(unparse, (*values, *(each for each in called if each is not None)))
    )


def _plain(code: str) -> str:
    return code.rpartition(".")[2].lstrip("_")


def changed_by(target: ast.expr) -> Iterator[str]:
    """The names whose value an assignment changes, without those of an index: `rows` of `rows[:, step]`."""
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from changed_by(part)
        case ast.Starred(value=inner) | ast.Subscript(value=inner) | ast.Attribute(value=inner):
            yield from changed_by(inner)
        case _:
            pass


OWNER = lazy_pattern(r"(\w+)\.(?:named_)?parameters\(")


def is_of_copy(source: Source, value: ast.expr) -> bool:
    """Whether weights are those of a copy: `old = copy.deepcopy(model)`, `list(old.parameters())`."""
    owner = OWNER.search(unparse(value))
    return owner is not None and source.contains(rf"\b{owner[1]}\s*=\s*(?:copy\.)?deepcopy\(")


def are_given_together(source: Source, one: str, others: Collection[str]) -> bool:
    """Whether one call gives a name and another one of these: `first, second = losses(...)`, each perhaps detached."""
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call()):
                names = {unparse(each) for each in targets}
                if one in names and not names.isdisjoint(others):
                    return True
            case _:
                pass
    return False
