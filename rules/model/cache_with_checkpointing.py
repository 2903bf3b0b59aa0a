"""The key-value cache is enabled together with activation checkpointing.

The cache is for text generation. In training it keeps tensors that are never used, and checkpointing computes them
twice, so the two together undo what checkpointing saves. Newer models disable the cache themselves, some with a warning
in every run; older models and models with custom code run out of memory or fail.

## Bad

    lm.config.use_cache = True  # <- cache-with-checkpointing
    lm.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    lm.train()
    tokens = lm_tokenizer("a text to train on", return_tensors="pt")
    lm(**tokens, labels=tokens["input_ids"]).loss.backward()
    optimizer.step()

## Good

    lm.config.use_cache = False
    lm.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    lm.train()
    tokens = lm_tokenizer("a text to train on", return_tensors="pt")
    lm(**tokens, labels=tokens["input_ids"]).loss.backward()
    optimizer.step()

## When it is fine

The cache is enabled again after training:

    lm.config.use_cache = False
    lm.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    lm.train()
    tokens = lm_tokenizer("a text to train on", return_tensors="pt")
    lm(**tokens, labels=tokens["input_ids"]).loss.backward()
    optimizer.step()
    lm.config.use_cache = True
    lm.eval()
    lm.generate(**tokens, max_new_tokens=2)

The setting comes from another module:

    from my_settings import settings

    lm.config.use_cache = settings.use_cache
    lm.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    lm(**settings.batch).loss.backward()
    optimizer.step()

## Fix

Safe: the library disables the cache itself, with a warning.

## References

Transformers documentation, "Gradient checkpointing"; `PreTrainedConfig.use_cache`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import is_true, literal, text_of
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, dataclass, fixes

GENERATORS = frozenset({Task.CAUSAL_LM, Task.SEQ2SEQ_LM})
CHECKPOINTING = ("gradient_checkpointing", "activation_checkpointing")


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the attribute that is set to True; None if the cache is enabled by an argument."""

    target: str | None


class CacheWithCheckpointing(Rule[Claim]):
    level = Level.NOTE
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for training in tuning.trainings(pipeline):
            model = training.model
            if not isinstance(model, Model) or model.task not in GENERATORS:
                continue
            settings = training.run.settings if training.run else None
            found = _in_arguments(settings) if settings is not None else None
            found = found or _in_script(pipeline, training, model)
            if found is not None:
                yield self._report(pipeline, *found)

    def _report(self, pipeline: Pipeline, location: Location, checkpointing: Location) -> Finding[Claim]:
        statement = tuning.assignment_at(pipeline, location)
        return self.finding(
            statement or location,
            "`use_cache=True` is combined with activation checkpointing",
            related=[Related(checkpointing, "checkpointing is enabled here")],
            help="set `use_cache` to False for training",
            subject="use_cache",
            claim=Claim(pipeline.code(location) if statement is not None else None),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        target = finding.claim.target if finding.claim else None
        if target is None:
            return None
        return fixes.Fix.of("disable the cache", fixes.Replace(finding.location, f"{target} = False"), safe=True)


def _in_arguments(settings: TrainingArguments) -> tuple[Location, Location] | None:
    """Where a Trainer's arguments enable both."""
    cache = settings.locations.get("use_cache") if is_true(settings.value("use_cache")) else None
    on = [settings.locations.get(name) for name in CHECKPOINTING if is_true(settings.value(name))]
    return (cache, on[0]) if cache is not None and on and on[0] is not None else None


def _in_script(pipeline: Pipeline, training: tuning.Training, model: Model) -> tuple[Location, Location] | None:
    """Where a script enables both before a training, and does not disable the cache again."""
    changes = tuning.changes_before(pipeline, training, Act.CHECKPOINT)
    on = [event.location for event in changes if not event.conditions]
    settings = training.run.settings if training.run else None
    given = (
        [settings.locations.get(name) for name in CHECKPOINTING if is_true(settings.value(name))] if settings else []
    )
    on += [location for location in given if location is not None]
    cache = _cache_at(pipeline, training, model) if on else None
    return (cache, on[-1]) if cache is not None else None


def _cache_at(pipeline: Pipeline, training: tuning.Training, model: Model) -> Location | None:
    stores = [
        event
        for event in pipeline.acts(Act.REPLACE)
        if event.subject is model.config and text_of(event.details["name"]) == "use_cache"
    ]
    before = [event for event in stores if event.order < training.order]
    if before:
        last = before[-1]
        return last.location if literal(last.details["value"]) is True and not last.conditions else None
    given = model.arguments.get("use_cache")
    return model.argument_locations.get("use_cache") if given is not None and is_true(given) else None
