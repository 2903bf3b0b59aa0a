"""The cache of keys and values is asked for together with activation checkpointing.

The cache is for generating text. In training it holds tensors that nobody reads, and checkpointing computes them twice,
so that the two together undo what checkpointing saves. Newer models switch the cache off by themselves, some with a
warning in every run; older ones and models with code of their own fill the memory or fail.

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

The cache is switched on again once the model is trained:

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

Whether there is a cache is said elsewhere:

    from my_settings import settings

    lm.config.use_cache = settings.use_cache
    lm.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    lm(**settings.batch).loss.backward()
    optimizer.step()

## Fix

Safe: the library switches the cache off by itself, and warns.

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
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, fixes

GENERATORS = frozenset({Task.CAUSAL_LM, Task.SEQ2SEQ_LM})
CHECKPOINTING = ("gradient_checkpointing", "activation_checkpointing")


class CacheWithCheckpointing(Rule):
    level = Level.NOTE
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for training in tuning.trainings(pipeline):
            model = training.model
            if not isinstance(model, Model) or model.task not in GENERATORS:
                continue
            settings = training.run.settings if training.run else None
            found = _in_arguments(settings) if settings is not None else _in_loop(pipeline, training, model)
            if found is not None:
                yield self._report(pipeline, *found)

    def _report(self, pipeline: Pipeline, location: Location, checkpointing: Location) -> Finding:
        statement = tuning.assignment_at(pipeline, location)
        return self.finding(
            statement or location,
            "`use_cache=True` stands beside activation checkpointing",
            related=[Related(checkpointing, "switched on here")],
            help="set `use_cache` to False for training",
            subject="use_cache",
            facts={"target": pipeline.code(location) if statement is not None else None},
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        target = finding.facts.get("target")
        if not isinstance(target, str):
            return None
        return fixes.Fix.of("switch the cache off", fixes.Replace(finding.location, f"{target} = False"), safe=True)


def _in_arguments(settings: TrainingArguments) -> tuple[Location, Location] | None:
    """Where a Trainer's arguments switch both on."""
    cache = settings.locations.get("use_cache") if is_true(settings.value("use_cache")) else None
    on = [settings.locations.get(name) for name in CHECKPOINTING if is_true(settings.value(name))]
    return (cache, on[0]) if cache is not None and on and on[0] is not None else None


def _in_loop(pipeline: Pipeline, training: tuning.Training, model: Model) -> tuple[Location, Location] | None:
    """Where the script of a loop of its own switches both on, and the cache not off again."""
    on = [event for event in tuning.changes_before(pipeline, training, Act.CHECKPOINT) if not event.conditions]
    cache = _cache_at(pipeline, training, model)
    return (cache, on[-1].location) if on and cache is not None else None


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
