"""A Trainer receives a model without a head, which returns no loss.

`AutoModel` and classes such as `BertModel` return hidden states: they take no labels and compute no loss. The run ends
with an error in the first batch, after the data was tokenized and the model loaded.

## Bad

    model = AutoModel.from_pretrained("distilbert-base-uncased")  # <- headless-model
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises ValueError: The model did not return a loss from the inputs

## Good

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The script computes the loss itself:

    class MeanTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            inputs.pop("labels")
            output = model(**inputs)
            loss = output.last_hidden_state.square().mean()
            return (loss, output) if return_outputs else loss

    model = AutoModel.from_pretrained("distilbert-base-uncased")
    trainer = MeanTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The model is part of a custom model that has a head:

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = AutoModel.from_pretrained("distilbert-base-uncased")
            self.head = nn.Linear(64, 3)

        def forward(self, input_ids, attention_mask, labels=None):
            states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            logits = self.head(states[:, 0])
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    trainer = Trainer(Classifier(), args, train_dataset=tokenized["train"], data_collator=collator)

The output of a checkpoint with custom code, or of an imported name, is unknown:

    from my_settings import name

    model = AutoModel.from_pretrained(name, trust_remote_code=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: the collator or the labels determine the head. Offered if they imply one task and the number of classes.

## References

Transformers documentation, "Auto Classes"; Hugging Face course, chapter 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import collators, script_text, tuning
from lintrain.pipeline.values.data import Collator, Kind
from lintrain.pipeline.values.model import Model, ModelOutput, Task
from lintrain.pipeline.values.python import is_missing, literal
from lintrain.pipeline.values.training import ModelCall, TrainerRun
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
    one_per_location,
)

LOSS_METHODS = frozenset({"compute_loss", "training_step", "train", "_inner_training_loop"})

FAMILIES = frozenset(
    [
        "albert",
        "bart",
        "bert",
        "camembert",
        "deberta",
        "deberta-v2",
        "distilbert",
        "electra",
        "gpt2",
        "gpt_neo",
        "llama",
        "longformer",
        "mbart",
        "mistral",
        "mt5",
        "gemma",
        "gemma2",
        "opt",
        "phi",
        "phi3",
        "qwen2",
        "qwen3",
        "roberta",
        "t5",
        "vit",
        "wav2vec2",
        "xlm-roberta",
    ]
)
"""Types whose base model certainly returns hidden states and no loss."""

PLAIN_CLASS = lazy_pattern(
    r"(Albert|Bert|Camembert|Deberta(V2)?|DistilBert|Electra|GPT2|Gemma2?|Llama|Longformer|MPNet|Mistral|Qwen[23]|Roberta|"
    r"XLMRoberta|XLNet|ViT)Model"
)
PLAIN_NAME = lazy_pattern(r"(^|/)([\w-]*-)?(distil|al|ro|xlm-ro|de)?bert(a|weet)?-|(^|/)electra-", re.IGNORECASE)
ASKS_FIRST = r"hasattr\(|getattr\("
"""Code that may look whether an output has what it takes from it."""

TEXTS = ("did not return a loss", "unexpected keyword argument 'labels'")


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the class, and the class with a head to use instead; `classes` is the argument to add, if any."""

    made: str = ""
    name: str = ""
    classes: int | None = None


