"""Names of splits that are bound to the rows of another one: `test_file = "train.json"`, `x_valid = df_train[…]`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.source.by_name import Scope, scopes_with
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""The split that a word of a name stands for."""


@dataclass(frozen=True, slots=True)
class OtherSplit:
    """Training rows under a name for held-out ones: where, the name, and the code of what it is bound to."""

    location: Location
    name: str
    rows: str


def training_rows_under_other_names(source: Source) -> Iterator[OtherSplit]:
    """The names of held-out rows that are bound to training rows, where the code around shows that this is a slip."""
    may_iterate = "iter" in source.text
    for node in source.nodes_of(ast.Assign):
        if isinstance(node.targets[0], ast.Tuple):
            yield from _in_a_pair(source, node)
        elif may_iterate:
            yield from _iterated(source, node)
    for _, files in scopes_with(source, _files):
        yield from _odd(source, files)
    for body in (source.tree.body, *(each.body for each in source.nodes_of(ast.FunctionDef))):
        yield from _same_slices(source, [each for each in body if isinstance(each, ast.Assign)])
    for entries in source.nodes_of(ast.Dict):
        yield from _entries(source, entries)


def split_of(name: str) -> str | None:
    """The only split that the words of a name are about, else None."""
    found = {SPLITS[word] for word in words_of(name) if word in SPLITS}
    return found.pop() if len(found) == 1 else None


def _in_a_pair(source: Source, node: ast.Assign) -> Iterator[OtherSplit]:
    """`x_valid, y_valid = train["x"], valid["y"]`: the inputs of one split with the labels of another one."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
            pass
        case _:
            return
    names = {split_of(each.id) if isinstance(each, ast.Name) else None for each in targets}
    roots = [_root(each) for each in values]
    splits = [split_of(root) if root else None for root in roots]
    if len(names) == 1 and names.isdisjoint({None, "train"}) and names <= set(splits) and "train" in splits:
        for target, value, split in zip(targets, values, splits, strict=True):
            if split == "train":
                yield OtherSplit(source.location(value), unparse(target), unparse(value))


def _root(node: ast.expr) -> str:
    """The frame or module of `train["x"]` and `train.x`; empty for other code."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str())):
            return name
        case ast.Attribute(value=ast.Name(id=name)) if name != "self":
            return name
        case _:
            return ""


