"""A pretrained transformer is fine-tuned at a learning rate that wipes out what it knows.

Pretrained weights stand where small steps keep them useful: 1e-5 to 5e-5 for whole encoders. At 1e-3, which is what
torch's `Adam` and `AdamW` take where nothing is said, the first steps destroy them, and the model ends up giving one
class to every row. No error appears.

## Bad

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.parameters())  # <- high-learning-rate

A rate that plain SGD takes is far too high for it:

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)  # <- high-learning-rate
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## Good

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)

Which rates a model bears shows on one batch, with `lintrain probe --also overfit`:

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## When it is fine

Adapters and new heads start from nothing and take higher rates:

    model = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.classifier.parameters(), lr=1e-3)

So does a model that is trained from the start:

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = AutoModelForSequenceClassification.from_config(config)
    args = TrainingArguments("out", learning_rate=1e-3)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A loss of one's own may hold the gradients back from the pretrained part, so that the head alone learns:

    class Probing(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            labels = inputs.pop("labels")
            hidden = model.distilbert(**inputs).last_hidden_state[:, 0].detach()
            loss = F.cross_entropy(model.classifier(torch.relu(model.pre_classifier(hidden))), labels)
            return (loss, hidden) if return_outputs else loss

    args = TrainingArguments("out", learning_rate=5e-3)
    trainer = Probing(model, args, train_dataset=tokenized["train"], data_collator=collator)

One step on one batch shows what a step is, and nobody keeps the model:

    batch = tokenizer(["What a film.", "What a bore."], padding=True, return_tensors="pt")
    batch["labels"] = torch.tensor([1, 0])
    optimizer = torch.optim.AdamW(model.parameters())
    model(**batch).loss.backward()
    optimizer.step()

## Fix

Asks first: 2e-5 is where fine-tuning usually starts, and not the best rate for every task. Where the rate is a setting
that is read elsewhere, there is none: its value belongs there.

## References

transformers#735, transformers#12041, transformers#13547; google-research/bert#1224.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from lintrain.analysis import trainer_methods
from lintrain.evidence.run import OverfitEvidence
from lintrain.pipeline import modules
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Model, Optimizer, Task
from lintrain.pipeline.values.python import Absent, Constant, Unknown, Value, number_of, text_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

HOLDS_BACK = ("detach", "no_grad", "inference_mode", "requires_grad", "requires_grad_", "set_grad_enabled")
"""Names in a loss of one's own by which not all of a model learns from it."""

ADAPTIVE = frozenset({"Adam", "AdamW", "Adamax", "NAdam", "RAdam"})
"""Optimizers whose steps are as long as the rate says; SGD and Adafactor have other scales."""

TEXT_TASKS = frozenset(
    {
        Task.SEQUENCE_CLASSIFICATION,
        Task.TOKEN_CLASSIFICATION,
        Task.QUESTION_ANSWERING,
        Task.MULTIPLE_CHOICE,
        Task.CAUSAL_LM,
        Task.MASKED_LM,
        Task.SEQ2SEQ_LM,
    }
)
ENCODER_TASKS = TEXT_TASKS - {Task.CAUSAL_LM, Task.SEQ2SEQ_LM, Task.MASKED_LM}
FRAGILE = lazy_pattern(r"(roberta|deberta)[\w.-]*-x{0,2}large", re.IGNORECASE)
SMALL = lazy_pattern(r"tiny|mini|small-random|random|test|dummy", re.IGNORECASE)
TEXT_TO_TEXT = lazy_pattern(r"(^|[^a-z])(m|by|flan-|u)?t5|ul2|t0", re.IGNORECASE)
TEXT_MODELS = lazy_pattern(r"bert|electra|roberta|xlm|xlnet|gpt|llama|mistral|qwen|mpnet|minilm|bart", re.IGNORECASE)

COLLAPSE, SHAKY, FRAGILE_LIMIT = 1e-3, 3e-4, 3e-5
"""From the first rate on any text model collapses; above the second encoders suffer, above the third large ones."""

STANDS, FALLS, RISES = 0.9, 0.5, 2.0
"""Shares of the first loss that are left when training fails, and when it works, or that it reaches in between."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A learning rate with the place that sets it: the whole call where that is the default."""

    value: float
    location: Location
    argument: str
    is_default: bool
    made_by: str
    is_keyword: bool = False
    """Whether `place` is that of `name=value` as a whole."""


