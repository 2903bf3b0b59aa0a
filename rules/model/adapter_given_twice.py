"""A model with an adapter is passed to a trainer together with `peft_config`.

The trainers of TRL put an adapter into the model if they get a `peft_config`. A model that has one already gets a
second, which TRL refuses since 0.27. Older versions ignore the second, or merge the first into the weights.

## Bad

    settings = LoraConfig(task_type="CAUSAL_LM")
    adapted = get_peft_model(lm, settings)
    trainer = trl.SFTTrainer(
        adapted,
        trl.SFTConfig("out", bf16=False, use_cpu=True, max_steps=1),
        train_dataset=text["train"],
        peft_config=settings,  # <- adapter-given-twice
    )
    # raises ValueError: You passed a `PeftModel` instance together with a `peft_config` to the trainer

## Good

    settings = LoraConfig(task_type="CAUSAL_LM")
    adapted = get_peft_model(lm, settings)
    trainer = trl.SFTTrainer(
        adapted,
        trl.SFTConfig("out", bf16=False, use_cpu=True, max_steps=1),
        train_dataset=text["train"],
    )

## When it is fine

An earlier adapter was merged into the weights:

    settings = LoraConfig(task_type="CAUSAL_LM")
    merged = get_peft_model(lm, settings).merge_and_unload()
    quick = trl.SFTConfig("out", bf16=False, use_cpu=True, max_steps=1)
    trainer = trl.SFTTrainer(merged, quick, train_dataset=text["train"], peft_config=settings)

## Fix

Safe: the adapter of the model is trained.

## References

TRL 1.16, `SFTTrainer.__init__`: a `PeftModel` together with a `peft_config`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import gradients, script_text
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import is_missing
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, fixes

REFUSED_SINCE = (0, 27)
"""The version of trl from which a trainer refuses both; one before ignores the second, or merges the first."""

REMOVES_ADAPTER = r"merge_and_unload|\bunload\(|delete_adapter|get_base_model|merge_adapter"


class AdapterGivenTwice(Rule):
    level = Level.ERROR
    keywords = "peft_config & Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not gradients.is_since(pipeline.targets, "trl", REFUSED_SINCE):
            return
        for run in pipeline.runs:
            given = run.arguments.get("peft_config")
            if given is None or is_missing(given.value) or not run.path.startswith("trl."):
                continue
            adapted = _adapted_at(pipeline, run)
            if adapted is not None and not script_text.mentions(pipeline, REMOVES_ADAPTER):
                yield self.finding(
                    given.keyword or given.location,
                    "the model has an adapter already, and `peft_config` adds another",
                    related=[
                        Related(adapted, "puts an adapter into the model", "adapted"),
                        Related(run.construction, "the trainer", "trainer"),
                    ],
                    help="pass the model without an adapter, or no `peft_config`",
                )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        trainers = finding.with_role("trainer")
        if not trainers:
            return None
        edit = fixes.RemoveArgument(trainers[0].location, "peft_config")
        return fixes.Fix.of("remove `peft_config`", edit, safe=True)


def _adapted_at(pipeline: Pipeline, run: TrainerRun) -> Location | None:
    """Where the model of a run certainly got an adapter before the trainer was made."""
    model = run.value("model")
    if not isinstance(model, Model):
        return None
    events = (event for event in pipeline.acts(Act.ADAPT) if event.subject is model and not event.conditions)
    before = (event.location for event in events if event.location.path == run.construction.path)
    return next((location for location in before if location < run.construction), None)
