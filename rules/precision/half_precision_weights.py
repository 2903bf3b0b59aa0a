"""Weights are trained in a half precision that is too coarse for their updates.

A bfloat16 number has eight significant bits: an update of 1e-5 to a weight of 0.02 is rounded away. At the low learning
rates of fine-tuning most weights never change, the loss falls a little, and no error appears. In float16, the `eps` of
Adam is rounded to zero, and weights without a gradient become NaN in the second step. Mixed precision (`bf16=True`,
autocast) keeps the weights themselves in float32.

## Bad

    args = TrainingArguments("out", learning_rate=1e-5, bf16=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased",
        num_labels=3,
        dtype=torch.bfloat16,  # <- half-precision-weights
    )
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Float16 in a custom training loop:

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    model.half()  # <- half-precision-weights
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
    assert loss.isfinite()
    # raises AssertionError

## Good

    args = TrainingArguments("out", learning_rate=1e-5, bf16=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased",
        num_labels=3,
        dtype=torch.float32,
    )
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Adapters are kept in float32, whatever the format of the model:

    args = TrainingArguments("out", learning_rate=1e-5)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, dtype=torch.bfloat16
    )
    model = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"]))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

At a higher learning rate, the updates are large enough for most weights:

    args = TrainingArguments("out", learning_rate=1e-4)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, dtype=torch.bfloat16
    )
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A model that is used only for inference may have any format:

    reference = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", dtype=torch.bfloat16)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: weights in float32 take twice the memory.

## References

Zamirai et al., "Revisiting BFloat16 Training", 2020; PyTorch documentation, "Automatic Mixed Precision package".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Model, Optimizer
from lintrain.pipeline.values.python import Absent, Constant, is_missing, is_true, literal, text_of
from lintrain.pipeline.values.training import TrainerRun
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

COARSE = 2e-5
"""The highest learning rate at which under a third of bfloat16 weights change: 3.5 % at 1e-6, 17 % at 1e-5, 31 % at
2e-5 and 56 % at 5e-5, measured with AdamW of torch 2.13 on a small BERT."""

ADAM = frozenset({"Adam", "AdamW"})
DISTRIBUTED = ("deepspeed", "fsdp", "fsdp_config")
SHARDING = lazy_pattern(r"deepspeed|\bzero[ _-]?[123]\b", re.IGNORECASE)
"""Names of what keeps float32 copies of the weights that it trains."""

PLUGINS = frozenset({"deepspeed_plugin", "deepspeed_plugins", "fsdp_plugin"})
FEW, MOST = 0.5, 0.8
HARDLY_ANY = 0.15
"""The share of weights that change, below which no text is needed to say that the format is too coarse."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The learning rate that certainly applies to all of a model, and the location that sets it."""

    value: float
    location: Location


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the `dtype` argument's value; None if another call sets the format."""

    code: str | None


