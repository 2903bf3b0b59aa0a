"""Chats that a function gives to `generate` without the opening of the turn that the model is to write."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

TEMPLATE = "apply_chat_template"
OPENING = frozenset({"add_generation_prompt", "continue_final_message", "chat_template", None})
"""Arguments that open an answer, go on with one, or may do so."""

NEVER_OPENS = lazy_pattern(r"(?i)llama-?2|mistral|mixtral|vicuna|chat_template *=")
"""Models whose templates end a request in the same way with and without an opening, and templates of the script."""

ANSWERS = frozenset({"assistant", "model", "gpt"})
"""Roles of the turns that a model writes; a chat that ends with one may be gone on with."""


@dataclass(frozen=True, slots=True)
class ClosedPrompt:
    """A call of a template that opens no answer, and the call of `generate` that gets its result."""

    location: Location
    generated: Location


def closed_prompts(source: Source) -> Iterator[ClosedPrompt]:
    """The templates of a file whose results are given to `generate` in the same function, in a few steps."""
    if TEMPLATE not in source.text or source.contains(NEVER_OPENS):
        return
    for function in source.nodes_of(ast.FunctionDef):
        nodes = own_nodes(function)
        templates = [each for each in nodes if _is_call(each, TEMPLATE)]
        generates = [each for each in nodes if _is_call(each, "generate")]
        if not templates or not generates or _answers(function):
            continue
        for call in templates:
            if isinstance(call, ast.Call) and _is_of_question(call, function):
                names = _names_after(call, nodes)
                used = next((each for each in generates if _gets(each, call, names)), None)
                if isinstance(used, ast.Call):
                    yield ClosedPrompt(source.location(call), source.location(used))


def _is_call(node: ast.AST, method: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def _is_of_question(call: ast.Call, function: ast.FunctionDef) -> bool:
    """Whether a template opens no answer, and gets a chat that ends with a turn of the user, by its name or code."""
    if OPENING & {each.arg for each in call.keywords} or len(call.args) != 1:
        return False
    asks = any(isinstance(node, ast.Constant) and node.value == "user" for node in walk(function))
    return asks or any(word in unparse(call.args[0]).lower() for word in ("prompt", "question"))


def _answers(function: ast.FunctionDef) -> bool:
    """Whether a function writes turns of the model itself: `{"role": "assistant", …}`."""
    written = (value for node in walk(function) if isinstance(node, ast.Dict) for value in node.values)
    return any(isinstance(value, ast.Constant) and value.value in ANSWERS for value in written)


STEPS = 4
"""How many assignments a prompt is followed through: a list of prompts, their tokens, those on a device."""


def _names_after(call: ast.Call, nodes: Sequence[ast.AST]) -> set[str]:
    """The names that get a prompt, or what is made of it."""
    names = set[str]()
    for _ in range(STEPS):
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if _holds(value, call, names):
                    names.add(name)
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]):
                    if _holds(value, call, names):
                        names.add(name)
                case _:
                    pass
    return names


def _holds(value: ast.expr, call: ast.Call, names: set[str]) -> bool:
    return any(node is call or (isinstance(node, ast.Name) and node.id in names) for node in walk(value))


def _gets(generate: ast.AST, call: ast.Call, names: set[str]) -> bool:
    """Whether `generate` gets a prompt, or the tokens of one."""
    if not isinstance(generate, ast.Call):
        return False
    given = [*generate.args, *(each.value for each in generate.keywords if each.arg in INPUTS)]
    return any(_holds(each, call, names) for each in given)


INPUTS = frozenset({None, "input_ids", "inputs", "prompts"})
