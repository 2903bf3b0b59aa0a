"""The evaluation needs labels, but the Trainer finds none.

The Trainer looks for parameters of the model's `forward` that have `label` in their name. A custom model that names its
target differently trains, but its evaluation returns no loss and never calls the metric function.

## Bad

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, values, target=None):
            logits = self.layer(values)
            loss = None if target is None else F.cross_entropy(logits, target)
            return {"loss": loss, "logits": logits}

    rows = [{"values": torch.randn(8), "target": i % 3} for i in range(32)]
    trainer = Trainer(  # <- unset-label-names
        Net(),
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=rows[:24],
        eval_dataset=rows[24:],
        compute_metrics=compute_metrics,
    )
    trainer.train()

## Good

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, values, target=None):
            logits = self.layer(values)
            loss = None if target is None else F.cross_entropy(logits, target)
            return {"loss": loss, "logits": logits}

    rows = [{"values": torch.randn(8), "target": i % 3} for i in range(32)]
    trainer = Trainer(
        Net(),
        TrainingArguments("out", eval_strategy="epoch", label_names=["target"]),
        train_dataset=rows[:24],
        eval_dataset=rows[24:],
        compute_metrics=compute_metrics,
    )
    trainer.train()

## When it is fine

A parameter with `label` in its name is found, and `**kwargs` may contain the labels:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, values, labels=None):
            logits = self.layer(values)
            loss = None if labels is None else F.cross_entropy(logits, labels)
            return {"loss": loss, "logits": logits}

    rows = [{"values": torch.randn(8), "labels": i % 3} for i in range(32)]
    trainer = Trainer(
        Net(),
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=rows[:24],
        eval_dataset=rows[24:],
        compute_metrics=compute_metrics,
    )
    trainer.train()

## Fix

Asks first: offered if exactly one parameter has a common name for targets.

## References

transformers documentation, `TrainingArguments.label_names`; `transformers.utils.find_labels` of 4.46 to 5.23.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule, trainer_methods
from lintrain.pipeline.values.python import Function, Instance, is_missing
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

OWN_EVALUATION = {"prediction_step", "evaluation_loop", "prediction_loop", "evaluate", "__init__"}
TARGETS = frozenset({"target", "targets", "y", "y_true", "truth", "gold", "expected", "classes"})
"""Common names of parameters for labels, other than `labels`."""

FOUND = ("label", "start_positions", "end_positions", "return_loss")


@dataclass(frozen=True, slots=True)
class Claim:
    """The parameter that takes the labels; None if it is not certain."""

    name: str | None


class UnsetLabelNames(Rule[Claim]):
    level = Level.WARNING
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.runs:
            settings, forward = run.settings, _forward(run)
            if settings is None or forward is None or not run.is_plain or run.overrides & OWN_EVALUATION:
                continue
            needs_labels = not is_missing(run.value("compute_metrics")) or not evaluation_schedule.is_left_out(
                settings, "metric_for_best_model"
            )
            if (
                needs_labels
                and evaluation_schedule.is_left_out(settings, "label_names")
                and evaluation_schedule.is_evaluated(pipeline, run)
                and run.is_complete
            ):
                yield self._report(pipeline, run, forward)

    def _report(self, pipeline: Pipeline, run: TrainerRun, forward: Function) -> Finding[Claim]:
        names = [each.arg for each in forward.node.args.args[1:]]
        targets = [name for name in names if name in TARGETS]
        made = run.settings.origin if run.settings is not None and len(targets) == 1 else None
        listed = ", ".join(f"`{name}`" for name in names)
        return self.finding(
            run.construction,
            "evaluation finds no labels: no parameter of `forward` has `label` in its name",
            related=[
                Related(trainer_methods.head_of(pipeline, forward), f"takes {listed}", "forward"),
                *([Related(made, "`label_names` is not set here", "settings")] if made else []),
            ],
            help=f'name the parameter that takes the labels: `label_names=["{names[-1]}"]`',
            subject="label_names",
            claim=Claim(targets[0] if made else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        evaluation = evidence.evaluation
        if evaluation is not None and evaluation.has_metric_function and not OWN_EVALUATION & set(evidence.overrides):
            yield self.finding(
                evidence.location,
                "evaluation finds no labels: no parameter of `forward` has `label` in its name",
                help="name the parameter that takes the labels: `label_names=[…]`",
                subject="label_names",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        if evidence.model is None or evaluation is None or evaluation.is_followed or not evidence.passed("evaluation"):
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        names = evidence.model.label_inputs
        if not names and not evaluation.metric_function_called:
            return Verdict.confirmed(
                f"the Trainer found no label names, and computed no metric for {evaluation.rows} rows"
            )
        return Verdict.refuted(f"the Trainer found {len(names)} label names: {', '.join(names)}")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        made, name = finding.with_role("settings"), finding.claim.name if finding.claim else None
        if not made or name is None:
            return None
        code = f'["{name}"]'
        edit = fixes.AddArgument(made[0].location, "label_names", code)
        return fixes.Fix.of(f"pass `label_names={code}`", edit, safe=False)


def _forward(run: TrainerRun) -> Function | None:
    """The `forward` of a model that the script defines, if none of its parameters is found as labels."""
    model = run.value("model")
    found = model.cls.lookup("forward") if isinstance(model, Instance) else None
    if not isinstance(model, Instance) or found is None or not isinstance(found[1], Function):
        return None
    given = found[1].node.args
    if model.cls.has_unknown_base or given.vararg or given.kwarg or found[1].decorators:
        return None
    names = [each.arg for each in (*given.args, *given.kwonlyargs)]
    return None if any(word in name for word in FOUND for name in names) else found[1]
