"""A model without pretrained weights is fine-tuned.

A configuration describes a model's architecture and has no weights: `from_config`, and calling a model class with a
configuration, create random ones. At the learning rate and for the few epochs of fine-tuning, such a model learns next
to nothing, while the same script with `from_pretrained` works well. No error appears.

## Bad

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = AutoModelForSequenceClassification.from_config(config)  # <- random-weights
    args = TrainingArguments("out", learning_rate=2e-5, num_train_epochs=3)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", config=config)
    args = TrainingArguments("out", learning_rate=2e-5, num_train_epochs=3)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A higher learning rate indicates training from scratch:

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = AutoModelForSequenceClassification.from_config(config)
    args = TrainingArguments("out", learning_rate=5e-4)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

So does a custom configuration:

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3, n_layers=4)
    model = AutoModelForSequenceClassification.from_config(config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The weights may be loaded afterwards:

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3)
    fresh = AutoModelForSequenceClassification.from_config(config)
    fresh.load_state_dict(model.state_dict())
    args = TrainingArguments("out", learning_rate=2e-5)
    trainer = Trainer(fresh, args, train_dataset=tokenized["train"], data_collator=collator)

A baseline has random weights on purpose, which its name shows:

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3)
    from_scratch = AutoModelForSequenceClassification.from_config(config)
    args = TrainingArguments("out", learning_rate=2e-5)
    trainer = Trainer(from_scratch, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: it trains another model, with the weights of the checkpoint whose configuration is used.

## References

Transformers documentation, `AutoModel.from_config`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions, tuning
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Config, Model, Task
from lintrain.pipeline.values.python import literal, text_of
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

FINE_TUNED = frozenset(
    {
        Task.SEQUENCE_CLASSIFICATION,
        Task.TOKEN_CLASSIFICATION,
        Task.IMAGE_CLASSIFICATION,
        Task.AUDIO_CLASSIFICATION,
        Task.QUESTION_ANSWERING,
        Task.MULTIPLE_CHOICE,
    }
)
"""Tasks that are hardly ever trained from random weights; language models often are."""

HARMLESS = frozenset(
    [
        "num_labels",
        "id2label",
        "label2id",
        "problem_type",
        "finetuning_task",
        "cache_dir",
        "revision",
        "token",
        "use_auth_token",
        "trust_remote_code",
        "local_files_only",
        "force_download",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "dropout",
        "attention_dropout",
        "classifier_dropout",
    ]
)
"""Settings that do not change the architecture, so the checkpoint's weights fit."""

ON_PURPOSE = lazy_pattern(
    r"scratch|random(ly)?[ _-]?(init|model)|pre-?train(?!ed)|distil(?!bert|roberta|gpt|-)|student|untrained|ablation",
    re.IGNORECASE,
)
HIGHEST = 1e-4


@dataclass(frozen=True, slots=True)
class Claim:
    """The call that loads the checkpoint; None if it is not certain."""

    code: str | None


class RandomWeights(Rule[Claim]):
    level = Level.WARNING
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for training in tuning.trainings(pipeline) if len(pipeline.models) == 1 else ():
            model = training.model
            if not isinstance(model, Model) or model.origin is None or not _is_random(model):
                continue
            if _is_fine_tuning(pipeline, training) and not pipeline.source.contains(ON_PURPOSE):
                yield self._report(pipeline, training, model, model.origin)

    def _report(self, pipeline: Pipeline, training: tuning.Training, model: Model, origin: Location) -> Finding[Claim]:
        config = model.config
        described = (
            [Related(config.origin, "an architecture, without weights", "origin")] if config and config.origin else []
        )
        name = text_of(model.checkpoint)
        return self.finding(
            origin,
            "this model has random weights, but is trained like a pretrained one",
            related=[*described, Related(training.location, "trained here")],
            help=f'write `{model.name}.from_pretrained("{name}", config=…)`',
            subject="model",
            claim=Claim(_pretrained(pipeline.code(origin), name)),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        model, rate = evidence.model, evidence.peak_learning_rate
        if model is not None and model.is_left_random and model.classifies and (rate or 0.0) <= HIGHEST:
            yield self.finding(
                evidence.location_of("model"),
                f"this model has random weights, but the configuration of `{model.checkpoint}`",
                help=f'load the weights: `{model.name}.from_pretrained("{model.checkpoint}", config=…)`',
                subject="model",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        model = evidence.model
        if model is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        tensors = model.trained_in("")[1]
        if not model.is_origin_known:
            return Verdict.inconclusive(
                f"the model was created before the probe began: the origin of {tensors} tensors is unknown"
            )
        if not model.pretrained:
            return Verdict.confirmed(f"no checkpoint was loaded: all of {tensors} tensors are random", tensors=tensors)
        fresh = len(model.fresh)
        return Verdict.refuted(f"all but {fresh} of {tensors} tensors were loaded from a checkpoint", fresh=fresh)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        code = finding.claim.code if finding.claim else None
        if code is None:
            return None
        return fixes.Fix.of("load the checkpoint's weights", fixes.Replace(finding.location, code), safe=False)


def _is_random(model: Model) -> bool:
    """Whether a model certainly has random weights, although a checkpoint exists for it."""
    config = model.config
    if model.task not in FINE_TUNED or model.how not in {"", "from_config"} or not isinstance(config, Config):
        return False
    name = literal(model.checkpoint)
    is_plain = not (config.arguments.keys() | config.attributes.keys()) - HARMLESS and config.is_complete
    is_of_hub = isinstance(name, str) and name[:1] not in "./~"
    return is_plain and is_of_hub and model.framework == "torch"


def _is_fine_tuning(pipeline: Pipeline, training: tuning.Training) -> bool:
    """Whether a model is certainly trained at a learning rate for fine-tuning, with unchanged initial weights."""
    if not tuning.is_left_alone(pipeline, training) or tuning.changes_before(
        pipeline, training, Act.REPLACE, Act.ADAPT
    ):
        return False
    if training.run is not None:
        settings = training.run.settings
        rate = literal(settings.value("learning_rate")) if settings is not None else None
    else:
        rate = literal(training.optimizer.learning_rate) if training.optimizer else None
    return isinstance(rate, int | float) and 0 < rate <= HIGHEST


def _pretrained(code: str, name: str | None) -> str | None:
    """The call that loads the checkpoint; None unless the original call has a configuration as its only argument."""
    config = expressions.only_argument_in(code, "config")
    if name is None or config is None:
        return None
    return f'{code.partition("(")[0].removesuffix(".from_config")}.from_pretrained("{name}", config={config})'
