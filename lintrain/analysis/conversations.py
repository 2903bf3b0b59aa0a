"""Prompts: code that takes the completions for conversations for plain texts, and answers that repeat the prompt."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.pipeline.values.python import Function
from lintrain.source.nodes import children, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

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
    return bool(prompts) and all(map(_is_conversation, _resolved(source, prompts)))


def _resolved(source: Source, prompts: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """The code of prompts, in place of a name that of everything that is assigned to it."""
    for prompt in prompts:
        name = prompt.id if isinstance(prompt, ast.Name) else ""
        values = [node.value for node in source.nodes_of(ast.Assign) if name and unparse(node.targets[0]) == name]
        yield from values or [prompt]


def _is_conversation(node: ast.expr) -> bool:
    messages = node.elts if isinstance(node, ast.List) else []
    return bool(messages) and all(isinstance(each, ast.Dict) and "role" in _keys(each) for each in messages)


def _keys(node: ast.Dict) -> set[object]:
    return {key.value for key in node.keys if isinstance(key, ast.Constant)}


def used_as_text(function: Function) -> ast.expr | None:
    """The first place where a function uses one of its `completions` as a text; None if there is none."""
    if not isinstance(function.node, ast.FunctionDef):
        return None
    reading = _Reading({COMPLETIONS}, set())
    reading.block(function.node.body)
    return reading.found


@dataclass(slots=True)
class _Reading:
    """The names that hold lists of completions, and single ones, while the statements of a function are read in order.

    A completion is a list of messages, so of a test whether it is a list or a text one branch is read.
    """

    groups: set[str]
    singles: set[str]
    found: ast.expr | None = None

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self.found is None:
                self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                self._either(test, body, orelse)
            case ast.For(target=target, iter=over, body=body):
                self._look_at(over)
                self.singles -= {each.id for each in walk(target) if isinstance(each, ast.Name)}
                self.singles |= set(_names_of(target, over, self.groups))
                self.block(body)
            case ast.With(body=body) | ast.While(body=body) | ast.Try(body=body):
                self.block(body)
            case ast.FunctionDef() | ast.ClassDef():
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._look_at(value)
                self._bind(name, value)
            case _:
                self._look_at(statement)
                self._collect(statement)

    def _either(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        is_met = _is_list(test, self.singles)
        if is_met is not None:
            return self.block(body if is_met else orelse)
        self._look_at(test)
        before = set(self.singles)
        self.block(body)
        after, self.singles = self.singles, before
        self.block(orelse)
        self.singles &= after
        return None

    def _bind(self, name: str, value: ast.expr) -> None:
        is_single, is_group = self._is_single(value), self._is_group(value)
        self.singles = self.singles | {name} if is_single else self.singles - {name}
        self.groups = self.groups | {name} if is_group else self.groups - {name}

    def _collect(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value])):
                if self._is_single(value):
                    self.groups.add(name)
            case _:
                pass

    def _is_single(self, value: ast.expr) -> bool:
        match value:
            case ast.Name(id=name):
                return name in self.singles
            case ast.IfExp(test=test, body=body, orelse=orelse):
                is_met = _is_list(test, self.singles)
                return is_met is not None and self._is_single(body if is_met else orelse)
            case _:
                return False

    def _is_group(self, value: ast.expr) -> bool:
        match value:
            case ast.Name(id=name):
                return name in self.groups
            case ast.ListComp(elt=elt, generators=[ast.comprehension(target=target, iter=over)]):
                inner = _Reading(self.groups, self.singles | set(_names_of(target, over, self.groups)))
                return inner._is_single(elt)
            case _:
                return False

    def _look_at(self, node: ast.AST) -> None:
        """Look for a use as a text, in what runs for a list of messages."""
        if self.found is not None:
            return
        for name in self.singles:
            self.found = self.found or _use_of_text(node, name)
        match node:
            case ast.ListComp(generators=[made]) | ast.GeneratorExp(generators=[made]):
                names = set(_names_of(made.target, made.iter, self.groups))
                inner = _Reading(self.groups, self.singles | names)
                for each in (node.elt, *made.ifs):
                    inner._look_at(each)
                self.found = self.found or inner.found
            case ast.IfExp(test=test) if (is_met := _is_list(test, self.singles)) is not None:
                self._look_at(node.body if is_met else node.orelse)
            case ast.BoolOp(op=ast.And(), values=[test, *_]) if _is_list(test, self.singles) is False:
                pass
            case _:
                for child in children(node):
                    self._look_at(child)


def _is_list(test: ast.expr, singles: set[str]) -> bool | None:
    """Whether a test of the type of a completion is met, as it is for a list; None for another test."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            is_met = _is_list(inner, singles)
            return None if is_met is None else not is_met
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]) if name in singles:
            kinds = {unparse(each) for each in (kind.elts if isinstance(kind, ast.Tuple) else [kind])}
            return "list" in kinds or (False if kinds == {"str"} else None)
        case ast.BoolOp(op=ast.And(), values=[first, *_]):
            return _is_list(first, singles)
        case _:
            return None


def _names_of(target: ast.expr, over: ast.expr, groups: set[str]) -> Iterator[str]:
    match target, over:
        case ast.Name(id=name), ast.Name(id=over_name) if over_name in groups:
            yield name
        case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=given):
            for each, source in zip(names, given, strict=False):
                yield from _names_of(each, source, groups)
        case ast.Tuple(elts=[_, inner]), ast.Call(func=ast.Name(id="enumerate"), args=[source]):
            yield from _names_of(inner, source, groups)
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