class HalfPrecisionWeights(Rule[Claim]):
    level = Level.WARNING
    judges_configurations = True
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for training in tuning.trainings(pipeline):
            model = training.model
            if not isinstance(model, Model) or not tuning.is_tuned_whole(pipeline, training):
                continue
            kept = tuning.weights_format(pipeline, training)
            if kept is None or _is_sharded(pipeline) or tuning.quantization_of(model) is not None:
                continue
            rate = _rate(training)
            if kept.name == "bfloat16" and rate is not None and rate.value <= COARSE:
                yield self._rounds(pipeline, kept, rate)
            elif kept.name == "float16" and _underflows(pipeline, training):
                yield self._breaks(kept, training.optimizer)

    def _rounds(self, pipeline: Pipeline, kept: tuning.Format, rate: Rate) -> Finding[Claim]:
        return self.finding(
            kept.location,
            f"bfloat16 weights with a learning rate of {rate.value:g}: most updates round to zero",
            related=[Related(rate.location, "sets the learning rate", "origin")],
            help="load with `dtype=torch.float32` and train with `bf16=True`",
            subject="dtype",
            claim=Claim(pipeline.code(kept.location) if kept.is_argument else None),
        )

    def _breaks(self, kept: tuning.Format, optimizer: Optimizer | None) -> Finding[Claim]:
        origin, name = (optimizer.origin, optimizer.name) if optimizer else (None, "Adam")
        return self.finding(
            kept.location,
            f"`{name}` turns float16 weights into NaN in its second step",
            related=[Related(origin, "its `eps` of 1e-8 is 0 in float16", "origin")] if origin else [],
            help="keep the weights in float32 and run the forward pass under `torch.autocast`",
            subject="dtype",
            level=Level.ERROR,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        step, formats = evidence.step, set(evidence.model.formats) if evidence.model is not None else set[str]()
        if step is None or not formats or formats - {"bfloat16", "float16"}:
            return
        if step.non_finite or (step.changed_share is not None and step.changed_share < HARDLY_ANY):
            yield self.finding(
                evidence.location_of("cast", "model"),
                f"weights in {' and '.join(sorted(formats))} are trained, which is too coarse for their updates",
                help="keep the weights in float32 and use mixed precision",
                subject="dtype",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if evidence.step is None or evidence.model is None:
            return Verdict.inconclusive(evidence.not_reached("step"))
        share, formats = evidence.step.changed_share, evidence.model.formats
        if evidence.step.non_finite:
            lost, tensors = evidence.step.non_finite, evidence.step.trainable_tensors
            text = f"{lost} of {tensors} tensors ({', '.join(formats)}) hold NaN or infinity after two steps"
            return Verdict.confirmed(text, non_finite=lost)
        if share is None:
            return Verdict.inconclusive(
                f"{evidence.step.changed_tensors} tensors changed; the share of changed weights was not measured"
            )
        text = f"{share:.0%} of the weights with a gradient changed in two steps ({', '.join(formats)})"
        if share < FEW and {"bfloat16", "float16"} & formats.keys():
            return Verdict.confirmed(text, share=share)
        return Verdict.refuted(text, share=share) if share > MOST else Verdict.inconclusive(text)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        code = finding.claim.code if finding.claim else None
        if code is None:
            return None
        wanted = '"float32"' if code[:1] in "\"'" else f"{code.rpartition('.')[0] or 'torch'}.float32"
        return fixes.Fix.of(f"write `{wanted}`", fixes.Replace(finding.location, wanted), safe=False)


def _is_sharded(pipeline: Pipeline) -> bool:
    """Whether something may shard the weights, and then trains float32 copies of them.

    That is often chosen where the script is launched, and only a comment or a message of the script speaks of it.
    """
    is_named = any(source.contains(SHARDING) for source in pipeline.sources.values())
    return is_named or any(PLUGINS & launcher.arguments.keys() for launcher in pipeline.launchers)


def _rate(training: tuning.Training) -> Rate | None:
    """The learning rate of an Adam optimizer, if it is certain and the same for all weights."""
    if training.run is not None:
        return _rate_of_run(training.run)
    optimizer = training.optimizer
    if optimizer is None or optimizer.has_groups or not _is_adam_of_torch(optimizer):
        return None
    value, location = literal(optimizer.learning_rate), optimizer.learning_rate_location
    return Rate(float(value), location) if isinstance(value, int | float) and location is not None else None


def _rate_of_run(run: TrainerRun) -> Rate | None:
    settings = run.settings
    if settings is None or not isinstance(run.value("optimizers"), Absent) or "create_optimizer" in run.overrides:
        return None
    if not settings.is_complete or any(not is_missing(settings.value(name)) for name in DISTRIBUTED):
        return None
    chosen = settings.value("optim")
    is_adam = isinstance(chosen, Absent) or (text_of(chosen) or "").startswith("adamw")
    value, location = literal(settings.value("learning_rate")), settings.locations.get("learning_rate")
    return Rate(float(value), location) if is_adam and isinstance(value, int | float) and location is not None else None


def _underflows(pipeline: Pipeline, training: tuning.Training) -> bool:
    """Whether Adam in a custom loop divides zero by zero; with a scaler, the run fails earlier."""
    has_scaler = any("scaler" in event.details for event in pipeline.acts(Act.STEP))
    return training.optimizer is not None and _has_plain_eps(training.optimizer) and not has_scaler


def _is_adam_of_torch(optimizer: Optimizer) -> bool:
    return optimizer.path.startswith("torch.optim.") and optimizer.name in ADAM


def _has_plain_eps(optimizer: Optimizer) -> bool:
    """Whether the optimizer is an Adam that computes in the format of the weights, with the default `eps`."""
    absent = Constant(None)
    arguments = optimizer.arguments
    is_fused = "fused" in arguments and literal(arguments["fused"]) is not False
    has_eps = not is_missing(arguments.get("eps", absent)) or "**" in arguments or "4" in arguments
    return (
        _is_adam_of_torch(optimizer) and not is_fused and not has_eps and not is_true(arguments.get("amsgrad", absent))
    )
