"""Mistakes with learning rates and their schedules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import Code, Edit
from benchmarks.accuracy.finding import arguments, method_calls, names_in, optimizer_steps, trainers
from benchmarks.accuracy.mutants import injects

BY_STEPS = ("get_linear_schedule_with_warmup", "get_cosine_schedule_with_warmup", "get_scheduler")
OF_TORCH = ("StepLR", "CosineAnnealingLR", "ExponentialLR", "OneCycleLR")
PRETRAINED = ("ForSequenceClassification", "AutoModel.from_pretrained", "ForTokenClassification")


@injects("schedule-unit-mismatch", shows="rates")
def count_epochs_for_steps(code: Code) -> Iterator[list[Edit]]:
    """Give the number of epochs where steps are counted."""
    for call in code.calls(*BY_STEPS):
        total = code.argument(call, "num_training_steps")
        names = {node.id for node in code.nodes(ast.Name)} | {node.arg for node in code.nodes(ast.arg)}
        epochs = next((name for name in ("EPOCHS", "epochs", "num_epochs") if name in names), None)
        if total and epochs and "trainer" not in code.code(total) and "Lightning" not in code.text:
            yield [code.here(total), code.replace(total.value, epochs)]


@injects("schedule-unit-mismatch", shows="rates")
def forget_the_interval(code: Code) -> Iterator[list[Edit]]:
    """Let Lightning step a schedule of steps once an epoch."""
    for entry in code.nodes(ast.Dict):
        keys = [key.value for key in entry.keys if isinstance(key, ast.Constant)]
        if "interval" in keys and "scheduler" in keys:
            scheduler = code.code(entry.values[keys.index("scheduler")])
            yield [code.here(code.statement(entry)), code.replace(entry, scheduler)]


@injects("unstepped-scheduler", shows="rates")
def forget_to_step_the_scheduler(code: Code) -> Iterator[list[Edit]]:
    """Delete the only `scheduler.step()`."""
    made = list(code.calls(*BY_STEPS, *OF_TORCH))
    steps = list(method_calls(code, "step", "sched"))
    if len(made) == 1 and len(steps) == 1 and "load_state_dict" not in code.text:
        yield [code.delete(code.statement(steps[0])), code.here(code.statement(made[0]))]


@injects("scheduler-before-optimizer", shows="rates warnings")
def step_the_scheduler_first(code: Code) -> Iterator[list[Edit]]:
    """Step the schedule before the optimizer."""
    for schedule in map(code.statement, method_calls(code, "step", "sched")):
        for step in map(code.statement, optimizer_steps(code)):
            if code.block(schedule) == code.block(step) and step.lineno < schedule.lineno:
                yield [
                    code.here(step),
                    code.replace(step, code.code(schedule)),
                    code.replace(schedule, code.code(step)),
                ]


@injects("overrun-one-cycle", shows="error")
def plan_fewer_steps_than_taken(code: Code) -> Iterator[list[Edit]]:
    """Make the cycle one epoch long."""
    for cycle in code.calls("OneCycleLR"):
        epochs = code.argument(cycle, "epochs")
        if epochs:
            yield [code.here(code.statement(cycle)), code.replace(epochs.value, "1")]


@injects("warmup-exceeds-training", shows="rates")
def warm_up_for_ever(code: Code) -> Iterator[list[Edit]]:
    """More steps of warm-up than steps."""
    for made in arguments(code):
        if code.argument(made, "max_steps"):
            yield [code.here(made), code.set_argument(made, "warmup_steps", "500")]


UNTRAINED = "the stand-ins of pretrained models have random weights: a high rate destroys nothing that they had learned"


@injects("high-learning-rate", shows="rates", not_probed=UNTRAINED)
def take_the_default_rate(code: Code) -> Iterator[list[Edit]]:
    """Leave out the rate of an optimizer of a pretrained model."""
    for made in code.calls("AdamW", "Adam"):
        if names_in(code, "ForSequenceClassification", "ForMaskedLM") and code.argument(made, "lr"):
            if "peft" not in code.text and "Scorer" not in code.text:
                yield [code.here(made), code.here(code.statement(made)), code.drop_argument(made, "lr")]


@injects("high-learning-rate", shows="rates", not_probed=UNTRAINED)
def ask_for_a_high_rate(code: Code) -> Iterator[list[Edit]]:
    """Fine-tune everything at 5e-3."""
    for made in arguments(code):
        rate = code.argument(made, "learning_rate")
        if rate and isinstance(rate.value, ast.Constant) and list(trainers(code)) and names_in(code, *PRETRAINED):
            if "peft" not in code.text:
                yield [code.here(made), code.here(rate), code.replace(rate.value, "5e-3")]
