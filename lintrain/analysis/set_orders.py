"""Numbers of classes or words that are given in the order of a set, which is another one in each run.

index = {word: number for number, word in enumerate(set(words))}
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

TEXTS = frozenset(
    {"word", "words", "token", "tokens", "char", "chars", "character", "characters", "letter", "letters", "vocab"}
    | {"vocabulary", "tag", "tags", "intent", "intents", "relation", "relations", "entity", "entities", "category"}
    | {"categories", "genre", "genres", "phoneme", "phonemes", "species"}
)
"""Words for what is a text. The hash of a number, and so its place in a set, is the same in each run."""

OF_CLASSES = lazy_pattern(r"(?i)(?:label|class|cls)\w*?(?:2|_to_)(?:id|idx|index|ix|num|number|int)s?\b")
"""Names of numbers of classes, which need some if they are texts."""

KEPT = lazy_pattern(
    r"(?i)dump\(|dumps\(|np\.savez?\(|label2id=|id2label=|PYTHONHASHSEED|\.write\(|writelines|to_csv|to_json|shelve"
)
"""Code that may keep the numbers for the next run, or the order of hashes."""

OUTLIVES = lazy_pattern(
    r"torch\.save\(|\.save_pretrained\(|\.save_weights\(|\.save_model\(|load_state_dict\(|ModelCheckpoint\(|"
    r"(?:model|net|network)\.save\("
)
"""Code for which weights outlive the run that numbered the classes."""


@dataclass(frozen=True, slots=True)
class UnstableNumbers:
    """A numbering in the order of a set: where, the code of what is numbered, and where the set is made."""

    location: Location
    code: str
    made: Location


def unstable_numbers(source: Source) -> Iterator[UnstableNumbers]:
    """The numberings of a set of texts, in a file that saves or loads weights and keeps no numbers."""
    if "set(" not in source.text or not source.contains(OUTLIVES) or source.contains(KEPT):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        sets = source.once(_unsorted_sets, scope)
        for node, numbered in _numbered(scope):
            made = _set_in(numbered, sets)
            owners = _owners(source, node) if made is not None else set[str]()
            if made is not None and _holds_texts(numbered, made, node, owners) and not _are_saved(source, owners):
                yield UnstableNumbers(source.location(numbered), unparse(numbered), source.location(made))


def _unsorted_sets(scope: ast.AST) -> Mapping[str, ast.expr]:
    """The names that a scope binds once, to a set or to its items in its order, and that nothing sorts."""
    found: dict[str, ast.expr] = {}
    lost = set[str]()
    for node in own_nodes(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name in found or (made := _set_in(value, found)) is None:
                    lost.add(name)
                else:
                    found[name] = made
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="sort" | "insert" | "remove")):
                lost.add(name)
            case _:
                pass
    return {name: made for name, made in found.items() if name not in lost}


def _set_in(value: ast.expr, sets: Mapping[str, ast.expr]) -> ast.expr | None:
    """The set whose order an expression has."""
    match value:
        case ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset"), args=[_]):
            return value
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
            return _set_in(inner, sets)
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd()):
            return _set_in(left, sets)
        case ast.Name(id=name):
            return sets.get(name)
        case _:
            return None


def _numbered(scope: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
    """What gives items numbers in their order: a dictionary of `enumerate`, a loop over it, or `zip` with a range."""
    for node in own_nodes(scope):
        match node:
            case ast.DictComp(
                generators=[ast.comprehension(iter=ast.Call(func=ast.Name(id="enumerate"), args=[it, *_]))]
            ):
                yield node, it
            case ast.For(iter=ast.Call(func=ast.Name(id="enumerate"), args=[it, *_]), body=body) if _fills(body):
                yield node, it
            case ast.Call(
                func=ast.Name(id="dict"),
                args=[ast.Call(func=ast.Name(id="zip"), args=[it, ast.Call(func=ast.Name(id="range"))])],
            ):
                yield node, it
            case _:
                pass


def _fills(body: list[ast.stmt]) -> bool:
    """Whether a loop only fills dictionaries."""
    return all(isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Subscript) for each in body)


def _holds_texts(numbered: ast.expr, made: ast.expr, node: ast.AST, owners: Set[str]) -> bool:
    """Whether the names around a set show that its items are texts, which are no rows of data."""
    targets = node.target if isinstance(node, ast.For) else node
    code = " ".join([*map(unparse, (numbered, made, targets)), *owners])
    is_of_classes = any(OF_CLASSES.search(owner) for owner in owners)
    return is_of_classes or not TEXTS.isdisjoint(words_of(code))


def _owners(source: Source, node: ast.AST) -> set[str]:
    """What holds the numbers: the names that are assigned, or those of the dictionaries that a loop fills."""
    inside = {id(each) for each in walk(node)}
    return {
        unparse(target.value) if isinstance(target, ast.Subscript) else unparse(target)
        for each in source.nodes_of(ast.Assign)
        if each.value is node or id(each) in inside
        for target in each.targets
    }


def _are_saved(source: Source, owners: Set[str]) -> bool:
    """Whether what holds the numbers is unknown, or a part of what is saved."""
    saves = [each for each in source.nodes_of(ast.Call) if last_name(each.func) in {"save", "dump", "save_pretrained"}]
    given = {unparse(part) for call in saves for each in call.args for part in walk(each) if isinstance(part, ast.expr)}
    return not owners or not owners.isdisjoint(given)
