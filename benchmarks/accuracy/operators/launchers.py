"""Mistakes with accelerate."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import Code, Edit
from benchmarks.accuracy.finding import method_calls
from benchmarks.accuracy.mutants import injects


@injects("plain-backward", shows="losses gradients memory")
def go_backward_past_the_launcher(code: Code) -> Iterator[list[Edit]]:
    """`loss.backward()` where the launcher accumulates."""
    for backward in method_calls(code, "backward", "accelerator"):
        if "gradient_accumulation_steps" in code.text:
            given = code.code(backward.args[0])
            yield [code.here(code.statement(backward)), code.replace(backward, f"{given}.backward()")]


@injects("missing-accumulate-context", shows="steps gradients rates")
def accumulate_without_its_context(code: Code) -> Iterator[list[Edit]]:
    """Take the batches out of `accumulate`."""
    for block in code.nodes(ast.With):
        context = block.items[0].context_expr
        if "accumulate(" in code.code(context):
            backward = next(call for call in method_calls(code, "backward") if block in code.ancestors(call))
            start = code.span(block)[0]
            yield [Edit(start, code.span(context)[1], "if True"), code.here(code.statement(backward))]


@injects("double-scaled-accumulation", shows="losses gradients")
def divide_what_the_launcher_divides(code: Code) -> Iterator[list[Edit]]:
    """Divide the loss by hand as well."""
    for backward in method_calls(code, "backward", "accelerator"):
        if "gradient_accumulation_steps=2" in code.text:
            given = code.code(backward.args[0])
            yield [code.here(code.statement(backward)), code.replace(backward.args[0], f"{given} / 2")]


@injects("duplicated-eval-rows", shows="printed", not_run="one process gathers no row twice")
def gather_padded_rows(code: Code) -> Iterator[list[Edit]]:
    """`gather` for a metric."""
    for gather in method_calls(code, "gather_for_metrics"):
        if "predicted" in code.code(gather) and isinstance(gather.func, ast.Attribute):
            receiver = code.code(gather.func.value)
            yield [code.here(code.statement(gather)), code.replace(gather.func, f"{receiver}.gather")]
