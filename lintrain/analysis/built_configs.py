"""Settings of a configuration that are stored after the model was built from it, where nothing reads them again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions, tuning
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Config, Model
from lintrain.pipeline.values.python import Absent, Value, literal, text_of
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

BUILT_IN = frozenset(
    {
        *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "seq_classif_dropout"),
        *("dropout_rate", "resid_pdrop", "embd_pdrop", "summary_first_dropout", "summary_last_dropout"),
    }
)
"""Rates of dropout that layers get when they are built, in all models of transformers 5.23 but one of `READ_LATER`."""

MOSTLY_BUILT_IN = frozenset({"attention_dropout", "hidden_dropout", "dropout", "activation_dropout", "attn_pdrop"})
"""Rates that some models read in each pass."""

READ_ONCE = frozenset({*BUILT_IN, *MOSTLY_BUILT_IN, "num_labels"})

READ_LATER = lazy_pattern(r"falcon|gpt[-_]?neo|gpt[-_]?j|persimmon|prophetnet|\bblt\b|data2vec|clvp", re.IGNORECASE)
"""The models that read such a rate from their configuration in each pass (transformers 5.23)."""

SETS_LAYERS = lazy_pattern(r"\.p\s*=(?!=)|setattr\(")
"""Code that gives layers of dropout their rate itself."""

HARMLESS = frozenset({"print", "getattr", "hasattr", "setattr", "isinstance", "vars", "type", "len", "str", "pprint"})


@dataclass(frozen=True, slots=True)
class LateSetting:
    """A setting without effect: where, its name, the model that was built, and the outputs that its head keeps."""

    location: Location
    name: str
    model: Model
    outputs: int | None = None


def late_settings(pipeline: Pipeline) -> Iterator[LateSetting]:
    """The rates of dropout and sizes of heads that are stored in the configuration of a model that exists."""
    for event in pipeline.acts(Act.REPLACE):
        name = text_of(event.details["name"])
        if name is None or name not in READ_ONCE or not isinstance(event.subject, Config):
            continue
        models = [each for each in pipeline.models if each.config is event.subject]
        if len(models) != 1 or not _is_after(pipeline, event, models[0]) or _is_used_again(pipeline, event, name):
            continue
        if _is_built_in(name, models[0]) and not pipeline.source_of(event.location).contains(SETS_LAYERS):
            yield LateSetting(event.location, name, models[0])
        outputs = _outputs_of(models[0]) if name == "num_labels" else None
        if outputs is not None and literal(event.details["value"]) not in {outputs, None}:
            yield LateSetting(event.location, name, models[0], outputs)


def _is_after(pipeline: Pipeline, event: Event, model: Model) -> bool:
    """Whether the model exists where its configuration is changed: it is asked for it, or was made above."""
    made, stored = model.origin, event.location
    if made is None or made.path != stored.path:
        return made is not None and ".config." in pipeline.code(stored)
    return made.line < stored.line


def _is_built_in(name: str, model: Model) -> bool:
    checkpoint = text_of(model.checkpoint)
    if READ_LATER.search(model.path) or READ_LATER.search(checkpoint or ""):
        return False
    is_known = checkpoint is not None or not model.path.rpartition(".")[2].startswith("Auto")
    return name in BUILT_IN or (is_known and name in MOSTLY_BUILT_IN)


def _outputs_of(model: Model) -> int | None:
    """How many outputs its head has since it was built; None if that is not known, or the head is another one."""
    size: Value = model.num_labels
    if isinstance(size, Absent):
        return model.labels_by_default
    number = literal(size)
    return number if isinstance(number, int) else None


def _is_used_again(pipeline: Pipeline, event: Event, name: str) -> bool:
    """Whether code reads the setting, or something gets the whole configuration after it."""
    source = pipeline.source_of(event.location)
    owner, _, _ = source.code(event.location).removesuffix(f".{name}").partition(".update(")
    return tuning.is_attribute_read(source, f"{owner}.{name}") or any(_users(source, event, owner))


def _users(source: Source, event: Event, owner: str) -> Iterator[bool]:
    """For each call below the change whether it gets the configuration, and may build something from it."""
    for call in expressions.calls_in_file(source):
        if call.location.line > event.location.line and call.called_name not in HARMLESS:
            yield any(each.code == owner for each in (*call.arguments, *call.keywords.values()))
