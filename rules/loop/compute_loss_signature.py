"""A `compute_loss` of one's own does not take, or does not give, what the Trainer asks of it.

The Trainer calls it with the number of labels of the whole step, and for an evaluation asks for the outputs beside the
loss. A method that knows neither ends the run at the first step, or at the first evaluation.

## Bad

    class SmoothTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False):  # <- compute-loss-signature
            outputs = model(**inputs)
            loss = outputs.loss + 0.01 * outputs.logits.pow(2).mean()
            return (loss, outputs) if return_outputs else loss

    trainer = SmoothTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises TypeError: SmoothTrainer.compute_loss() got an unexpected keyword argument 'num_items_in_batch'

The outputs are asked for, and only the loss comes:

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

The outputs when they are asked for:

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

Keywords that are not named are taken all the same, and without an evaluation nobody asks for outputs:

    class SmoothTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            outputs = model(**inputs)
            return outputs.loss + 0.01 * outputs.logits.pow(2).mean()

    trainer = SmoothTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A trainer with a step of its own may call it in its own way:

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

Safe for the missing parameter: without it the first step ends with an error. Asks first for the missing outputs, which
are those of the only call of the model.

## References

`Trainer.training_step` and `Trainer.prediction_step` of transformers 4.46 to 5.23.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule, gradient_accumulation, trainer_methods
from lintrain.pipeline.values.python import Function
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

COUNT = "num_items_in_batch"
CALLERS = {"training_step", "train", "_inner_training_loop"}
ASKING = {"prediction_step", "evaluation_loop", "prediction_loop", "evaluate"}


class ComputeLossSignature(Rule):
    level = Level.ERROR
    keywords = "Trainer & compute_loss"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not gradient_accumulation.is_since(pipeline.targets, "transformers", (4, 46)):
            return
        seen = set[int]()
        for run in pipeline.runs:
            function = trainer_methods.own_method(run, "compute_loss")
            if function is None or not run.is_plain or run.overrides & CALLERS or id(function) in seen:
                continue
            seen.add(id(function))
            if not _may_be_called_with(function, COUNT):
                yield self._without_count(pipeline, run, function)
            elif evaluation_schedule.is_evaluated(pipeline, run) and not run.overrides & ASKING:
                yield from self._without_outputs(pipeline, run, function)

    def _without_count(self, pipeline: Pipeline, run: TrainerRun, function: Function) -> Finding:
        return self.finding(
            trainer_methods.head_of(pipeline, function),
            f"the Trainer calls this with `{COUNT}`, which it does not take",
            related=[Related(run.construction, "this trainer calls it", "trainer")],
            help=f"add the parameter `{COUNT}=None`",
            subject="compute_loss",
            facts={"missing": COUNT, "is_plain": bool(function.node.args.args) and not function.node.args.vararg},
        )

    def _without_outputs(self, pipeline: Pipeline, run: TrainerRun, function: Function) -> Iterator[Finding]:
        given = trainer_methods.returns_of(function)
        is_deaf = not trainer_methods.reads(function, "return_outputs") and not trainer_methods.passes_keywords_on(
            function
        )
        if given and is_deaf and all(_is_loss_alone(each) for each in given):
            yield self.finding(
                trainer_methods.location_in(pipeline, function, given[0]),
                "an evaluation asks for the outputs too, and this gives the loss alone",
                related=[Related(run.construction, "this trainer evaluates", "trainer")],
                help="write `return (loss, outputs) if return_outputs else loss`",
                subject="compute_loss",
                facts={"missing": "outputs", "code": _with_outputs(function, given) if len(given) == 1 else None},
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        is_count = finding.facts.get("missing") == COUNT
        text, stage = (f"argument '{COUNT}'", "forward") if is_count else ("iteration over a 0-d tensor", "evaluation")
        failed = evidence.failed_with(text)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage ends with {failed.failure.type} after 0 steps")
        if evidence.passed(stage):
            return Verdict.refuted(f"the {stage} stage went through with 0 errors")
        return Verdict.inconclusive(evidence.not_reached(stage))

    def fix(self, finding: Finding) -> fixes.Fix | None:
        code = finding.facts.get("code")
        if finding.facts.get("missing") == COUNT and finding.facts.get("is_plain") is True:
            return fixes.Fix.of(f"take `{COUNT}`", fixes.AddParameter(finding.location, COUNT, "None"), safe=True)
        if not isinstance(code, str):
            return None
        return fixes.Fix.of(
            "give the outputs where they are asked for", fixes.Replace(finding.location, code), safe=False
        )


def _may_be_called_with(function: Function, name: str) -> bool:
    return bool(function.decorators) or trainer_methods.accepts(function, name)


def _is_loss_alone(node: ast.expr) -> bool:
    """Whether an expression is certainly one tensor: what an operator or an attribute named loss gives."""
    match node:
        case ast.BinOp() | ast.Attribute(attr="loss"):
            return True
        case ast.Name(id=name):
            return "loss" in name and not name.endswith("es")
        case _:
            return False


def _with_outputs(function: Function, given: list[ast.expr]) -> str | None:
    """The returned loss, with the outputs of the only call of the model where they are asked for."""
    names = [each.arg for each in function.node.args.args]
    calls = [
        node.targets[0].id
        for node in ast.walk(function.node)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and len(names) > 1
        and ast.unparse(node.value.func) == names[1]
    ]
    loss = ast.unparse(given[0])
    if len(calls) != 1 or "return_outputs" not in names or not re.fullmatch(r"[\w.]+", loss):
        return None
    return f"({loss}, {calls[0]}) if return_outputs else {loss}"
