"""Rates of dropout under names that other kinds of models have: `hidden_dropout_prob` for a DistilBERT.

A configuration of transformers keeps what it does not know, and its model never reads it. `from_pretrained` of a model
hands such a name to the class, which raises.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import token_feeds
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Config, Model
from lintrain.pipeline.values.python import text_of
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OF_BERT = ("hidden_dropout_prob", "attention_probs_dropout_prob")
OF_GPT2 = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
OF_BART = ("dropout", "attention_dropout")
OF_DISTILBERT = ("dropout", "attention_dropout", "seq_classif_dropout")

OWN = {
    **dict.fromkeys(("bert", "roberta", "xlmroberta", "camembert", "electra", "albert", "deberta"), OF_BERT),
    **dict.fromkeys(("debertav2", "mpnet", "longformer", "bigbird", "vit", "deit", "beit", "layoutlm"), OF_BERT),
    "distilbert": OF_DISTILBERT,
    **dict.fromkeys(("gpt2", "gptj"), OF_GPT2),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2"), ("attention_dropout",)),
    **dict.fromkeys(("t5", "mt5"), ("dropout_rate",)),
    **dict.fromkeys(("bart", "mbart", "pegasus", "marian", "whisper"), OF_BART),
}
"""The rates among `RATES` that each kind of model has (transformers 4.30 to 5.23)."""

RATES = frozenset({*OF_BERT, *OF_GPT2, *OF_DISTILBERT, "dropout_rate"})
"""Rates that only the models read which have them; heads also look for `classifier_dropout` and `hidden_dropout`."""

KIND = lazy_pattern(r"(?:TF|Flax)?(?P<kind>\w+?)(?:For[A-Z]\w*|LMHead\w*|Model|Config)$")


@dataclass(frozen=True, slots=True)
class ForeignSetting:
    """A rate that a model does not have: where, its name, the kind of the model, and the rates of that kind."""

    location: Location
    name: str
    kind: str
    own: tuple[str, ...]


def passed(pipeline: Pipeline) -> Iterator[ForeignSetting]:
    """The rates that `from_pretrained` of a model gets and hands to its class, which raises."""
    for model in pipeline.models:
        if model.is_pretrained and model.framework == "torch":
            yield from _foreign(pipeline, model, model.argument_locations)


def stored(pipeline: Pipeline) -> Iterator[ForeignSetting]:
    """The rates that a configuration gets and that nothing reads."""
    configs = {each.origin: each for each in _configs(pipeline)}
    for call in pipeline.calls:
        if call.arguments.keys() & RATES and call.location in configs:
            given = {name: each.location for name, each in call.arguments.items()}
            yield from _unread(pipeline, _foreign(pipeline, configs[call.location], given))
    for event in pipeline.acts(Act.REPLACE):
        name = text_of(event.details["name"])
        if isinstance(event.subject, Config) and name in RATES:
            yield from _unread(pipeline, _foreign(pipeline, event.subject, {name: event.location}))


def _configs(pipeline: Pipeline) -> Iterator[Config]:
    """The configurations that get a name, or a model."""
    yield from (each.value for each in pipeline.bindings if isinstance(each.value, Config))
    yield from (each.config for each in pipeline.models if each.config is not None)


def _unread(pipeline: Pipeline, found: Iterator[ForeignSetting]) -> Iterator[ForeignSetting]:
    """Those that no code reads: a layer of the script may get its rate from them."""
    for each in found:
        read = rf"\.{each.name}\b(?!\s*=[^=])|getattr\([^()]*[\"']{each.name}"
        if not any(source.contains(read) for source in pipeline.sources.values()):
            yield each


def _foreign(pipeline: Pipeline, owner: Model | Config, locations: dict[str, Location]) -> Iterator[ForeignSetting]:
    names = sorted(RATES & locations.keys())
    kind, own = _kind_of(pipeline, owner) if names else ("", ())
    for name in names if own else ():
        if name not in own:
            yield ForeignSetting(locations[name], name, kind, own)


def _kind_of(pipeline: Pipeline, owner: Model | Config) -> tuple[str, tuple[str, ...]]:
    """The kind of a model by its class or else its checkpoint, and its rates; no rates if it is not known."""
    path = owner.path.removesuffix(".from_pretrained")
    found = KIND.match(path.rpartition(".")[2]) if path.startswith("transformers.") else None
    if found is None:
        return "", ()
    if found["kind"].startswith("Auto"):
        facts = token_feeds.certain_facts(pipeline, owner)
        kind = facts.model_type if facts is not None and facts.model_type is not None else ""
    else:
        kind = found["kind"]
    return kind, OWN.get(kind.lower().replace("-", "").replace("_", ""), ())
