"""Mistakes of trainings in several processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Code, Edit
from benchmarks.accuracy.finding import method_calls, optimizer_steps
from benchmarks.accuracy.mutants import injects


@injects("missing-set-epoch", shows="inputs")
def forget_the_epoch(code: Code) -> Iterator[list[Edit]]:
    """Do not tell the sampler which epoch it is."""
    for told in method_calls(code, "set_epoch"):
        made = [code.here(code.statement(sampler)) for sampler in code.calls("DistributedSampler")]
        yield [code.delete(code.statement(told)), *made]


@injects("all-ranks-write", shows="saved", not_run="one process overwrites no file of another one")
def let_everybody_save(code: Code) -> Iterator[list[Edit]]:
    """Save in every process."""
    for branch in code.nodes(ast.If):
        if code.code(branch.test) == "dist.get_rank() == 0" and len(branch.body) == 1:
            yield [code.replace(branch, HERE + code.lines_of(branch.body[0]))]


def prepared(code: Code) -> Iterator[tuple[ast.Assign, ast.Call, list[str]]]:
    """The statements that prepare several objects and give them back under their names."""
    for statement in code.nodes(ast.Assign):
        call = statement.value
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("accelerator.prepare"):
            names = [ast.unparse(argument) for argument in call.args]
            if len(names) > 1 and ast.unparse(statement.targets[0]) == f"({', '.join(names)})":
                yield statement, call, names


def preparing(call: ast.Call, names: list[str]) -> str:
    """The statement that prepares these objects."""
    joined = ", ".join(names)
    return f"{joined} = {ast.unparse(call.func)}({joined})"


@injects("unprepared-object", shows="steps gradients rates")
def leave_the_optimizer_out(code: Code) -> Iterator[list[Edit]]:
    """Prepare everything but the optimizer, where gradients are accumulated."""
    for statement, call, names in prepared(code):
        if "optimizer" in names and "accumulate(" in code.text:
            rest = [name for name in names if name != "optimizer"]
            marks = [code.here(code.statement(step)) for step in optimizer_steps(code)]
            yield [code.replace(statement, preparing(call, rest)), *marks]


@injects("multiplied-scheduler-steps", shows="rates", not_run="one process takes as many steps as it counts")
def count_what_one_process_gets(code: Code) -> Iterator[list[Edit]]:
    """Take the length of the schedule when the loader is divided already."""
    for statement, call, names in prepared(code):
        made = [one for one in code.block(statement) if code.code(one).startswith(("updates =", "scheduler ="))]
        if "scheduler" in names and len(made) == 2:
            lines = [code.lines_of(made[0]), HERE + code.lines_of(made[1])]
            first = preparing(call, [name for name in names if name != "scheduler"])
            last = "scheduler = accelerator.prepare(scheduler)"
            yield [
                *map(code.delete, made),
                code.replace(statement, first),
                code.after(statement, "\n".join([*lines, last])),
            ]
