"""What a script takes from an environment of Gymnasium, and the values that it computes of its rewards.

`step` gives five values and `reset` two. The value of what follows a state ends with the episode, and returns are
computed from the last reward to the first one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import loss_terms
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.source.training_syntax import imports
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OTHER_VALUES = lazy_pattern(
    r"VecEnv|vec_env|stable_baselines|procgen|envpool|\bbrax|isaac|pettingzoo|def step\(|\bgym3"
)
"""Code of environments whose `step` gives other values."""

DISCOUNT = lazy_pattern(r"gamma|discount", re.IGNORECASE)
ESTIMATE = lazy_pattern(r"max\(|next|target|critic|\bvalue", re.IGNORECASE)
"""Code of a value that a network gives the state after this one."""

ENDS = lazy_pattern(
    r"^(?:\w+_)?(?:dones?|terminals?|terminated|terminations|not_dones?|done_mask)(?:_(?:batch|t|b|mask))?$"
)
"""Names of whether an episode ends, or goes on, with a row."""

END = lazy_pattern(r"^(?!no[nt]_)(?:\w+_)?(?:dones?|terminals?|terminated|terminations)(?:_(?:batch|t|b))?$")
TURNED = lazy_pattern(
    r"(?:\b1(?:\.0?)?\s*-\s*|\bnot |~|logical_not\(|\bif )[\w.\[\]\"'(]*(?:done|term|\bd\b)|\bmask|ones_like\(\w*done"
)
"""Code that makes the reverse of such a flag."""

REWARDED = lazy_pattern(r"reward|return|\bdones?\b|gamma")

REVERSES = lazy_pattern(r"revers|\[::-1\]|\bflip|appendleft|insert\(0|range\([^\n]*-1\)")


@dataclass(frozen=True, slots=True)
class Misread:
    """A mistake: where, in words, what to write, and its consequence, if the page of its rule does not say it."""

    location: Location
    message: str
    remedy: str
    why: str = ""


def misread(source: Source) -> Iterator[Misread]:
    """The values of an environment of Gymnasium that are taken for others."""
    made = _environments(source)
    if not made:
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        for node in nodes:
            match node:
                case ast.Assign(
                    targets=[target], value=ast.Call(func=ast.Attribute(value=owner, attr="step" | "reset" as name))
                ) if unparse(owner) in made:
                    if name == "reset":
                        yield from _of_reset(source, node, target, unparse(owner), nodes)
                    elif isinstance(target, ast.Tuple):
                        yield from _of_step(source, node, target, unparse(owner), nodes)
                case _:
                    pass


def _environments(source: Source) -> set[str]:
    """The code of what is made by `gymnasium.make` and gives what that does."""
    aliases = {
        alias.asname or alias.name
        for node in imports(source)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "gymnasium"
    }
    if not aliases or source.contains(OTHER_VALUES):
        return set()
    made = [
        each for each in source.nodes_of(ast.Assign) if any(f"{one}.make(" in unparse(each.value) for one in aliases)
    ]
    return {unparse(each.targets[0]) for each in made}


def _of_step(
    source: Source, node: ast.Assign, target: ast.Tuple, env: str, nodes: Sequence[ast.AST]
) -> Iterator[Misread]:
    if any(isinstance(each, ast.Starred) for each in target.elts):
        return
    if len(target.elts) == 4:
        yield Misread(
            source.location(node),
            f"`{env}.step` gives five values, and four names are given",
            "write `observation, reward, terminated, truncated, info`, and end the episode with either of two",
        )
    if len(target.elts) != 5:
        return
    done, cut = unparse(target.elts[2]), unparse(target.elts[3])
    is_read = any(_is_load(each, cut) for each in nodes)
    for loop in nodes:
        if isinstance(loop, ast.While) and not is_read and any(each is node for each in walk(loop)):
            flags = {done, *(name for each in nodes if (name := _copy_of(each, done)))}
            leaves = any(isinstance(each, ast.Break | ast.Return | ast.Raise) for each in walk(loop))
            if not leaves and unparse(loop.test) in {f"not {each}" for each in flags}:
                yield Misread(
                    source.location(node),
                    "the episode is not ended at its time limit, which the fourth value reports",
                    "end the episode with `terminated or truncated`",
                )


def _copy_of(node: ast.AST, name: str) -> str:
    """The other name that an assignment gives what a name stands for."""
    match node:
        case ast.Assign(targets=[ast.Name(id=other)], value=ast.Name(id=given)) if given == name:
            return other
        case _:
            return ""


def _is_load(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def _of_reset(
    source: Source, node: ast.Assign, target: ast.expr, env: str, nodes: Sequence[ast.AST]
) -> Iterator[Misread]:
    if not isinstance(target, ast.Name):
        return
    name, is_observation = target.id, False
    for each in nodes:
        match each:
            case ast.Subscript(value=ast.Name(id=used)) | ast.Starred(value=ast.Name(id=used)) if used == name:
                return
            case ast.Assign(targets=[ast.Tuple()], value=ast.Name(id=used)) if used == name:
                return
            case ast.Call(func=ast.Name(id="isinstance" | "tuple" | "len" | "type"), args=[ast.Name(id=used), *_]):
                if used == name:
                    return
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=first), *_])], value=ast.Call(func=called)):
                is_observation |= first == name and unparse(called) == f"{env}.step"
            case ast.Call(func=ast.Attribute(attr=made), args=[ast.Name(id=used), *_]) if used == name:
                is_observation |= made in {"tensor", "as_tensor", "from_numpy", "FloatTensor", "Tensor"}
            case _:
                pass
    if is_observation:
        yield Misread(
            source.location(node),
            f"`{env}.reset()` gives a pair, and `{name}` is used as the observation",
            f"write `{name}, _ = {env}.reset()`",
        )


def wrong_returns(source: Source) -> Iterator[Misread]:
    """The targets and returns of a file that count the rewards of the wrong states."""
    if not source.contains(REWARDED) or not (source.contains(DISCOUNT) or source.contains(r"0?\.[89]\d*\b")):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        yield from _in_wrong_order(source, scope, nodes)
        for node in nodes:
            match node:
                case ast.BinOp(left=left, op=ast.Add(), right=right):
                    for side in (left, right):
                        yield from _past_the_end(source, nodes, node, side)
                case _:
                    pass


def _past_the_end(source: Source, nodes: Sequence[ast.AST], node: ast.BinOp, side: ast.expr) -> Iterator[Misread]:
    """A target that counts the states after the end of an episode."""
    factors = list(loss_terms.factors(side)) if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult) else []
    if not any(is_discount(each) for each in factors):
        return
    ends = [each for each in factors if END.search(_name(each))]
    if len(factors) > 2 and ends and not source.contains(TURNED):
        yield Misread(
            source.location(node),
            f"`{_name(ends[0])}` is 1 where an episode ends, so only what follows its end counts",
            f"multiply by `1 - {_name(ends[0])}`",
            "All other states are worth their own reward only, so nothing is learned about later rewards. The scores "
            "stay low, and no error is raised.",
        )
    if len(factors) == 2 and any(_is_estimate(source, each) for each in factors if not is_discount(each)):
        flags = [name for name in _unpacked(nodes) if ENDS.search(name)]
        if flags and not any(_is_read(nodes, each) for each in flags):
            yield Misread(
                source.location(node),
                f"`{flags[0]}` is never read, so targets go past the end of episodes",
                f"multiply the value of the next state by `1 - {flags[0]}`",
                "The last state of an episode gets the value of a state that never comes, and the earlier states learn "
                "it from there. The scores stay low, and no error is raised.",
            )


def is_discount(node: ast.expr) -> bool:
    """Whether an expression is the factor by which later rewards count less."""
    match node:
        case ast.Constant(value=float() as number):
            return 0.8 <= number < 1
        case _:
            return DISCOUNT.search(_name(node)) is not None


def _name(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Attribute(value=inner), args=[]):
            return _name(inner)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _is_estimate(source: Source, node: ast.expr) -> bool:
    """Whether an expression is what a network gives, by its own code or that of its name."""
    made = [value for value, _, _ in loss_terms.definitions(source, node)] if isinstance(node, ast.Name) else [node]
    calls = any(isinstance(part, ast.Call) for each in made for part in walk(each))
    return calls and any(ESTIMATE.search(unparse(each)) for each in (node, *made))


def _unpacked(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The names of the parts of a row, which a scope unpacks or takes as arguments."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value) if ".step(" not in unparse(value):
                names = [each.id for each in elements if isinstance(each, ast.Name)]
            case ast.For(target=ast.Tuple(elts=elements)):
                names = [each.id for each in elements if isinstance(each, ast.Name)]
            case ast.arguments(args=given):
                names = [each.arg for each in given]
            case _:
                continue
        yield from names if len(names) > 3 else ()


def _is_read(nodes: Sequence[ast.AST], name: str) -> bool:
    """Whether code reads a name, other than to make a tensor of it under the same name."""
    own = [each for each in nodes if isinstance(each, ast.Assign) and unparse(each.targets[0]) == name]
    inside = {id(part) for each in own for part in walk(each)}
    return any(_is_load(each, name) and id(each) not in inside for each in nodes)


def _in_wrong_order(source: Source, scope: ast.AST, nodes: Sequence[ast.AST]) -> Iterator[Misread]:
    """Returns that are computed from the last reward on, appended, and never put into the order of the steps."""
    for loop in nodes:
        if not isinstance(loop, ast.For) or not re.match(r"reversed\(|\w+\[::-1\]$", unparse(loop.iter)):
            continue
        running = {name for each in walk(loop) if (name := _recurrence(each))}
        for node in walk(loop):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=out), attr="append"), args=[ast.Name(id=name)]):
                    if name in running and not _is_turned(source, scope, loop, out):
                        yield Misread(
                            source.location(node),
                            f"`{out}` begins with the return of the last step, and is never reversed",
                            f"write `{out}.insert(0, {name})`, or reverse `{out}` after the loop",
                            "Each step is trained with the return of another one, so an action gets the credit of "
                            "others. The scores stay low, and no error is raised.",
                        )
                case _:
                    pass


def _recurrence(node: ast.AST) -> str:
    """The name of `R` in `R = reward + gamma * R`."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.Add(), left=left, right=right)):
            for each in (left, right):
                factors = list(loss_terms.factors(each))
                is_own = any(isinstance(one, ast.Name) and one.id == name for one in factors)
                if is_own and any(is_discount(one) for one in factors):
                    return name
            return ""
        case _:
            return ""


def _is_turned(source: Source, scope: ast.AST, loop: ast.For, out: str) -> bool:
    """Whether code outside the head of a loop may reverse its list, or read other lists in reverse with it."""
    lines = [re.sub(r"#.*", "", each) for each in source.lines]
    lines[loop.lineno - 1] = ""
    text = own = "\n".join(lines)
    if isinstance(scope, ast.FunctionDef):
        own = "\n".join(lines[scope.lineno - 1 : scope.end_lineno])
    given = [unparse(each.value) for each in walk(scope) if isinstance(each, ast.Return) and each.value is not None]
    is_returned = any(re.match(rf"\(?(?:(?:torch|np)\.\w+\(\[?)?{out}\b", each) for each in given)
    return REVERSES.search(text if is_returned else own) is not None