def _iterated(source: Source, node: ast.Assign) -> Iterator[OtherSplit]:
    """`test_iter = iter(train_loader)`."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="iter"), args=[rows])):
            pass
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=rows, attr="__iter__"), args=[])
        ):
            pass
        case _:
            return
    if isinstance(rows, ast.Name | ast.Attribute) and split_of(name) in {"validation", "test"}:
        last = rows.attr if isinstance(rows, ast.Attribute) else rows.id
        if split_of(last) == "train":
            yield OtherSplit(source.location(node.value), name, unparse(rows))


def _files(scope: Scope) -> list[tuple[str, ast.expr]]:
    """`test_file = join(folder, "train.json")` next to files of which each has the name of its split."""
    assigned = [each for each in scope.body if isinstance(each, ast.Assign)]
    pairs = [
        (each.targets[0].id, each.value)
        for each in assigned
        if len(each.targets) == 1 and isinstance(each.targets[0], ast.Name)
    ]
    return [(name, value) for name, value in pairs if NAMES_FILE.search(name) and split_of(name)]


def _same_slices(source: Source, assigned: Sequence[ast.Assign]) -> Iterator[OtherSplit]:
    """`x_test = x[:300]` after `x_train = x[:300]`, as long as nothing in the code of the slice is assigned between."""
    trained: dict[str, str] = {}
    for node in assigned:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(slice=part) as rows) if _cuts(part):
                split, code = split_of(name), unparse(rows)
                if split == "train":
                    trained[code] = name
                elif split is not None and code in trained:
                    yield OtherSplit(source.location(rows), name, trained[code])
            case _:
                pass
        stored = {part.id for target in node.targets for part in walk(target) if isinstance(part, ast.Name)}
        trained = {code: name for code, name in trained.items() if not stored & set(re.findall(r"\w+", code))}


def _cuts(part: ast.expr) -> bool:
    """Whether the index of a subscript takes some of the rows: `[:300]`, but not `[:]`."""
    first = part.elts[0] if isinstance(part, ast.Tuple) and part.elts else part
    return isinstance(first, ast.Slice) and (first.lower is not None or first.upper is not None)


NAMES_FILE = re.compile(r"(?i)file|path|csv|json|txt")


def _entries(source: Source, node: ast.Dict) -> Iterator[OtherSplit]:
    """`{"train": "train.csv", "validation": "val.csv", "test": "train.csv"}`, and a split that is a key twice."""
    named = [(_key(key), value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
    known = [(name, value) for name, value in named if name and split_of(name.rpartition(".")[2])]
    if len(known) < len(named) or len({split_of(name.rpartition(".")[2]) for name, _ in known}) < FEWEST:
        return
    yield from _odd(source, known)
    for (name, _), (second, value) in pairwise(known):
        if name == second and isinstance(value, ast.Constant) and "train" in str(value.value):
            yield OtherSplit(source.location(value), second, unparse(value))


def _key(key: ast.expr) -> str:
    match key:
        case ast.Constant(value=str(name)):
            return name
        case ast.Attribute():
            return unparse(key)
        case _:
            return ""


FEWEST = 2


def _odd(source: Source, named: Sequence[tuple[str, ast.expr]]) -> Iterator[OtherSplit]:
    """Those whose file is that of the training rows, if at least two others have the files of their own splits."""
    splits = [(name, split_of(name.rpartition(".")[2] or name), _split_in(value), value) for name, value in named]
    right = {own for _, own, written, _ in splits if own is not None and own == written}
    if "train" not in right or len(right) < FEWEST:
        return
    taken_from = {_owner(value) for _, own, written, value in splits if own == written == "train"}
    for name, own, written, value in splits:
        # The part "train" of a second split has other rows: `rest["train"]`, of `splits["test"]`.
        is_same = _owner(value) in taken_from
        # `[folder / "train" / name for name in val_rows]` has the files of the held-out rows.
        is_of_own = any(isinstance(each, ast.Name) and split_of(each.id) == own for each in walk(value))
        if written == "train" and own in {"validation", "test"} and own not in right and is_same and not is_of_own:
            yield OtherSplit(source.location(value), name, "the file of the training rows")


def _owner(value: ast.expr) -> str:
    """The code of `splits` in `splits["train"]`; empty for other code."""
    return unparse(value.value) if isinstance(value, ast.Subscript) else ""


def _split_in(value: ast.expr) -> str | None:
    """The only split that the texts of an expression name, else None."""
    texts = [each.value for each in walk(value) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    found = {SPLITS[word] for text in texts for word in re.findall(r"[a-z]+", text.lower()) if word in SPLITS}
    return found.pop() if len(found) == 1 else None


LOADERS = frozenset({"image_dataset_from_directory", "text_dataset_from_directory", "audio_dataset_from_directory"})
"""Functions of Keras that divide the files of a folder by chance, each call by itself."""


def other_seeds(source: Source) -> Iterator[tuple[Location, Location]]:
    """The held-out parts of a folder that Keras divides with another seed than the training part: both calls."""
    if not source.contains("dataset_from_directory"):
        return
    parts = dict[tuple[str, str], list[tuple[str, str, ast.Call]]]()
    for call in source.nodes_of(ast.Call):
        given = {each.arg: unparse(each.value) for each in call.keywords if each.arg}
        name = unparse(call.func).rpartition(".")[2]
        folder = given.get("directory", unparse(call.args[0]) if call.args else "")
        is_open = len(given) < len(call.keywords) or given.get("shuffle") == "False"
        if name in LOADERS and "validation_split" in given and "subset" in given and not is_open:
            found = parts.setdefault((folder, given["validation_split"]), [])
            found.append((given["subset"].strip("\"'"), given.get("seed", "None"), call))
    for found in parts.values():
        trained = [(seed, call) for subset, seed, call in found if subset == "training"]
        for subset, seed, call in found if len(trained) == 1 else ():
            # Names may stand for one number, and numbers are the same or not.
            are_numbers = seed.isdigit() and trained[0][0].isdigit()
            if subset == "validation" and are_numbers and seed != trained[0][0]:
                yield source.location(call), source.location(trained[0][1])
