"""All weights of the model are frozen, so there is nothing to train.

All weights were frozen, or an adapter was loaded for inference, which freezes them. The loss then depends on no
trainable weight, and the first backward pass raises an error that mentions tensors, but not freezing.

## Bad

    for parameter in model.parameters():
        parameter.requires_grad = False  # <- nothing-trainable
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn

An adapter for inference:

    config = LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"], inference_mode=True)
    model = get_peft_model(model, config)  # <- nothing-trainable
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn

A saved adapter that is loaded for inference:

    get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin"])).save_pretrained("adapter")
    base = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = PeftModel.from_pretrained(base, "adapter")  # <- nothing-trainable
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn

## Good

    for parameter in model.distilbert.parameters():
        parameter.requires_grad = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The adapter is trainable:

    config = LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"])
    model = get_peft_model(model, config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A saved adapter that is loaded for training:

    get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin"])).save_pretrained("adapter")
    base = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = PeftModel.from_pretrained(base, "adapter", is_trainable=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

One of two modules is frozen:

    encoder, head = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 3)
    for parameter in encoder.parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])
    for x, y in loader:
        optimizer.zero_grad()
        criterion(head(encoder(x)), y).backward()
        optimizer.step()

A part is unfrozen again:

    for parameter in model.parameters():
        parameter.requires_grad = False
    for parameter in model.classifier.parameters():
        parameter.requires_grad = True
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The head is added afterwards:

    for parameter in model.parameters():
        parameter.requires_grad = False
    model.classifier = nn.Linear(64, 3)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The new head may be an entry of a container:

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

An adapter is added afterwards:

    model.requires_grad_(False)
    model = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"]))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Only some weights are frozen:

    for name, parameter in model.named_parameters():
        if "classifier" in name:
            continue
        parameter.requires_grad = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The user decides whether they are frozen:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--freeze", action="store_true")
    if parser.parse_args([]).freeze:
        model.requires_grad_(False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A model that is not trained may be frozen, such as the teacher of a student:

    teacher = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    teacher.requires_grad_(False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A callback of the script may unfreeze some weights:

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

Safe: without it the adapter is loaded for inference, and nothing trains. Offered for PEFT's own loading.

## References

PEFT documentation, `PeftModel.from_pretrained`; PyTorch documentation, "Locally disabling gradient computation".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import training_loops, tuning
from lintrain.pipeline import blocks, modules
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values import python
from lintrain.pipeline.values.model import Model, Module, Optimizer
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes, lazy_pattern


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the adapter is loaded by a call of PEFT that takes `is_trainable`."""

    is_loaded: bool


