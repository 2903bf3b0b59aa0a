"""Prompts: code that takes the completions for conversations for plain texts, and answers that repeat the prompt."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.values.python import Function
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source

COMPLETIONS = "completions"

OF_TEXT = frozenset(
    {"split", "strip", "lstrip", "rstrip", "lower", "upper", "startswith", "endswith", "find", "replace", "splitlines"}
)
"""Methods of a text that a list does not have."""

SEARCHES = frozenset({"match", "search", "fullmatch", "findall", "finditer"})


def writes_conversations(source: Source) -> bool:
    """Whether a script makes prompts that are lists of messages, and none that are texts."""
    prompts = [
        value
        for row in source.nodes_of(ast.Dict)
        for key, value in zip(row.keys, row.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "prompt"
    ]
    return bool(prompts) and all(_is_conversation(prompt) for prompt in prompts)


def _is_conversation(node: ast.expr) -> bool:
    messages = node.elts if isinstance(node, ast.List) else []
    return bool(messages) and all(isinstance(each, ast.Dict) and "role" in _keys(each) for each in messages)


def _keys(node: ast.Dict) -> set[object]:
    return {key.value for key in node.keys if isinstance(key, ast.Constant)}


def used_as_text(function: Function) -> ast.expr | None:
    """The first place where a function uses one of its `completions` as a text; None if there is none."""
    if not isinstance(function.node, ast.FunctionDef):
        return None
    found = (_use_of_text(node, name) for name, body in _completions_in(function.node) for node in walk(body))
    return next((each for each in found if each is not None), None)


def _completions_in(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    """The names of single completions, each with the code in which it is one."""
    for node in walk(function):
        match node:
            case ast.ListComp(elt=body, generators=[ast.comprehension(target=target, iter=over)]):
                yield from ((name, body) for name in _names_of(target, over))
            case ast.For(target=target, iter=over, body=statements):
                yield from ((name, each) for each in statements for name in _names_of(target, over))
            case _:
                pass


def _names_of(target: ast.expr, over: ast.expr) -> Iterator[str]:
    match target, over:
        case ast.Name(id=name), ast.Name(id="completions"):
            yield name
        case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=given):
            for each, source in zip(names, given, strict=False):
                yield from _names_of(each, source)
        case ast.Tuple(elts=[_, inner]), ast.Call(func=ast.Name(id="enumerate"), args=[source]):
            yield from _names_of(inner, source)
        case _:
            pass


def _use_of_text(node: ast.AST, name: str) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=attr)) if owner == name and attr in OF_TEXT:
            return node
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=attr), args=[_, ast.Name(id=given), *_]):
            return node if given == name and attr in SEARCHES else None
        case ast.Call(func=ast.Name(id="float" | "int"), args=[ast.Name(id=given)]) if given == name:
            return node
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=searched)]):
            return node if searched == name and not isinstance(left, ast.Dict) else None
        case ast.BinOp(left=left, op=ast.Div() | ast.Mult()) if _is_length(left, name):
            return node  # there is one message, however long its text is
        case ast.BinOp(op=ast.Sub() | ast.Mult(), right=right) if _is_length(right, name):
            return node
        case _:
            return None


def _is_length(node: ast.expr, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=given)]):
            return given == name
        case _:
            return False


def repeated_prompts(source: Source) -> Iterator[Location]:
    """The answers of rows with a prompt of their own that begin with it: `{"prompt": p, "chosen": p + answer}`."""
    for row in source.nodes_of(ast.Dict):
        pairs = zip(row.keys, row.values, strict=True)
        parts = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
        prompt, chosen = parts.get("prompt"), parts.get("chosen")
        if prompt is None or chosen is None or isinstance(prompt, ast.Constant):
            continue
        if _begins_with(chosen, prompt):
            yield source.location(chosen)


def _begins_with(node: ast.expr, prompt: ast.expr) -> bool:
    """Whether code is a text that certainly begins with that of another: `prompt + answer`, `f"{prompt}…"`."""
    match node:
        case ast.BinOp(left=left, op=ast.Add()):
            return unparse(left) == unparse(prompt) or _begins_with(left, prompt)
        case ast.JoinedStr(values=[ast.FormattedValue(value=value), *_]):
            return unparse(value) == unparse(prompt)
        case _:
            return False