class HighLearningRate(Rule):
    level = Level.ERROR
    keywords = "optim|Adam|Adafactor|Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for optimizer in pipeline.optimizers:
            rate = _rate_of(optimizer)
            model = _whole_model(pipeline, optimizer.trains) if rate else None
            if rate is not None and model is not None and not _steps_once(pipeline, optimizer):
                yield from self._judge(pipeline, model, rate)
        for run in pipeline.runs:
            rate = _rate_in_arguments(pipeline, run)
            model = _whole_model(pipeline, (run.value("model"),)) if rate else None
            if rate is not None and model is not None:
                yield from self._judge(pipeline, model, rate)

    def _judge(self, pipeline: Pipeline, model: Model, rate: Rate) -> Iterator[Finding]:
        level = _level(model, rate.value)
        if level is None:
            return
        checkpoint = text_of(model.checkpoint) or model.name
        shown = f"{rate.value:g}"
        yield self.finding(
            rate.location,
            f"`{rate.made_by}` trains all of a pretrained model at {'its default, ' if rate.is_default else ''}{shown}",
            related=[Related(model.origin, f"pretrained: {checkpoint}", "origin")] if model.origin else [],
            help=f"set `{rate.argument}=2e-5`; whole pretrained transformers take 1e-5 to 5e-5",
            subject="learning_rate",
            level=level,
            facts={
                "rate": rate.value,
                "argument": rate.argument,
                "is_default": rate.is_default,
                "is_keyword": rate.is_keyword,
                "is_mendable": rate.is_default or _is_number(pipeline.code(rate.location)),
            },
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        overfit, rate = evidence.overfit, finding.facts.get("rate")
        if overfit is None or not overfit.losses:
            return Verdict.inconclusive("takes steps on one batch: run the probe with `--also overfit`")
        if isinstance(rate, float) and overfit.learning_rate < rate / 2:
            return Verdict.refuted(
                f"the rate in force is {overfit.learning_rate:g}", learning_rate=overfit.learning_rate
            )
        return _judged(overfit)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        argument = finding.facts.get("argument")
        if not isinstance(argument, str) or not finding.facts.get("is_mendable"):
            return None
        if finding.facts.get("is_default"):
            return fixes.Fix.of(
                f"set `{argument}=2e-5`", fixes.AddArgument(finding.location, argument, "2e-5"), safe=False
            )
        shown = f"{argument}=2e-5" if finding.facts.get("is_keyword") else "2e-5"
        return fixes.Fix.of(f"set `{argument}=2e-5`", fixes.Replace(finding.location, shown), safe=False)


def _is_number(code: str) -> bool:
    """Whether a rate is written where it is given: no attribute of settings, no name that others may use too."""
    return re.fullmatch(r"(\w+\s*=)?[\s\d.]+(e-?\d+)?\s*", code, re.IGNORECASE) is not None


def _judged(overfit: OverfitEvidence) -> Verdict:
    """What the rate does to one batch: is it the rate that keeps the loss up, and not something else?"""
    first, last = overfit.losses[0], overfit.losses[-1]
    told = f"the loss of one batch goes from {first:.3f} to {last:.3f} in {overfit.steps} steps"
    told = f"{told} at {overfit.learning_rate:g}"
    if not first > 0:
        return Verdict.inconclusive(f"{told}: no loss that falls to 0", first=first, last=last)
    if last < first * FALLS:
        return Verdict.refuted(told, first=first, last=last)
    if last <= first * STANDS:
        return Verdict.inconclusive(told, first=first, last=last)
    lower = overfit.losses_at_a_tenth[-1] if overfit.losses_at_a_tenth else None
    if lower is not None and lower < first * FALLS:
        return Verdict.confirmed(
            f"{told}, and to {lower:.3f} at a tenth of it", first=first, last=last, at_a_tenth=lower
        )
    is_constant = overfit.predicted_classes == 1 and (overfit.batch_classes or 0) > 1
    if is_constant and (lower is None or max(overfit.losses) > first * RISES):
        return Verdict.confirmed(f"{told}, and one class is left", first=first, last=last)
    return Verdict.inconclusive(
        told if lower is None else f"{told}, and to {lower:.3f} at a tenth of it", first=first, last=last
    )


def _rate_of(optimizer: Optimizer) -> Rate | None:
    """The one learning rate that an optimizer certainly has for all its parameters."""
    value, location = number_of(optimizer.learning_rate), optimizer.learning_rate_location
    if optimizer.name not in ADAPTIVE or value is None or optimizer.has_groups or optimizer.is_part:
        return None
    if optimizer.origin is None or optimizer.path.startswith("keras"):
        return None
    if location is None:
        return Rate(value, optimizer.origin, "lr", True, optimizer.name)
    is_free = isinstance(optimizer.learning_rate, Constant) and optimizer.learning_rate.is_default
    return None if is_free else Rate(value, location, "lr", False, optimizer.name)


def _steps_once(pipeline: Pipeline, optimizer: Optimizer) -> bool:
    """Whether its only step stands outside every loop, as where one batch shows what a step is."""
    steps = [event for event in pipeline.acts(Act.STEP) if event.subject is optimizer]
    return len(steps) == 1 and not steps[0].loops and not steps[0].uncalled


def _rate_in_arguments(pipeline: Pipeline, run: TrainerRun) -> Rate | None:
    """The learning rate that a Trainer's arguments certainly set, with an optimizer that takes it as it is."""
    settings = run.settings
    if settings is None or settings.origin is None or not isinstance(run.value("optimizers"), Absent):
        return None
    if not isinstance(run.value("peft_config"), Absent) or "create_optimizer" in run.overrides:
        return None
    if "compute_loss" in run.overrides and not _goes_through_model(run):
        return None
    given, name = settings.value("learning_rate"), text_of(settings.value("optim"))
    is_adamw = isinstance(settings.value("optim"), Absent) or (name or "").startswith(("adamw", "paged_adamw"))
    value, location = number_of(given), settings.locations.get("learning_rate")
    if value is None or location is None or not is_adamw or (isinstance(given, Constant) and given.is_default):
        return None
    return Rate(value, location, "learning_rate", False, "Trainer", "=" in pipeline.code(location))


def _goes_through_model(run: TrainerRun) -> bool:
    """Whether a loss of the script's own calls the whole model, and keeps nothing from learning by it."""
    loss = trainer_methods.own_method(run, "compute_loss")
    parameters = [each.arg for each in loss.node.args.args] if loss is not None else []
    if loss is None or len(parameters) < 3 or any(trainer_methods.reads(loss, name) for name in HOLDS_BACK):
        return False
    calls = [
        node
        for node in trainer_methods.nodes_of(loss)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    given = [call.keywords for call in calls if isinstance(call.func, ast.Name) and call.func.id == parameters[1]]
    return any(keyword.arg is None for keywords in given for keyword in keywords)


def _whole_model(pipeline: Pipeline, trained: tuple[Value, ...]) -> Model | None:
    """The pretrained model whose every weight is certainly trained."""
    models = [part for value in trained for part in modules.modules_in(value) if isinstance(part, Model)]
    if len(models) != 1 or not models[0].is_pretrained or models[0].framework != "torch":
        return None
    model = models[0]
    if model.is_adapted or model.frozen or "quantization_config" in model.arguments:
        return None
    freezes = pipeline.acts(Act.FREEZE)
    if any(isinstance(event.subject, Unknown) or modules.overlap(event.subject, model) for event in freezes):
        return None
    return model


def _level(model: Model, rate: float) -> Level | None:
    """How bad a rate is for a model; None where it may be right."""
    names = f"{text_of(model.checkpoint) or ''} {model.name}"
    if SMALL.search(names) or (model.task not in TEXT_TASKS and not TEXT_MODELS.search(names)):
        return None
    if TEXT_TO_TEXT.search(names):
        return Level.WARNING if rate > COLLAPSE else None
    if rate >= COLLAPSE:
        return Level.ERROR
    if model.task in ENCODER_TASKS and rate > SHAKY:
        return Level.WARNING
    return Level.WARNING if model.task in ENCODER_TASKS and FRAGILE.search(names) and rate > FRAGILE_LIMIT else None