class NothingTrainable(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|backward|trainable"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for training in (*tuning.trainings(pipeline), *_whole_modules(pipeline)):
            if (
                tuning.may_adapt(training.run)
                or _has_own_callbacks(training)
                or not tuning.is_left_alone(pipeline, training)
            ):
                continue
            event = _last_freeze(pipeline, training)
            if event is not None:
                yield self._report(pipeline, training, event)
        yield from self._of_several(pipeline)
        for run in pipeline.keras_runs:
            if run.frozen is not None and run.fits:
                yield self.finding(
                    run.frozen,
                    "every weight is frozen here, but then trained",
                    related=[Related(run.fits[0][0], "trained here")],
                    help="freeze the pretrained part alone, before `compile`",
                    subject="model",
                    claim=Claim(False),
                )

    def _of_several(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """The optimizers that only get weights of modules which are all frozen."""
        for optimizer, trainings in _several_modules(pipeline):
            events = [_last_freeze(pipeline, each) for each in trainings]
            if optimizer.origin is not None and all(events):
                related = [Related(event.location, "frozen here") for event in events if event is not None]
                yield self.finding(
                    optimizer.origin,
                    "every weight that this optimizer gets is frozen",
                    related=related,
                    help="unfreeze the weights that should train",
                    subject="optimizer",
                    claim=Claim(False),
                )

    def _report(self, pipeline: Pipeline, training: tuning.Training, event: Event) -> Finding[Claim]:
        how = python.text_of(event.details.get("how", python.Constant(None))) or ""
        is_loaded, is_added = how.endswith("from_pretrained"), event.act is Act.ADAPT
        if is_loaded:
            message, advice = "this adapter is loaded frozen, but then trained", "pass `is_trainable=True`"
        elif is_added:
            message, advice = "this adapter is frozen, but then trained", "remove `inference_mode=True`"
        else:
            message, advice = "every weight is frozen here, but then trained", "unfreeze the weights that should train"
        note = "trained here" if training.run is None else f"`{training.run.name}` trains it"
        return self.finding(
            event.location,
            message,
            related=[Related(training.location, note)],
            help=advice,
            subject="model",
            claim=Claim(is_loaded and training_loops.callee_text(pipeline, event) != ""),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if evidence.model is not None and evidence.model.trainable_parameters == 0:
            yield self.finding(
                evidence.location_of("frozen"),
                "no weight of the model is trainable",
                help="leave `requires_grad` of the parts to train at `True`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        model = evidence.model
        if model is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        count, every = model.trainable_parameters, model.parameters
        text = f"{count:,} of {every:,} weights are trainable"
        return Verdict.confirmed(text, trainable=count) if count == 0 else Verdict.refuted(text, trainable=count)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.is_loaded:
            return None
        return fixes.Fix.of(
            "pass `is_trainable=True`", fixes.AddArgument(finding.location, "is_trainable", "True"), safe=True
        )


LIFTS = lazy_pattern(r"unfreeze|[Ff]inetuning|requires_grad_\(\s*(?:True\s*)?\)|requires_grad\s*=\s*True")
"""Code that may make weights trainable again, at any time of a training."""


def _whole_modules(pipeline: Pipeline) -> Iterator[tuning.Training]:
    """The modules of own classes that Lightning trains, or an optimizer that gets all of their weights."""
    if pipeline.source.contains(LIFTS):
        return
    for fit in pipeline.lightning_fits:
        begins = [event.order for event in pipeline.acts(Act.ESCAPE) if event.location == fit.location]
        if isinstance(fit.module, python.Instance):
            yield tuning.Training(fit.module, fit.location, min(begins, default=tuning.LATEST))
    steps = {id(event.subject): event.order for event in reversed(pipeline.acts(Act.STEP))}
    for optimizer in pipeline.optimizers if pipeline.acts(Act.BACKWARD) else ():
        model = optimizer.trains[0] if len(optimizer.trains) == 1 and not optimizer.is_part else None
        if isinstance(model, python.Instance) and id(optimizer) in steps and optimizer.origin is not None:
            yield tuning.Training(model, optimizer.origin, steps[id(optimizer)], None, optimizer)


def _several_modules(pipeline: Pipeline) -> Iterator[tuple[Optimizer, list[tuning.Training]]]:
    """The optimizers of loops that get weights of several modules, or a list of those of one, and of nothing else."""
    if not pipeline.acts(Act.BACKWARD) or not pipeline.acts(Act.FREEZE) or pipeline.source.contains(LIFTS):
        return
    steps = {id(event.subject): event.order for event in reversed(pipeline.acts(Act.STEP))}
    for optimizer in pipeline.optimizers:
        is_whole = len(optimizer.trains) == 1 and not optimizer.is_part
        if is_whole or not optimizer.has_no_others or optimizer.is_extended or id(optimizer) not in steps:
            continue
        location, order = optimizer.origin, steps[id(optimizer)]
        models = [each for each in optimizer.trains if isinstance(each, Model | Module | python.Instance)]
        if location is not None and len(models) == len(optimizer.trains):
            trainings = [tuning.Training(model, location, order, None, optimizer) for model in models]
            if all(tuning.is_left_alone(pipeline, each) for each in trainings):
                yield optimizer, trainings


def _last_freeze(pipeline: Pipeline, training: tuning.Training) -> Event | None:
    """The last event that certainly freezes a model, or all of what it is a part of, and nothing unfreezes it later."""
    changes = tuning.changes_before(pipeline, training, Act.FREEZE, Act.ADAPT, Act.REPLACE)
    last: Event | None = None
    for event in changes:
        if _freezes_all(event, training.model) and (not event.conditions or _is_branch(pipeline, event, training)):
            last = event
        elif not _keeps_frozen(event) and not _is_alternative(pipeline, event, last):
            last = None
    is_lifted = last is not None and any(_may_lift(event, last, training) for event in pipeline.acts(Act.FREEZE))
    return None if is_lifted else last


def _is_branch(pipeline: Pipeline, event: Event, training: tuning.Training) -> bool:
    """Whether an adapter that a branch loads is then trained: no condition of the training keeps it from that."""
    begins = next((each for each in pipeline.acts(Act.TRAIN) if each.order == training.order), None)
    if event.act is not Act.ADAPT or begins is None:
        return False
    met = {(each.location, each.is_else) for each in event.conditions}
    return all((each.location, each.is_else) in met for each in begins.conditions)


def _is_alternative(pipeline: Pipeline, event: Event, loaded: Event | None) -> bool:
    """Whether a change is in a branch that does not run where the adapter was loaded."""
    if loaded is None or not loaded.conditions or loaded.location.path != event.location.path:
        return False
    return blocks.are_exclusive(pipeline.source_of(event.location), loaded.location, event.location)


def _may_lift(event: Event, freeze: Event, training: tuning.Training) -> bool:
    """Whether weights of something unknown, which may be a part of the model, are unfrozen after it was frozen."""
    is_between = freeze.order < event.order < training.order
    return is_between and isinstance(event.subject, python.Unknown) and not _keeps_frozen(event)


def _freezes_all(event: Event, model: python.Value) -> bool:
    # A layer of a model that is not read, `model.features`, counts as made of it, and is a part of it only.
    is_layer = isinstance(event.subject, Module) and not event.subject.path
    is_whole = training_loops.covers(event, model) or _has_no_other_weights(event, model)
    if is_layer or not is_whole:
        return False
    if event.act is Act.ADAPT:
        return event.subject is model and _comes_frozen(event)
    details = event.details
    return (
        event.act is Act.FREEZE
        and python.literal(details["wanted"]) is False
        and not python.text_of(details["part"])
        and python.is_true(details["is_all"])
    )


def _has_no_other_weights(event: Event, model: python.Value) -> bool:
    """Whether all that an own module holds certainly has no weights, but what an event concerns."""
    if not isinstance(model, python.Instance):
        return False
    parts = [each for each in model.attributes.values() if not training_loops.covers(event, each)]
    return len(parts) < len(model.attributes) and all(map(_is_weightless, parts))


def _is_weightless(part: python.Value) -> bool:
    match part:
        case python.Constant() | python.Function():
            return True
        case Module():
            return part.path.startswith("torch.nn.") and not modules.has_parameters(part)
        case python.LibraryObject(path=path):
            return path.startswith("torchmetrics.") or ".loss." in path
        case python.Sequence() | python.Mapping():
            held = part.items if isinstance(part, python.Sequence) else list(part.entries.values())
            return part.is_complete and all(map(_is_weightless, held))
        case _:
            return False


def _comes_frozen(event: Event) -> bool:
    """Whether an adapter is certainly added for inference."""
    how, config = python.text_of(event.details["how"]) or "", event.details["config"]
    if how.startswith("peft.") and how.endswith("from_pretrained"):
        flag = event.details["is_trainable"]
        return python.is_missing(flag) or python.literal(flag) is False
    arguments = config.arguments if isinstance(config, python.LibraryObject) else {}
    return python.is_true(arguments.get("inference_mode", python.Constant(None)))


def _keeps_frozen(event: Event) -> bool:
    """Whether a change leaves frozen weights frozen: more freezing, or an attribute that is not a module."""
    if event.act is Act.FREEZE:
        return python.literal(event.details["wanted"]) is False
    return event.act is Act.REPLACE and _is_weightless(event.details["value"])


def _has_own_callbacks(training: tuning.Training) -> bool:
    """Whether the Trainer passes the model to callbacks of the script, which may unfreeze weights."""
    given = training.run.value("callbacks") if training.run is not None else python.Constant(None)
    items = given.items if isinstance(given, python.Sequence) and given.is_complete else [given]
    known = (
        python.is_missing(each) or (isinstance(each, python.Library | python.LibraryObject) and "." in each.path)
        for each in items
    )
    return not all(known)
