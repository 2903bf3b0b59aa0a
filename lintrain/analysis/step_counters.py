"""How a loop that accumulates gradients counts its batches, and after how many it makes its first step."""

from __future__ import annotations

import ast
import re

from lintrain.analysis.iterations import accumulated_step
from lintrain.analysis.training_loops import TrainingLoop
from lintrain.model.location import Location
from lintrain.pipeline.events import Condition, Event
from lintrain.pipeline.record import Pipeline
from lintrain.source import parsing
from lintrain.source.nodes import unparse, walk
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A step of several batches, the first of which has fewer: its test, the counter, and their number.

    `is_late` if the counter starts from 1 and the test adds 1: one batch is missing. Else it has a single one.
    """

    step: Event
    test: Location
    counter: str
    batches: str
    is_late: bool = False


def first_step(pipeline: Pipeline, training: TrainingLoop) -> FirstStep | None:
    """The step of a loop that accumulates gradients, if its only test counts the batches from a wrong number.

    `index % n == 0` where `index` starts at 0, or `(index + 1) % n == 0` where it starts at 1.
    """
    step, backward = accumulated_step(pipeline, training), training.backward
    own = [each for each in step.conditions if each not in backward.conditions] if step is not None else []
    if step is None or len(own) != 1 or step.order < backward.order or step.loops != backward.loops:
        return None
    counted = _divided_counter(own[0])
    if counted is None or unparse(counted[2]) == "1":
        return None
    counter, added, batches = counted
    loop = step.loops[-1]
    head = rf"for \(?{re.escape(counter)}, [^\n]* in enumerate\("
    start = _start(loop.header) if re.match(head, pipeline.code(loop.location)) is not None else None
    if start is None or start != added:
        return None
    return FirstStep(step, own[0].location, counter, unparse(batches), start == 1)


def _start(header: str) -> int | None:
    """The number that the loop counts from: 0 or 1; None if it is another, or not known."""
    for call in walk(parsing.expression_of(header)):
        if isinstance(call, ast.Call) and unparse(call.func) == "enumerate":
            named = [each.value for each in call.keywords if each.arg == "start"]
            given = [unparse(each) for each in (*call.args[1:2], *named)]
            return int(given[0]) if given and given[0] in {"0", "1"} else None if given else 0
    return 0


def _divided_counter(condition: Condition) -> tuple[str, int, ast.expr] | None:
    """`i`, 0 and `n` of the test `i % n == 0` or `not i % n`; with 1 of `(i + 1) % n == 0`."""
    match condition.test:
        case ast.Compare(left=ast.BinOp() as divided, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            pass
        case ast.UnaryOp(op=ast.Not(), operand=ast.BinOp() as divided):
            pass
        case _:
            return None
    if not isinstance(divided.op, ast.Mod) or condition.is_else:
        return None
    match divided.left:
        case ast.Name(id=name):
            return name, 0, divided.right
        case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=ast.Constant(value=1)):
            return name, 1, divided.right
        case _:
            return None
