"""Conversations that a function formats and generates from, without the opening of the answer, by its names alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

FORMATS = "apply_chat_template"
DECIDE = frozenset({"add_generation_prompt", "continue_final_message", "chat_template", None})
"""Arguments that decide how the text ends, `**` among them."""

NEVER_OPEN = r"(?i)mistral|mixtral|llama-?2|vicuna"
"""Families whose templates have nothing that opens an answer."""

OWN_TEMPLATE = r"\.chat_template *="

ANSWERS = frozenset({"assistant", "model", "gpt"})
"""Roles of the turns that a model writes; the last message may be the beginning of an answer."""

MOST_TEXT = 100
"""Longer texts are prompts and documentation, and name no checkpoint."""


@dataclass(frozen=True, slots=True)
class Unopened:
    """A conversation that is formatted without the opening of an answer, and where something is generated from it."""

    location: Location
    generated: Location
    is_missing: bool


def unopened_prompts(source: Source) -> Iterator[Unopened]:
    """The calls of templates whose text a generation in the same function gets."""
    if not source.contains(r"\.generate\w*\(") or source.contains(OWN_TEMPLATE) or _names_family(source):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        generations = [each for each in calls if _generates(each)]
        if not generations:
            continue
        for call in calls:
            if (
                last_name(call.func) == FORMATS
                and isinstance(call.func, ast.Attribute)
                and _leaves_out(call)
                and _asks(nodes, call)
                and not _answers(nodes, call)
            ):
                for generation in generations:
                    if generation.lineno >= call.lineno and _is_passed(nodes, call, generation):
                        is_missing = all(each.arg != "add_generation_prompt" for each in call.keywords)
                        yield Unopened(source.location(call), source.location(generation), is_missing)
                        break


def _is_passed(nodes: Sequence[ast.AST], call: ast.Call, generation: ast.Call) -> bool:
    """Whether a generation gets what a call returns, and nothing was put behind it."""
    names = _names_made_of(nodes, call, generation)
    return _is_made(generation, call, names) and not _is_continued(nodes, call, names, generation)


def _generates(call: ast.Call) -> bool:
    """Whether a call generates: `generate`, or a method that adds to it, as a count of new tokens shows."""
    name = last_name(call.func)
    return name == "generate" or (
        name.startswith("generate_") and any(each.arg == "max_new_tokens" for each in call.keywords)
    )


def _names_family(source: Source) -> bool:
    """Whether a text of the file, such as the name of a checkpoint, is of a family that never opens an answer."""
    if not source.contains(NEVER_OPEN):
        return False
    texts = (node.value for node in source.nodes_of(ast.Constant) if isinstance(node.value, str))
    return any(re.search(NEVER_OPEN, text) for text in texts if len(text) < MOST_TEXT)


def _answers(nodes: Sequence[ast.AST], call: ast.Call) -> bool:
    """Whether the last turn before a call may be one of the model: `{"role": "assistant", …}`, which it may go on with.

    In a loop, the turns after the call come before its next one, unless others come first in the loop.
    """
    turns = sorted(_turns(nodes))
    before = [is_answer for line, is_answer in turns if line <= (call.end_lineno or call.lineno)]
    loops = [node for node in nodes if isinstance(node, ast.For | ast.While) and _holds(node, call)]
    inner = max(loops, key=lambda loop: loop.lineno, default=None)
    if inner is None:
        return before[-1:] == [True]
    is_begun = any(inner.lineno <= line <= (call.end_lineno or call.lineno) for line, _ in turns)
    later = [is_answer for line, is_answer in turns if call.lineno < line <= (inner.end_lineno or 0)]
    return before[-1:] == [True] or (later[-1:] == [True] and not is_begun)


def _turns(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, bool]]:
    """The lines of the turns that code writes, and whether the model is the one that says it."""
    for node in nodes:
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            if isinstance(value, ast.Constant) and isinstance(key, ast.Constant) and key.value in {"role", "from"}:
                yield value.lineno, value.value in ANSWERS


def _holds(node: ast.stmt, call: ast.Call) -> bool:
    return node.lineno <= call.lineno <= (node.end_lineno or node.lineno)


def _asks(nodes: Sequence[ast.AST], call: ast.Call) -> bool:
    """Whether a conversation ends with a turn of the user, by the code around it or by its name: another may go on."""
    asks = any(isinstance(node, ast.Constant) and node.value == "user" for node in nodes)
    return asks or any(word in unparse(call.args[0]).lower() for word in ("prompt", "question"))


def _leaves_out(call: ast.Call) -> bool:
    """Whether a call certainly does not open an answer."""
    deciding = [each for each in call.keywords if each.arg in DECIDE]
    off = [each for each in deciding if isinstance(each.value, ast.Constant) and each.value.value is False]
    return len(call.args) == 1 and all(each in off for each in deciding)


def _names_made_of(nodes: Sequence[ast.AST], call: ast.Call, generation: ast.Call) -> set[str]:
    """The names that hold what a call returns, or something made of it, when a generation is reached."""
    names = set[str]()
    lines = range(call.lineno - 1, generation.lineno)
    statements = [node for node in nodes if isinstance(node, ast.Assign | ast.Expr) and node.lineno in lines]
    for statement in sorted(statements, key=lambda node: node.lineno):
        is_made = _is_made(statement.value, call, names)
        if isinstance(statement, ast.Assign):
            bound = {each.id for target in statement.targets for each in walk(target) if isinstance(each, ast.Name)}
            names = names | bound if is_made else names - bound
        elif is_made and isinstance(statement.value, ast.Call) and isinstance(statement.value.func, ast.Attribute):
            owner = statement.value.func.value
            if statement.value.func.attr in {"append", "extend"} and isinstance(owner, ast.Name):
                names = names | {owner.id}
    return names


def _is_made(node: ast.AST, call: ast.Call, names: set[str]) -> bool:
    """Whether code uses what a call returns, by one of the names that hold it or by the call in it."""
    return any(each is call or (isinstance(each, ast.Name) and each.id in names) for each in walk(node))


def _is_continued(nodes: Sequence[ast.AST], call: ast.Call, names: set[str], generation: ast.Call) -> bool:
    """Whether a text is put behind the conversation before the generation: it may open the answer by hand."""
    for node in nodes:
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=str()) | ast.JoinedStr() | ast.Name()):
                is_made = _is_made(left, call, names)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add()):
                is_made = name in names
            case ast.JoinedStr(values=[ast.FormattedValue(value=value), _, *_]):
                is_made = _is_made(value, call, names)
            case _:
                continue
        if is_made and call.lineno <= node.lineno <= generation.lineno:
            return True
    return False
