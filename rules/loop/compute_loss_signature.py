"""A custom `compute_loss` does not accept `num_items_in_batch` or does not return the outputs.

The Trainer passes `num_items_in_batch`, the number of labels in the whole step, and during evaluation requests the
outputs in addition to the loss. A method that supports neither raises an error at the first training step or the first
evaluation.

## Bad

    class SmoothTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False):  # <- compute-loss-signature
            outputs = model(**inputs)
            loss = outputs.loss + 0.01 * outputs.logits.pow(2).mean()
            return (loss, outputs) if return_outputs else loss

    trainer = SmoothTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises TypeError: SmoothTrainer.compute_loss() got an unexpected keyword argument 'num_items_in_batch'

Evaluation requests the outputs, but only the loss is returned:

    class SmoothTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = outputs.loss + 0.01 * outputs.logits.pow(2).mean()
            return loss  # <- compute-loss-signature

    trainer = SmoothTrainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
    )
    # raises TypeError: iteration over a 0-d tensor

## Good

    class SmoothTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = outputs.loss + 0.01 * outputs.logits.pow(2).mean()
            return (loss, outputs) if return_outputs else loss

    trainer = SmoothTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Return the outputs when they are requested:

    class SmoothTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = outputs.loss + 0.01 * outputs.logits.pow(2).mean()
            return (loss, outputs) if return_outputs else loss

    trainer = SmoothTrainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
    )

## When it is fine

`**kwargs` accepts the argument, and a run without evaluation does not request outputs:

    class SmoothTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            outputs = model(**inputs)
            return outputs.loss + 0.01 * outputs.logits.pow(2).mean()

    trainer = SmoothTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A trainer with its own `training_step` may call `compute_loss` differently:

    class SmoothTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False):
            outputs = model(**inputs)
            return (outputs.loss, outputs) if return_outputs else outputs.loss

        def training_step(self, model, inputs, num_items_in_batch=None):
            model.train()
            loss = self.compute_loss(model, self._prepare_inputs(inputs))
            self.accelerator.backward(loss)
            return loss.detach()

    trainer = SmoothTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Safe for the missing parameter: without it the first training step raises an error. Asks first for the missing outputs:
they are taken from the only call of the model.

## References

`Trainer.training_step` and `Trainer.prediction_step` of transformers 4.46 to 5.23.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from lintrain.analysis import evaluation_schedule, expressions, gradients, trainer_methods
from lintrain.pipeline.values.python import Function
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

COUNT = "num_items_in_batch"
CALLERS = {"training_step", "train", "_inner_training_loop"}
EVALUATION_METHODS = {"prediction_step", "evaluation_loop", "prediction_loop", "evaluate"}


@dataclass(frozen=True, slots=True)
class Claim:
    """What the method lacks, and the fix if there is one: a new parameter, or the code to return."""

    lacks_count: bool
    takes_parameter: bool = False
    code: str = ""


class ComputeLossSignature(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer & compute_loss"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        passes_count = gradients.is_since(pipeline.targets, "transformers", (4, 46))
        seen = set[int]()
        for run in pipeline.runs:
            function = trainer_methods.own_method(run, "compute_loss")
            if function is None or not run.is_plain or run.overrides & CALLERS or id(function) in seen:
                continue
            seen.add(id(function))
            yield from self._without_loss(pipeline, run, function)
            if passes_count and not _may_be_called_with(function, COUNT):
                yield self._without_count(pipeline, run, function)
            if evaluation_schedule.is_evaluated(pipeline, run) and not run.overrides & EVALUATION_METHODS:
                yield from self._without_outputs(pipeline, run, function)

    def _without_loss(self, pipeline: Pipeline, run: TrainerRun, function: Function) -> Iterator[Finding[Claim]]:
        made = trainer_methods.assigned_last(function, "loss")
        related = [Related(run.construction, "called by this trainer", "trainer")]
        if made is not None and trainer_methods.returns_nothing(function):
            yield self.finding(
                trainer_methods.head_of(pipeline, function),
                "`compute_loss` returns nothing",
                related=related,
                help="end it with `return (loss, outputs) if return_outputs else loss`",
                subject="compute_loss",
                claim=Claim(False),
            )
        elif made is not None and trainer_methods.leaves_graph(made.value) and _returns(pipeline, function, "loss"):
            yield self.finding(
                trainer_methods.location_in(pipeline, function, made.value),
                "`compute_loss` returns a loss that is off the graph",
                related=related,
                help="return the tensor itself; take `item()` of it for logs alone",
                subject="compute_loss",
                claim=Claim(False),
            )

    def _without_count(self, pipeline: Pipeline, run: TrainerRun, function: Function) -> Finding[Claim]:
        return self.finding(
            trainer_methods.head_of(pipeline, function),
            f"`compute_loss` does not accept `{COUNT}`, which the Trainer passes",
            related=[Related(run.construction, "called by this trainer", "trainer")],
            help=f"add the parameter `{COUNT}=None`",
            subject="compute_loss",
            claim=Claim(True, takes_parameter=bool(function.node.args.args) and not function.node.args.vararg),
        )

    def _without_outputs(self, pipeline: Pipeline, run: TrainerRun, function: Function) -> Iterator[Finding[Claim]]:
        returned = expressions.returned_by(pipeline, function)
        reads_flag = trainer_methods.reads(function, "return_outputs") or trainer_methods.passes_keywords_on(function)
        if returned and not reads_flag and all(_is_loss_alone(each) for each in returned):
            yield self.finding(
                returned[0].location,
                "`compute_loss` returns only the loss, but evaluation also needs the outputs",
                related=[Related(run.construction, "evaluated by this trainer", "trainer")],
                help="write `return (loss, outputs) if return_outputs else loss`",
                subject="compute_loss",
                claim=Claim(False, code=_with_outputs(pipeline, function, returned[0]) if len(returned) == 1 else ""),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for message, remedy, where, claim in (
            (
                f"`compute_loss` does not accept `{COUNT}`",
                f"add `{COUNT}=None` to its parameters",
                "compute_loss",
                Claim(lacks_count=True),
            ),
            (
                "`compute_loss` does not return the outputs in evaluation",
                "return `(loss, outputs)` if `return_outputs` is true",
                "returned_loss",
                Claim(lacks_count=False),
            ),
        ):
            if location := evidence.locations.get(where):
                yield self.finding(location, message, help=remedy, claim=claim)

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        is_count = finding.claim is not None and finding.claim.lacks_count
        text = f"argument '{COUNT}'" if is_count else "iteration over a 0-d tensor"
        stage: Literal["forward", "evaluation"] = "forward" if is_count else "evaluation"
        failed = evidence.failed_with(text)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the `{failed.name}` stage raises `{failed.failure.type}`")
        if evidence.passed(stage):
            return Verdict.refuted(f"the `{stage}` stage completes without an error")
        return Verdict.inconclusive(evidence.not_reached(stage))

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is not None and claim.takes_parameter:
            add = fixes.AddParameter(finding.location, COUNT, "None")
            return fixes.Fix.of(f"add the parameter `{COUNT}=None`", add, safe=True)
        if claim is None or not claim.code:
            return None
        return fixes.Fix.of("return the outputs on request", fixes.Replace(finding.location, claim.code), safe=False)


def _may_be_called_with(function: Function, name: str) -> bool:
    return bool(function.decorators) or trainer_methods.accepts(function, name)


def _returns(pipeline: Pipeline, function: Function, name: str) -> bool:
    """Whether all that a function returns mentions a name."""
    returned = expressions.returned_by(pipeline, function)
    return bool(returned) and all(re.search(rf"(?<![\w.]){name}\b", each.code) for each in returned)


def _is_loss_alone(returned: expressions.Expression) -> bool:
    """Whether an expression is certainly a single tensor: the result of an operator, or something named loss."""
    match returned.kind:
        case expressions.Kind.OPERATION:
            return True
        case expressions.Kind.ATTRIBUTE:
            return returned.name == "loss"
        case expressions.Kind.NAME:
            return "loss" in returned.name and not returned.name.endswith("es")
        case _:
            return False


def _with_outputs(pipeline: Pipeline, function: Function, returned: expressions.Expression) -> str:
    """Code that returns the loss, with the outputs of the only model call on request; empty if they have no name."""
    names = [each.arg for each in function.node.args.args]
    if len(names) < 2 or "return_outputs" not in names:
        return ""
    outputs = [
        each.targets[0].name
        for each in expressions.assignments_in(pipeline, function)
        if each.targets[0].kind is expressions.Kind.NAME and each.value.callee and each.value.callee.code == names[1]
    ]
    loss = returned.code
    if len(outputs) != 1 or not re.fullmatch(r"[\w.]+", loss):
        return ""
    return f"({loss}, {outputs[0]}) if return_outputs else {loss}"
