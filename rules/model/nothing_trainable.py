"""No weight of the model may change, so there is nothing to train.

All weights were frozen, or came frozen with an adapter that was loaded to be used and not to be trained. The loss then
hangs on no weight, and the first backward pass ends the run with an error that speaks of tensors and not of freezing.

## Bad

    for parameter in model.parameters():
        parameter.requires_grad = False  # <- nothing-trainable
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn

An adapter that is only there to be used:

    config = LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"], inference_mode=True)
    model = get_peft_model(model, config)  # <- nothing-trainable
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn

One that was saved before, and is loaded to be used:

    get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin"])).save_pretrained("adapter")
    base = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = PeftModel.from_pretrained(base, "adapter")  # <- nothing-trainable
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn

## Good

    for parameter in model.distilbert.parameters():
        parameter.requires_grad = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The adapter is there to be trained:

    config = LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"])
    model = get_peft_model(model, config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

So is one that was saved before:

    get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin"])).save_pretrained("adapter")
    base = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = PeftModel.from_pretrained(base, "adapter", is_trainable=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A part is freed again, or is put in afterwards:

    for parameter in model.parameters():
        parameter.requires_grad = False
    for parameter in model.classifier.parameters():
        parameter.requires_grad = True
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The head is a new one:

    for parameter in model.parameters():
        parameter.requires_grad = False
    model.classifier = nn.Linear(64, 3)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

It may be a part of a container:

    import torchvision

    network = torchvision.models.vgg16()
    for parameter in network.parameters():
        parameter.requires_grad = False
    network.classifier[6] = nn.Linear(4096, 3)
    optimizer = torch.optim.Adam(network.parameters())
    for images, classes in loader:
        optimizer.zero_grad()
        criterion(network(images), classes).backward()
        optimizer.step()

So is an adapter:

    model.requires_grad_(False)
    model = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"]))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Only some are frozen:

    for name, parameter in model.named_parameters():
        if "classifier" in name:
            continue
        parameter.requires_grad = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Whether they are is for the user to say:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--freeze", action="store_true")
    if parser.parse_args([]).freeze:
        model.requires_grad_(False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A model that nobody trains may be frozen, such as the teacher beside a student:

    teacher = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    teacher.requires_grad_(False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A callback of the script's own may free some:

    class Thaw(TrainerCallback):
        def on_init_end(self, args, state, control, model=None, **kwargs):
            state.thawed = [parameter.requires_grad_(True) for parameter in TO_THAW]

    for parameter in model.parameters():
        parameter.requires_grad = False
    TO_THAW = list(model.classifier.parameters())
    trainer = Trainer(
        model, args, train_dataset=tokenized["train"], data_collator=collator, callbacks=[Thaw()]
    )

## Fix

Safe: without it an adapter is loaded to be used, and nothing trains. Offered for PEFT's own loading.

## References

PEFT documentation, `PeftModel.from_pretrained`; PyTorch documentation, "Locally disabling gradient computation".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import training_loops, tuning
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Model, Module
from lintrain.pipeline.values.python import (
    Constant,
    Library,
    LibraryObject,
    Sequence,
    is_missing,
    is_true,
    literal,
    text_of,
)
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes


class NothingTrainable(Rule):
    level = Level.ERROR
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for training in tuning.trainings(pipeline):
            if (
                tuning.may_adapt(training.run)
                or _is_called_back(training)
                or not tuning.is_left_alone(pipeline, training)
            ):
                continue
            event = _last_word(pipeline, training)
            if event is not None:
                yield self._report(pipeline, training, event)

    def _report(self, pipeline: Pipeline, training: tuning.Training, event: Event) -> Finding:
        how = text_of(event.details.get("how", Constant(None))) or ""
        is_loaded, is_put = how.endswith("from_pretrained"), event.act is Act.ADAPT
        if is_loaded:
            message, cure = "this adapter is loaded frozen, and then trained", "pass `is_trainable=True`"
        elif is_put:
            message, cure = "this adapter is frozen, and then trained", "leave out `inference_mode=True`"
        else:
            message, cure = "every weight is frozen here, and then trained", "free the weights that should learn"
        what = "trained here" if training.run is None else f"`{training.run.name}` trains it"
        return self.finding(
            event.location,
            message,
            related=[Related(training.location, what)],
            help=cure,
            subject="model",
            facts={"is_loaded": is_loaded and training_loops.callee_text(pipeline, event) != ""},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        model = evidence.model
        if model is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        count, every = model.trainable_parameters, model.parameters
        told = f"{count:,} of {every:,} weights may change"
        return Verdict.confirmed(told, trainable=count) if count == 0 else Verdict.refuted(told, trainable=count)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        if not finding.facts.get("is_loaded"):
            return None
        return fixes.Fix.of(
            "pass `is_trainable=True`", fixes.AddArgument(finding.location, "is_trainable", "True"), safe=True
        )


def _last_word(pipeline: Pipeline, training: tuning.Training) -> Event | None:
    """What certainly froze all of a model, with nothing after it that frees or adds any weights."""
    changes = tuning.changes_before(pipeline, training, Act.FREEZE, Act.ADAPT, Act.REPLACE)
    last: Event | None = None
    for event in changes:
        if _freezes_all(event, training.model):
            last = event
        elif not _frees_nothing(event):
            last = None
    return last


def _freezes_all(event: Event, model: Model | Module) -> bool:
    if event.conditions or event.subject is not model:
        return False
    if event.act is Act.ADAPT:
        return _comes_frozen(event)
    details = event.details
    return (
        event.act is Act.FREEZE
        and literal(details["wanted"]) is False
        and not text_of(details["part"])
        and is_true(details["is_all"])
    )


def _comes_frozen(event: Event) -> bool:
    """Whether an adapter is certainly put in without being trained."""
    how, config = text_of(event.details["how"]) or "", event.details["config"]
    if how.startswith("peft.") and how.endswith("from_pretrained"):
        flag = event.details["is_trainable"]
        return is_missing(flag) or literal(flag) is False
    arguments = config.arguments if isinstance(config, LibraryObject) else {}
    return is_true(arguments.get("inference_mode", Constant(None)))


def _frees_nothing(event: Event) -> bool:
    """Whether a change leaves frozen weights frozen: more freezing, or an attribute that is no part."""
    if event.act is Act.FREEZE:
        return literal(event.details["wanted"]) is False
    return event.act is Act.REPLACE and isinstance(event.details["value"], Constant)


def _is_called_back(training: tuning.Training) -> bool:
    """Whether code of the script's own is handed the model by the Trainer, and may free weights."""
    given = training.run.value("callbacks") if training.run is not None else Constant(None)
    items = given.items if isinstance(given, Sequence) and given.is_complete else [given]
    known = (is_missing(each) or (isinstance(each, Library | LibraryObject) and "." in each.path) for each in items)
    return not all(known)
