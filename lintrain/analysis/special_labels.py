"""Labels that special tokens get where the labels of words are given to their tokens."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LABELS = lazy_pattern(r"(?i)label|(?:^|_)tags?(?:$|_)|(?:^|_)ner|target|(?:^|_)y(?:$|_)")
"""Names of lists of labels: another list may say which tokens begin a word."""


@dataclass(frozen=True, slots=True)
class SpecialLabel:
    """The class that tokens without a word get: where, and its number."""

    location: Location
    label: int


def labelled_specials(source: Source) -> Iterator[SpecialLabel]:
    """The classes given to tokens for which `word_ids` holds None, which no loss of the file ignores."""
    for function in source.nodes_of(ast.FunctionDef) if source.contains(r"\bword_ids\(") else ():
        words = set(_words(function))
        for label in _labels_without_word(function, words) if words else ():
            match label:
                case ast.Constant(value=int(number)) if number >= 0 and not isinstance(label.value, bool):
                    if not source.contains(rf"ignore_index\s*=\s*{number}\b"):
                        yield SpecialLabel(source.location(label), number)
                case _:
                    pass


def _words(function: ast.FunctionDef) -> Iterator[str]:
    """The names that hold the word of a token in turn: `word` in `for word in encoding.word_ids(0)`."""
    listed = {
        target.id
        for node in walk(function)
        if isinstance(node, ast.Assign) and _is_word_ids(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in walk(function):
        if isinstance(node, ast.For | ast.comprehension):
            over, target = node.iter, node.target
            if isinstance(over, ast.Call) and last_name(over.func) == "enumerate" and len(over.args) == 1:
                over = over.args[0]
                target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
            is_listed = isinstance(over, ast.Name) and over.id in listed
            if isinstance(target, ast.Name) and (is_listed or _is_word_ids(over) or "word" in target.id):
                yield target.id


def _is_word_ids(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "word_ids"


def _labels_without_word(function: ast.FunctionDef, words: set[str]) -> Iterator[ast.expr]:
    for node in walk(function):
        match node:
            case ast.If(test=test) if (is_none := _tests_none(test, words)) is not None:
                yield from _appended(node.body if is_none else node.orelse)
            case ast.Assign(
                targets=[target],
                value=ast.ListComp(elt=ast.IfExp() | ast.ListComp(elt=ast.IfExp()) as inner),
            ):
                choice = inner.elt if isinstance(inner, ast.ListComp) else inner
                if LABELS.search(_name(target)) and isinstance(choice, ast.IfExp):
                    yield from _chosen(choice, words)
            case ast.Call(
                func=ast.Attribute(value=kept, attr="append"), args=[ast.ListComp(elt=ast.IfExp() as choice)]
            ):
                if LABELS.search(_name(kept)):
                    yield from _chosen(choice, words)
            case ast.Call(func=ast.Attribute(value=kept, attr="append"), args=[ast.IfExp() as choice]):
                if LABELS.search(_name(kept)):
                    yield from _chosen(choice, words)
            case _:
                pass


def _name(node: ast.expr) -> str:
    """The name of what gets labels: `labels`, `encoding["labels"]`."""
    if isinstance(node, ast.Subscript):
        return unparse(node.slice).strip("'")
    return last_name(node)


def _chosen(choice: ast.IfExp, words: set[str]) -> Iterator[ast.expr]:
    is_none = _tests_none(choice.test, words)
    if is_none is not None:
        yield choice.body if is_none else choice.orelse


def _tests_none(test: ast.expr, words: set[str]) -> bool | None:
    """True for `word is None`, False for `word is not None`, None for other tests."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]):
            return True if name in words else None
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=None)]
        ):
            return False if name in words else None
        case _:
            return None


def _appended(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """What the statements of a branch append to a list of labels."""
    for statement in body:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=kept, attr="append"), args=[label])):
                if LABELS.search(_name(kept)):
                    yield label
            case _:
                pass
