"""Training and validation as two phases of one loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.metamorphic.loops import Training, forward, has_backward, models, trainings, updates
from tests.metamorphic.script import Line, Script, bound_names, own_nodes


def loop_over_phases(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with two phases in each epoch: training, and a validation in eval mode without gradients.

    The model is in train mode after both, as it was after the training alone.
    """
    if "torch" not in bound_names(script.tree.body):
        return None
    stretches: dict[tuple[int, int], Sequence[Line]] = {}
    for training in trainings(script):
        lines = _phases(script, training)
        first = _mode(training) or training.batches
        stretches |= {(first.lineno, training.batches.end_lineno or 0): lines} if lines else {}
    return script.with_lines(stretches) if stretches else None


def _mode(training: Training) -> ast.stmt | None:
    """The statement right above the loop that sets train mode."""
    for before, after in pairwise(training.block):
        if after is training.batches and ast.unparse(before).endswith(".train()"):
            return before
    return None


def _phases(script: Script, training: Training) -> list[Line]:
    called = models(script, training)
    if training.epochs is None or not called or not forward(training) or not _fits(script, training):
        return []
    margin = " " * training.batches.col_offset
    head = script.cut(training.batches.lineno, training.batches.body[0].lineno - 1)
    return [
        Line(f'{margin}for phase in ("train", "validation"):'),
        Line(f'{margin}    if phase == "train":'),
        *_train_mode(script, training, called),
        Line(f"{margin}    else:"),
        *(Line(f"{margin}        {name}.eval()") for name in called),
        *(Line(f"    {line.text}", line.origin) for line in head),
        Line(f'{margin}        with torch.set_grad_enabled(phase == "train"):'),
        *_guarded(script, training.batches.body, len(margin) + 12),
        *(Line(f"{margin}{name}.train()") for name in called),
    ]


def _train_mode(script: Script, training: Training, called: Sequence[str]) -> list[Line]:
    margin, mode = training.batches.col_offset + 8, _mode(training)
    if mode:
        return script.indented(mode.lineno, mode.end_lineno or 0, margin)
    return [Line(f"{' ' * margin}{name}.train()") for name in called]


def _fits(script: Script, training: Training) -> bool:
    """Whether the script trains in train mode, and every iteration reaches its end."""
    leaves = any(isinstance(node, ast.Break | ast.Continue | ast.Return) for node in own_nodes(training.batches.body))
    is_whole = not any(isinstance(one, ast.With) and has_backward([one]) for one in training.batches.body)
    is_on_own_lines = training.batches.body[0].lineno > training.batches.lineno
    if leaves or not is_whole or training.batches.orelse or not is_on_own_lines:
        return False
    is_in_train_mode = ".train()" in script.text or "from_pretrained" not in script.text
    return _mode(training) is not None or (".eval()" not in script.text and is_in_train_mode)


def _guarded(script: Script, statements: Sequence[ast.stmt], margin: int) -> Iterator[Line]:
    """The lines of the body, with `if phase == "train":` above what updates weights."""
    is_guarding = False
    for statement in statements:
        if updates(statement) and not is_guarding:
            yield Line(f'{" " * margin}if phase == "train":')
        is_guarding = updates(statement)
        first = script.span(statement)[0]
        yield from script.indented(first, statement.end_lineno or 0, margin + 4 * is_guarding)
