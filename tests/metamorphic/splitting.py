"""What is done to each split, in a loop over the splits."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.metamorphic.editing import merged
from tests.metamorphic.hub import Chain, chain_of, has_split, loaded_from, scopes
from tests.metamorphic.script import Line, Script

SPLITS = ("train", "held_out")
"""The names of two splits that the script gives no names."""

LEFT_OUT = {"shuffle", "drop_last"}
"""Arguments that one of two calls may leave out; they are false then."""

QUOTED = re.compile(r"'(\w+)'")
ABOUT_DATA = re.compile("Loader|Dataset|load_dataset")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbours that do the same to two splits: `a = f(x, …)`, `b = f(y, …)`."""

    first: ast.Assign
    second: ast.Assign
    splits: tuple[str, str]
    call: str
    """One call for both, which reads the variable `split`."""

    @property
    def names(self) -> tuple[str, str]:
        """The two variables."""
        return ast.unparse(self.first.targets[0]), ast.unparse(self.second.targets[0])


def loop_over_splits(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with a loop for two neighbours that do the same to two splits, and for `map` on a DatasetDict."""
    pairs: list[Pair] = []
    for block in script.blocks():
        for first, second in pairwise(block):
            pair = _pair(script, first, second)
            if pair and not (pairs and pairs[-1].second is first):
                pairs.append(pair)
    stretches = _each_split(script)
    for number, pair in enumerate(pairs):
        stretches |= _looped(script, pair, f"parts{number}")
    return script.with_lines(stretches) if stretches else None


def _looped(script: Script, pair: Pair, parts: str) -> dict[tuple[int, int], Sequence[Line]]:
    first, last = script.span(pair.first)[0], pair.second.end_lineno or 0
    margin = " " * pair.first.col_offset
    made = [
        Line(f"{margin}{parts} = {{}}"),
        Line(f"{margin}for split in {pair.splits!r}:"),
        merged(f"{margin}    {parts}[split] = {pair.call}", script.cut(first, last)),
        *(Line(f'{margin}{name} = {parts}["{split}"]') for name, split in zip(pair.names, pair.splits, strict=True)),
    ]
    return {(first, last): made}


def _pair(script: Script, first: ast.stmt, second: ast.stmt) -> Pair | None:
    if not (isinstance(first, ast.Assign) and isinstance(second, ast.Assign)):
        return None
    match first, second:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as one),
            ast.Assign(targets=[ast.Name(id=another)], value=ast.Call() as other),
        ) if name != another and ABOUT_DATA.search(ast.unparse(one.func)):
            splits = _splits(one, other)
            call = _for_both(one, other, splits)
            is_apart = all(map(script.fills_lines, (first, second)))
            return Pair(first, second, splits, call) if call and is_apart else None
        case _:
            return None


def _splits(one: ast.Call, other: ast.Call) -> tuple[str, str]:
    """The names of splits in which the calls differ: `rows["train"]`, `split="validation"`."""
    mine, its = ([*call.args, *(each.value for each in call.keywords if each.arg == "split")] for call in (one, other))
    for first, second in zip(map(ast.unparse, mine), map(ast.unparse, its), strict=False):
        for word, another in zip(QUOTED.findall(first), QUOTED.findall(second), strict=False):
            if word != another:
                return word, another
    return SPLITS


def _for_both(one: ast.Call, other: ast.Call, splits: tuple[str, str]) -> str | None:
    """A call that does the same as the one or the other, by `split`; None if they differ too much."""
    mine = {each.arg: each.value for each in one.keywords}
    its = {each.arg: each.value for each in other.keywords}
    is_close = len(one.args) == len(other.args) > 0 and mine.keys() ^ its.keys() <= LEFT_OUT and None not in mine
    if ast.unparse(one.func) != ast.unparse(other.func) or not is_close:
        return None
    arguments = [_either(*each, splits) for each in zip(one.args, other.args, strict=True)]
    missing = ast.Constant(value=False)
    arguments += [
        f"{name}={_either(mine.get(name, missing), its.get(name, missing), splits)}"
        for name in dict.fromkeys([*mine, *its])
    ]
    return f"{ast.unparse(one.func)}({', '.join(arguments)})"


def _either(one: ast.expr, other: ast.expr, splits: tuple[str, str]) -> str:
    """The code of the one for the first split, and of the other for the second."""
    first, second = ast.unparse(one), ast.unparse(other)
    as_name = first.replace(repr(splits[0]), "split")
    if first == second:
        return first
    if as_name == second.replace(repr(splits[1]), "split"):
        return as_name
    is_first = f'split == "{splits[0]}"'
    return is_first if (first, second) == ("True", "False") else f"{first} if {is_first} else {second}"


def _each_split(script: Script) -> dict[tuple[int, int], Sequence[Line]]:
    """The loops for statements that transform all splits of the hub's data at once."""
    made: dict[tuple[int, int], Sequence[Line]] = {}
    for statements in scopes(script):
        chains = [chain for chain in map(chain_of, statements) if chain]
        names = {one.target for one in chains if (call := loaded_from(one.base)) and not has_split(call)}
        done: list[Chain] = []
        for chain in chains:
            if isinstance(chain.base, ast.Name) and chain.base.id in names and chain.calls and chain.target:
                names.add(chain.target)
                done.append(chain)
        splits = _splits_read(script, names, done)
        for chain in done if splits else []:
            made |= _in_loop(script, chain, splits)
    return made


def _splits_read(script: Script, names: set[str], done: Sequence[Chain]) -> tuple[str, ...]:
    """The splits of these variables that the script reads; none if it uses the variables in another way."""
    used: list[str] = []
    good: set[ast.AST] = {chain.base for chain in done}
    for node in ast.walk(script.tree):
        match node:
            case ast.Subscript(value=ast.Name(id=name) as base, slice=ast.Constant(value=str(split))) if name in names:
                used.append(split)
                good.add(base)
            case _:
                pass
    reads = (node for node in ast.walk(script.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    is_used_otherwise = any(node.id in names and node not in good for node in reads)
    return () if is_used_otherwise else tuple(dict.fromkeys(used))


def _in_loop(script: Script, chain: Chain, splits: tuple[str, ...]) -> dict[tuple[int, int], Sequence[Line]]:
    assert isinstance(chain.base, ast.Name)
    first, last = chain.statement.lineno, chain.statement.end_lineno or 0
    margin, base = " " * chain.statement.col_offset, chain.base.id
    head, *rest = script.indented(first, last, len(margin) + 4)
    text = head.text.replace(f"{chain.target} = {base}", f"{chain.target}[split] = {base}[split]", 1)
    made = [Line(f"{margin}for split in {splits!r}:"), Line(text, head.origin), *rest]
    return {(first, last): [*([] if chain.target == base else [Line(f"{margin}{chain.target} = {{}}")]), *made]}
