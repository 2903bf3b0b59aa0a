"""A model is fine-tuned that has no pretrained weights.

A configuration describes a model's architecture and holds no weights: `from_config`, and a class that is called with a
configuration, give random ones. At the rate and for the few epochs of fine-tuning such a model learns next to nothing,
while the same script with `from_pretrained` does well. No error appears.

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

A higher rate says that the model is trained from the start:

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = AutoModelForSequenceClassification.from_config(config)
    args = TrainingArguments("out", learning_rate=5e-4)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

So does a configuration of one's own:

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3, n_layers=2)
    model = AutoModelForSequenceClassification.from_config(config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The weights may come afterwards:

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3)
    fresh = AutoModelForSequenceClassification.from_config(config)
    fresh.load_state_dict(model.state_dict())
    args = TrainingArguments("out", learning_rate=2e-5)
    trainer = Trainer(fresh, args, train_dataset=tokenized["train"], data_collator=collator)

A comparison has a model with random weights on purpose, and its name says so:

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3)
    from_scratch = AutoModelForSequenceClassification.from_config(config)
    args = TrainingArguments("out", learning_rate=2e-5)
    trainer = Trainer(from_scratch, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: it trains another model, from the checkpoint whose configuration is used.

## References

Transformers documentation, `AutoModel.from_config`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Config, Model, Task
from lintrain.pipeline.values.python import literal, text_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern
from lintrain.source import parsing

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
"""Tasks that hardly anybody trains from random weights; language models often are."""

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
"""Settings that leave the architecture as it was, so that the checkpoint's weights would fit."""

ON_PURPOSE = lazy_pattern(
    r"scratch|random(ly)?[ _-]?(init|model)|pre-?train(?!ed)|distil(?!bert|roberta|gpt|-)|student|untrained|ablation",
    re.IGNORECASE,
)
HIGHEST = 1e-4


class RandomWeights(Rule):
    level = Level.WARNING
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for training in tuning.trainings(pipeline) if len(pipeline.models) == 1 else ():
            model = training.model
            if not isinstance(model, Model) or model.origin is None or not _is_random(model):
                continue
            if _is_fine_tuning(pipeline, training) and not pipeline.source.says(ON_PURPOSE):
                yield self._report(pipeline, training, model, model.origin)

    def _report(self, pipeline: Pipeline, training: tuning.Training, model: Model, origin: Location) -> Finding:
        config = model.config
        told = [Related(config.origin, "an architecture, no weights", "origin")] if config and config.origin else []
        name = text_of(model.checkpoint)
        return self.finding(
            origin,
            "this model has random weights, and is trained like a pretrained one",
            related=[*told, Related(training.location, "trained here")],
            help=f'write `{model.name}.from_pretrained("{name}", config=…)`',
            subject="model",
            facts={"code": _pretrained(pipeline.code(origin), name)},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        model = evidence.model
        if model is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        tensors = model.trained_in("")[1]
        if not model.is_origin_known:
            return Verdict.inconclusive(
                f"the model was made before the probe began: the origin of {tensors} tensors is not known"
            )
        if not model.pretrained:
            return Verdict.confirmed(f"no checkpoint was loaded: all of {tensors} tensors are random", tensors=tensors)
        fresh = len(model.fresh)
        return Verdict.refuted(f"a checkpoint filled all but {fresh} of {tensors} tensors", fresh=fresh)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        code = finding.facts.get("code")
        if not isinstance(code, str):
            return None
        return fixes.Fix.of("load the checkpoint's weights", fixes.Replace(finding.location, code), safe=False)


def _is_random(model: Model) -> bool:
    """Whether a model certainly has random weights where a checkpoint would have fitted."""
    config = model.config
    if model.task not in FINE_TUNED or model.how not in {"", "from_config"} or not isinstance(config, Config):
        return False
    name = literal(model.checkpoint)
    is_plain = not (config.arguments.keys() | config.attributes.keys()) - HARMLESS and config.is_complete
    is_of_hub = isinstance(name, str) and name[:1] not in "./~"
    return is_plain and is_of_hub and model.framework == "torch"


def _is_fine_tuning(pipeline: Pipeline, training: tuning.Training) -> bool:
    """Whether a model is certainly trained at the rate of fine-tuning, its weights left as they were made."""
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
    """The call that loads the weights of a checkpoint, where the written one is given a configuration and no more."""
    call = parsing.expression_of(code)
    given = [*call.args, *(each.value for each in call.keywords)] if isinstance(call, ast.Call) else []
    is_config = len(given) == 1 and isinstance(call, ast.Call) and all(each.arg == "config" for each in call.keywords)
    config = ast.get_source_segment(code, given[0]) if is_config else None
    if name is None or config is None:
        return None
    return f'{code.partition("(")[0].removesuffix(".from_config")}.from_pretrained("{name}", config={config})'