class HeadlessModel(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|Model"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(self._report_call(pipeline, call) for call in pipeline.model_calls)
        for training in tuning.trainings(pipeline):
            model, run = training.model, training.run
            if run is None or not isinstance(model, Model) or not tuning.is_left_alone(pipeline, training):
                continue
            if _has_no_head(pipeline, model) and _needs_loss(run) and model.origin is not None:
                yield self.finding(
                    model.origin,
                    f"`{_name_of_class(model)}` has no head, but `{run.name}` needs a loss from it",
                    related=[Related(run.construction, f"`{run.name}` trains it")],
                    help="use the class for your task, such as `AutoModelForSequenceClassification`",
                    subject="model",
                    claim=_head_for(pipeline, model, run),
                )

    def _report_call(self, pipeline: Pipeline, call: ModelCall) -> Finding[Claim] | None:
        """Code of the script that gives such a model labels, or takes a loss or scores from what it returns."""
        model, output = call.model, call.output
        wanted = [name for name in ("loss", "logits") if isinstance(output, ModelOutput) and name in output.reads]
        if model.origin is None or not (wanted or "labels" in call.arguments) or not _has_no_head(pipeline, model):
            return None
        if script_text.mentions(pipeline, ASKS_FIRST):
            return None
        does = f"its `{wanted[0]}` is used" if wanted else "it gets `labels`"
        return self.finding(
            model.origin,
            f"`{_name_of_class(model)}` has no head, but {does}",
            related=[Related(call.location, "this gives hidden states only", "call")],
            help="use the class for your task, such as `AutoModelForSequenceClassification`",
            subject="model",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        model = evidence.model
        # Its own task is in the name of a class of the library; a class of the script may return what it likes.
        if model is not None and not model.task and model.checkpoint and not model.label_inputs:
            yield self.finding(
                evidence.location_of("model"),
                f"`{model.name}` has no head, but the training needs a loss from it",
                help="use the class for your task, such as `AutoModelForSequenceClassification`",
                subject="model",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(*TEXTS)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: `{failed.failure.message[:80]}`")
        if evidence.forward is None:
            return _takes_no_labels(evidence) or Verdict.inconclusive(evidence.not_reached("forward"))
        return Verdict.refuted(f"the model returns a loss: {evidence.forward.losses[0]:.3f}")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, location = finding.claim, finding.location
        if claim is None or not claim.name:
            return None
        made, name = claim.made, claim.name
        callee = Location(location.path, location.line, location.column, location.line, location.column + len(made))
        imports = [] if "." in made else [fixes.AddImport("transformers", name)]
        module = made.rpartition(".")[0]
        sized = [] if claim.classes is None else [fixes.AddArgument(location, "num_labels", str(claim.classes))]
        named = fixes.Replace(callee, f"{module}.{name}" if module else name)
        return fixes.Fix.of(f"use `{name}`", named, *sized, *imports, safe=False)


def _takes_no_labels(evidence: Evidence) -> Verdict | None:
    """The verdict if the forward pass of a model that takes no labels raised another error."""
    failed, model = evidence.failed_stage, evidence.model
    if failed is None or failed.name != "forward" or failed.failure is None or model is None or model.task:
        return None
    if "labels" in model.inputs or model.label_inputs:
        return None
    error = f"{failed.failure.type}: {failed.failure.message[:80]}"
    return Verdict.confirmed(
        f"none of the {len(model.inputs)} inputs of `{model.name}` takes labels; it raised `{error}`"
    )


def _name_of_class(model: Model) -> str:
    return model.path.rpartition(".")[2] if model.how in {"", "from_pretrained"} else model.name


def _has_no_head(pipeline: Pipeline, model: Model) -> bool:
    """Whether a model certainly returns only hidden states."""
    if model.task is not Task.NO_HEAD or not model.path.startswith("transformers.") or model.framework != "torch":
        return False
    if "trust_remote_code" in model.arguments or not model.is_complete:
        return False
    if model.name != "AutoModel":
        return PLAIN_CLASS.fullmatch(model.name) is not None
    facts, name = tuning.facts_of(pipeline, model), literal(model.checkpoint)
    if facts is not None:
        return facts.model_type in FAMILIES
    return isinstance(name, str) and name[:1] not in "./~" and PLAIN_NAME.search(name) is not None


def _needs_loss(run: TrainerRun) -> bool:
    """Whether a Trainer certainly takes the loss from the model's output."""
    settings = run.settings
    if settings is not None and not is_missing(settings.usual("label_names")):
        return False
    return run.is_plain and not run.overrides & LOSS_METHODS and is_missing(run.value("compute_loss_func"))


def _head_for(pipeline: Pipeline, model: Model, run: TrainerRun) -> Claim:
    """The class with the head for the task that the collator or the labels imply, and the number of classes."""
    if model.origin is None or model.how != "from_pretrained":
        return Claim()
    made = pipeline.code(model.origin).partition(".from_pretrained(")[0]
    short = made.rpartition(".")[2]
    task = _task_of(run)
    is_known = short == "AutoModel" or (short in CLASSIFIERS and task == "ForSequenceClassification")
    if task is None or short != model.name or not is_known:
        return Claim()
    name = f"{short.removesuffix('Model') if short != 'AutoModel' else short}{task}"
    if not task.endswith("Classification") or {"num_labels", "id2label", "config"} & set(model.arguments):
        return Claim(made, name)
    classes = _classes_of(run)
    return Claim(made, name, classes) if classes else Claim()


def _task_of(run: TrainerRun) -> str | None:
    """The suffix of class names for the task; None if several may fit."""
    collator = run.value("data_collator")
    match collator.name if isinstance(collator, Collator) else "":
        case "DataCollatorForLanguageModeling" if isinstance(collator, Collator):
            masks = collators.masks_words(collator)
            return None if masks is None else "ForMaskedLM" if masks else "ForCausalLM"
        case "DataCollatorForSeq2Seq":
            return "ForSeq2SeqLM"
        case "DataCollatorForTokenClassification":
            return "ForTokenClassification"
        case _:
            dataset = run.dataset("train_dataset")
            label = dataset.label if dataset is not None else None
            return (
                "ForSequenceClassification" if label is not None and label.kind in {Kind.CLASS, Kind.INTEGER} else None
            )


def _classes_of(run: TrainerRun) -> int | None:
    dataset = run.dataset("train_dataset")
    label = dataset.label if dataset is not None else None
    return (len(label.class_names) or label.num_classes) if label is not None else None


CLASSIFIERS = frozenset(
    f"{family}Model" for family in ("Albert", "Bert", "Camembert", "DistilBert", "Electra", "Roberta", "XLMRoberta")
)
"""Classes without a head whose family has a sequence classifier under the corresponding name."""
