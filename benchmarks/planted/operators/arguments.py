"""What operators for libraries look for: calls of trainers and their settings, and their arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import Edit, Located
from benchmarks.planted.form import Form, last_name


def argument(call: ast.Call, name: str) -> ast.expr | None:
    """The value that a call gives by this name, else None."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def is_true(value: ast.expr | None) -> bool:
    """Whether a value is a literal True."""
    return isinstance(value, ast.Constant) and value.value is True


def text_of(value: ast.expr | None) -> str:
    """The text of a literal; empty for anything else."""
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def trainers(form: Form, *names: str) -> Iterator[ast.Call]:
    """The calls that build a Trainer with training data: of these names, or any."""
    if not form.says("transformers", "trl"):
        return
    for call in form.nodes(ast.Call):
        name = last_name(call.func)
        is_one = name in names if names else name.endswith("Trainer")
        if is_one and argument(call, "train_dataset") is not None:
            yield call


def settings(form: Form, *names: str) -> Iterator[ast.Call]:
    """The calls that build settings of a Trainer and give one of these arguments, or any."""
    if not form.says("transformers", "trl"):
        return
    for call in form.nodes(ast.Call):
        if last_name(call.func).endswith(SETTINGS) and not any(keyword.arg is None for keyword in call.keywords):
            if not names or any(argument(call, name) is not None for name in names):
                yield call


SETTINGS = ("TrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig", "RewardConfig", "ORPOConfig", "KTOConfig")


def without(form: Form, call: ast.Call, *names: str, add: str = "") -> Edit:
    """A call without some of its arguments, on as many lines where it has several, and with one more if asked."""
    given: list[Located] = [*call.args, *(each for each in call.keywords if each.arg not in names)]
    first, last = form.span(call.func)[1], form.span(call)[1]
    opening = form.text.index("(", first) + 1
    texts = [*(form.code(each) for each in given), *([add] if add else [])]
    if "\n" not in form.text[opening:last]:
        return Edit(opening, last - 1, ", ".join(texts))
    margin = " " * (call.col_offset + 4)
    return Edit(opening, last - 1, "\n" + "".join(f"{margin}{text},\n" for text in texts))
