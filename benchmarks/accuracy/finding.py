"""What operators look for in a script: its trainers, arguments, loaders, loops and losses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.checking import project_of
from benchmarks.accuracy.code import Code


def trainers(code: Code) -> Iterator[ast.Call]:
    """The calls that build a Trainer of transformers, or one derived from it."""
    for call in code.nodes(ast.Call):
        name = code.called(call)
        if name.endswith("Trainer") and not name.startswith(("SFT", "DPO")) and code.argument(call, "train_dataset"):
            yield call


def plain_trainers(code: Code) -> Iterator[ast.Call]:
    """The calls of Trainer and Seq2SeqTrainer themselves."""
    for call in trainers(code):
        if code.called(call) in ("Trainer", "Seq2SeqTrainer"):
            yield call


def arguments(code: Code) -> Iterator[ast.Call]:
    """The calls that build TrainingArguments."""
    yield from code.calls("TrainingArguments", "Seq2SeqTrainingArguments")


def names_in(code: Code, *words: str) -> bool:
    """Whether the script, or the project that it belongs to, says one of these words."""
    return any(word in text_of(code) for word in words)


def text_of(code: Code) -> str:
    """The text of a script, or of the whole project that it belongs to."""
    project = project_of(Path(code.path))
    if project is None:
        return code.text
    return "\n".join(path.read_text() for path in sorted(project.rglob("*.py")))


def calls_of(code: Code, *objects: str) -> Iterator[ast.Call]:
    """The calls of an object by its name, `model(…)` and `self.model(…)`."""
    for call in code.nodes(ast.Call):
        if code.called(call).removeprefix("self.") in objects:
            yield call


def method_calls(code: Code, method: str, *words: str) -> Iterator[ast.Call]:
    """The calls of a method on something whose name holds one of the words."""
    for call in code.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == method:
            receiver = ast.unparse(call.func.value).lower()
            if not words or any(word in receiver for word in words):
                yield call


def function_around(code: Code, node: ast.AST) -> ast.FunctionDef | None:
    """The function that a node stands in."""
    return next((outer for outer in code.ancestors(node) if isinstance(outer, ast.FunctionDef)), None)


def optimizer_steps(code: Code) -> list[ast.Call]:
    """The calls of `optimizer.step()` inside loops or functions, closures left out."""
    return [call for call in method_calls(code, "step", "opt") if not call.args and _is_inside(code, call)]


def _is_inside(code: Code, node: ast.AST) -> bool:
    return any(isinstance(outer, ast.For | ast.While | ast.FunctionDef) for outer in code.ancestors(node))


def has_one_optimizer(code: Code) -> bool:
    """Whether one optimizer is cleared and stepped once each."""
    return len(optimizer_steps(code)) == 1 and len(list(code.calls("zero_grad"))) == 1


def backwards(code: Code) -> list[ast.Call]:
    """The calls of `backward`, also of a launcher's."""
    return list(code.calls("backward", "manual_backward"))


def is_text(node: ast.AST | None, *values: str) -> bool:
    """Whether a node is one of these strings."""
    return isinstance(node, ast.Constant) and node.value in values
