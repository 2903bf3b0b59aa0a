"""The learning rate is so high that steps destroy the weights.

A step at such a rate replaces what the weights hold, in place of improving it. Fine-tuning needs small ones, 1e-5 to
5e-5 for whole encoders: at 1e-3, the default of torch's `Adam` and `AdamW`, the first steps destroy the pretrained
weights, and the model predicts the same class for every row. No error is raised.

## Bad

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.parameters())  # <- high-learning-rate

A typical learning rate for SGD is far too high:

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

`lintrain probe --also overfit` measures on one batch whether a learning rate is too high:

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## When it is fine

Adapters and new heads are randomly initialized and need higher rates:

    model = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.classifier.parameters(), lr=1e-3)

A model that is trained from scratch needs them as well:

    config = AutoConfig.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = AutoModelForSequenceClassification.from_config(config)
    args = TrainingArguments("out", learning_rate=1e-3)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A custom loss may detach the pretrained part, so that only the head is trained:

    class Probing(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            labels = inputs.pop("labels")
            hidden = model.distilbert(**inputs).last_hidden_state[:, 0].detach()
            loss = F.cross_entropy(model.classifier(torch.relu(model.pre_classifier(hidden))), labels)
            return (loss, hidden) if return_outputs else loss

    args = TrainingArguments("out", learning_rate=5e-3)
    trainer = Probing(model, args, train_dataset=tokenized["train"], data_collator=collator)

A single step on one batch is a demonstration, not a training run:

    batch = tokenizer(["What a film.", "What a bore."], padding=True, return_tensors="pt")
    batch["labels"] = torch.tensor([1, 0])
    optimizer = torch.optim.AdamW(model.parameters())
    model(**batch).loss.backward()
    optimizer.step()

## Fix

Asks first: 2e-5 is a common learning rate for fine-tuning, but not the best one for every task. There is no fix if the
rate comes from a setting that is defined elsewhere.

## References

transformers#735, transformers#12041, transformers#13547; google-research/bert#1224.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from lintrain.analysis import keras_rates, trainer_methods
from lintrain.analysis.learning_rates import Rate, rate_in_settings
from lintrain.pipeline import modules
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Model, Optimizer, Task
from lintrain.pipeline.values.python import Absent, Constant, Unknown, Value, number_of, options_of, text_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)
from lintrain.text import show_number

FREEZES = ("detach", "no_grad", "inference_mode", "requires_grad", "requires_grad_", "set_grad_enabled")
"""Names in a custom loss that may exclude parts of the model from training."""

ADAPTIVE = frozenset({"Adam", "AdamW", "Adamax", "NAdam", "RAdam"})
"""Optimizers whose step size is the learning rate; SGD and Adafactor have other scales."""

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
FRAGILE = lazy_pattern(r"(?i)(roberta|deberta)[\w.-]*-x{0,2}large")
SMALL = lazy_pattern(r"(?i)tiny|mini|small-random|random|test|dummy|[-_]\d{2,3}m\b|tokenizer")
"""Models made for tests, or with millions of parameters: decoders of that size are tuned at 1e-3. A name of a tokenizer
alone is given where the weights are new."""
TEXT_TO_TEXT = lazy_pattern(r"(?i)(^|[^a-z])(m|by|flan-|u)?t5|ul2|t0")
TEXT_MODELS = lazy_pattern(r"(?i)bert|electra|roberta|xlm|xlnet|gpt|llama|mistral|qwen|mpnet|minilm|bart")
NUMBER = lazy_pattern(r"(?i)([\w.]+(\s*:[^=]+)?\s*=(\s*\w+\(default\s*=)?)?[\s\d.]+(e-?\d+)?\s*(,[^=]+=[^=]+\)|\))?")
"""A rate that is written as a number: `lr=1e-3`, `arguments.learning_rate = 1e-3`, a field of a class."""

COLLAPSE, SHAKY, FRAGILE_LIMIT = 1e-3, 3e-4, 5e-5
"""Learning rates from which all text models collapse, all encoders suffer, and large encoders suffer."""

FAILS, FALLS, RISES = 0.9, 0.5, 2.0
"""The last loss as a share of the first if training fails or works, and the largest one if it diverges."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The learning rate, the argument that sets it, and whether its code may be replaced."""

    rate: float
    argument: str
    is_default: bool
    is_fixable: bool


class HighLearningRate(Rule[Claim]):
    level = Level.ERROR
    judges_configurations = True
    keywords = "optim|Adam|Adafactor|Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for optimizer in pipeline.optimizers:
            rate = _rate_of(optimizer)
            model = _whole_model(pipeline, optimizer.trains) if rate else None
            if rate is not None and model is not None and not _steps_once(pipeline, optimizer):
                yield from self._judge(pipeline, model, rate)
            elif rate is not None and rate.value >= HUGE and _trains_networks(pipeline, optimizer):
                yield self._report_huge(rate, f"`{rate.owner}` moves each weight by about {rate.value:g} in every step")
            momentum = number_of(optimizer.arguments.get("momentum", Unknown()))
            if momentum is not None and momentum >= 1 and optimizer.origin is not None:
                yield self.finding(
                    optimizer.origin,
                    f"a momentum of {momentum:g} makes each step longer than the one before",
                    help="take a momentum below 1, such as 0.9",
                )
        for rate in keras_rates.high_rates(pipeline):
            yield self._report_huge(rate, f"`{rate.owner}` moves each weight by about {rate.value:g} in every step")
        for run in pipeline.runs:
            rate = _rate_in_arguments(run)
            model = _whole_model(pipeline, (run.value("model"),)) if rate else None
            judged = list(self._judge(pipeline, model, rate)) if rate is not None and model is not None else []
            yield from judged
            rate = rate_in_settings(run) if not judged else None
            if rate is not None and rate.value >= HUGE_FOR_TRANSFORMERS and _tunes_transformer(pipeline, run):
                yield self._report_huge(rate, f"`{run.name}` trains at a rate of {rate.value:g}", "1e-5 to 2e-4")

    def _report_huge(self, rate: Rate, message: str, usual: str = "about 1e-3") -> Finding[Claim]:
        return self.finding(
            rate.location,
            message,
            help=f"take a rate of {usual}",
            subject="learning_rate",
            level=Level.WARNING,
            claim=Claim(rate.value, rate.argument, rate.is_default, False),
        )

    def _judge(self, pipeline: Pipeline, model: Model, rate: Rate) -> Iterator[Finding[Claim]]:
        level = _level(model, rate.value)
        if level is None or _is_named_by_its_file(rate):
            return
        checkpoint = text_of(model.checkpoint) or model.name
        shown = f"{rate.value:g}"
        yield self.finding(
            rate.location,
            f"`{rate.owner}` trains a pretrained model at {'its default rate, ' if rate.is_default else ''}{shown}",
            related=[Related(model.origin, f"pretrained: {checkpoint}", "origin")] if model.origin else [],
            help=f"set `{rate.argument}=2e-5`; {_usual(model, rate.value)}",
            subject="learning_rate",
            level=level,
            claim=Claim(
                rate.value,
                rate.argument,
                rate.is_default,
                rate.is_default or _is_number(pipeline.code(rate.location)),
            ),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        rate = evidence.peak_learning_rate
        what = "replaces the weights in each step" if _rewritten(evidence) else "makes the loss rise"
        if rate is not None and (_rewritten(evidence) or _diverges(evidence)):
            yield self.finding(
                evidence.optimizer_location,
                f"a learning rate of {rate:g} {what}",
                help="take a rate with which a step changes the weights by about a thousandth",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if rewritten := _rewritten(evidence):
            return rewritten
        overfit, claim = evidence.overfit, finding.claim
        if overfit is None or not overfit.losses:
            return Verdict.inconclusive("no steps on a single batch were measured (use `--also overfit`)")
        if claim is not None and overfit.learning_rate < claim.rate / 2:
            return Verdict.refuted(
                f"the learning rate in use is {overfit.learning_rate:g}", learning_rate=overfit.learning_rate
            )
        return _on_one_batch(evidence)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.is_fixable:
            return None
        title = f"set `{claim.argument}=2e-5`"
        if claim.is_default:
            return fixes.Fix.of(title, fixes.AddArgument(finding.location, claim.argument, "2e-5"), safe=False)
        return fixes.Fix.of(title, fixes.SetArgument(finding.location, claim.argument, "2e-5"), safe=False)


def _is_named_by_its_file(rate: Rate) -> bool:
    """Whether the name of a configuration states the rate, as those of a comparison do: `sft_lr1e-3.yaml`."""
    name = rate.location.path.replace("\\", "/").rpartition("/")[2]
    digits, _, power = f"{rate.value:e}".partition("e-")
    stated = rf"(?<!\d){re.escape(digits.rstrip('0').rstrip('.'))}e-?0?{power.lstrip('0')}(?!\d)|(?<!\d){rate.value:g}"
    return name.endswith(CONFIGURATIONS) and re.search(stated, name, re.IGNORECASE) is not None


CONFIGURATIONS = (".yaml", ".yml", ".json", ".toml")


def _is_number(code: str) -> bool:
    """Whether a rate is a literal number, not a name or an attribute that other code may use too."""
    return NUMBER.fullmatch(code) is not None


REPLACED, MANY_TIMES = 1.0, 10.0
"""Of the norm of a layer's weights: a step that changes them as much leaves nothing of what they were."""


def _rewritten(evidence: Evidence) -> Verdict | None:
    """What the measured steps did to the layers, if they replaced at least half of them; None otherwise."""
    ratios = [update.ratio for update in evidence.step.updates] if evidence.step else []
    replaced = [ratio for ratio in ratios if ratio >= REPLACED]
    # A layer with a weight and a bias may be nothing but the machinery around others, and a first step may be a long
    # one towards what fits: of few layers, all of them have to be lost.
    is_lost = len(ratios) > 1 and min(ratios) >= (REPLACED if _steps_by_its_rate(evidence) else MANY_TIMES)
    if not is_lost and (len(replaced) < 3 or 2 * len(replaced) < len(ratios)):
        return None
    text = f"a step changed {len(replaced)} of {len(ratios)} layers by up to {max(replaced):.2g} times their weights"
    return Verdict.confirmed(text, ratio=round(max(replaced), 3))


def _steps_by_its_rate(evidence: Evidence) -> bool:
    """Whether each step is about as long as a rate that is huge: with Adam no step gets shorter near what fits."""
    step = evidence.step
    return step is not None and step.optimizer in ADAPTIVE and (evidence.peak_learning_rate or 0.0) >= HUGE


def _diverges(evidence: Evidence) -> bool:
    """Whether one batch makes the loss rise at the rate of the run, without a warm-up, and fall at a tenth of it."""
    overfit, schedule = evidence.overfit, evidence.schedule
    uses = evidence.loop.schedules if evidence.loop is not None else ()
    is_warmed_up = schedule is not None and schedule.highest_at > 0
    if overfit is None or not overfit.losses or is_warmed_up or uses or not 0 < overfit.losses[0] < math.inf:
        return False
    first, last = overfit.losses[0], overfit.losses[-1]
    lower = overfit.losses_at_a_tenth[-1] if overfit.losses_at_a_tenth else math.nan
    return not last <= RISES * first and lower < FALLS * first


def _on_one_batch(evidence: Evidence) -> Verdict:
    """The verdict from the loss of one batch, at the learning rate and at a tenth of it."""
    overfit = evidence.overfit
    assert overfit is not None
    first, last = overfit.losses[0], overfit.losses[-1]
    ends = f"from {show_number(first)} to {show_number(last)}"
    change = f"the loss of one batch changes {ends} in {overfit.steps} steps"
    text = f"{change} at a learning rate of {overfit.learning_rate:g}"
    if not first > 0:
        return Verdict.inconclusive(f"{text}; a loss that is not positive cannot be judged", first=first, last=last)
    if last < first * FALLS:
        return Verdict.refuted(text, first=first, last=last)
    if last <= first * FAILS:
        return Verdict.inconclusive(text, first=first, last=last)
    lower = overfit.losses_at_a_tenth[-1] if overfit.losses_at_a_tenth else None
    if lower is not None and lower < first * FALLS:
        return Verdict.confirmed(
            f"{text}, but to {show_number(lower)} at a tenth of it", first=first, last=last, at_a_tenth=lower
        )
    is_constant = overfit.predicted_classes == 1 and (overfit.batch_classes or 0) > 1
    if is_constant and (lower is None or max(overfit.losses) > first * RISES):
        return Verdict.confirmed(f"{text}, and the model predicts one class", first=first, last=last)
    return Verdict.inconclusive(
        text if lower is None else f"{text}, and to {show_number(lower)} at a tenth of it", first=first, last=last
    )


def _rate_of(optimizer: Optimizer) -> Rate | None:
    """The learning rate that an optimizer certainly has for all its parameters."""
    value, location = number_of(optimizer.learning_rate), optimizer.learning_rate_location
    if optimizer.name not in ADAPTIVE or value is None or optimizer.has_groups or optimizer.is_part:
        return None
    if optimizer.origin is None or optimizer.path.startswith("keras"):
        return None
    if location is None:
        return Rate(value, optimizer.origin, "lr", True, optimizer.name)
    is_free = isinstance(optimizer.learning_rate, Constant) and optimizer.learning_rate.may_differ
    return None if is_free else Rate(value, location, "lr", False, optimizer.name)


HUGE_FOR_TRANSFORMERS = 0.02
"""A rate at which no transformer of a Trainer is trained by AdamW, neither whole nor by its usual adapters."""

FEW_WEIGHTS = lazy_pattern(
    r"Prompt(?:Tuning|Encoder)|Prefix|IA3|Vera|VeRA|Fourier|soft_prompt|prompt_tuning|StaticEmbedding"
)
"""Adapters of few weights, and embeddings of words alone, that are trained at such rates."""


def _tunes_transformer(pipeline: Pipeline, run: TrainerRun) -> bool:
    """Whether a script loads a checkpoint, and trains it or usual adapters of it."""
    sources = pipeline.sources.values()
    is_loaded = text_of(run.value("model")) or any(source.contains(r"\.from_pretrained\(") for source in sources)
    return bool(is_loaded) and not any(source.contains(FEW_WEIGHTS) for source in sources)


PARAMETERS = lazy_pattern(r"\.parameters\(\)|\bparameters\b|\bparams\b")
HUGE = 0.5
"""A rate with which no network is trained by steps of this size: weights are about a tenth of it."""


FROM_THE_RATE = frozenset({"StepLR", "MultiStepLR", "CosineAnnealingLR", "ExponentialLR", "ReduceLROnPlateau"})
"""Schedules whose first rate is that of the optimizer; the factors of a `LambdaLR` may be for a rate of 1."""


def _trains_networks(pipeline: Pipeline, optimizer: Optimizer) -> bool:
    """Whether an optimizer trains the weights of networks, at a rate that no schedule sets or multiplies."""
    has_schedule = any(
        optimizer in options_of(each.optimizer) and each.name not in FROM_THE_RATE for each in pipeline.schedulers
    )
    given = optimizer.origin is not None and PARAMETERS.search(pipeline.code(optimizer.origin)) is not None
    steps = any(event.subject is optimizer and event.loops for event in pipeline.acts(Act.STEP))
    return given and steps and bool(optimizer.trains) and not has_schedule


def _steps_once(pipeline: Pipeline, optimizer: Optimizer) -> bool:
    """Whether its only step is outside all loops, as in a demonstration on one batch."""
    steps = [event for event in pipeline.acts(Act.STEP) if event.subject is optimizer]
    return len(steps) == 1 and not steps[0].loops and not steps[0].uncalled


def _rate_in_arguments(run: TrainerRun) -> Rate | None:
    """The learning rate at which a Trainer certainly trains the whole model by AdamW."""
    if not isinstance(run.value("peft_config"), Absent):
        return None
    if "compute_loss" in run.overrides and not _trains_whole_model(run):
        return None
    return rate_in_settings(run)


def _trains_whole_model(run: TrainerRun) -> bool:
    """Whether a custom loss calls the whole model and excludes nothing from training."""
    loss = trainer_methods.own_method(run, "compute_loss")
    parameters = [each.arg for each in loss.node.args.args] if loss is not None else []
    if loss is None or len(parameters) < 3 or any(trainer_methods.reads(loss, name) for name in FREEZES):
        return False
    return trainer_methods.unpacks_into(loss, parameters[1])


def _whole_model(pipeline: Pipeline, trained: tuple[Value, ...]) -> Model | None:
    """The pretrained model whose weights are certainly all trained."""
    models = [part for value in trained for part in modules.modules_in(value) if isinstance(part, Model)]
    if len(models) != 1 or not models[0].is_pretrained or models[0].framework != "torch":
        return None
    model = models[0]
    if model.is_adapted or model.frozen or "quantization_config" in model.arguments:
        return None
    passes = [call.without_grad for call in pipeline.model_calls if call.model is model]
    if passes and all(passes):
        return None  # an optimizer skips weights without gradients
    freezes = pipeline.acts(Act.FREEZE)
    if any(isinstance(event.subject, Unknown) or modules.overlap(event.subject, model) for event in freezes):
        return None
    return model


def _usual(model: Model, rate: float) -> str:
    """What rates a model usually needs."""
    if rate <= SHAKY and FRAGILE.search(f"{text_of(model.checkpoint) or ''} {model.name}"):
        return f"large RoBERTa and DeBERTa models often diverge above {FRAGILE_LIMIT:g}"
    return "pretrained transformers need 1e-5 to 5e-5"


def _level(model: Model, rate: float) -> Level | None:
    """The level of a finding for a rate; None if the rate may be right."""
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
