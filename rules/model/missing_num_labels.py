"""The head of a classifier has a different size than the number of classes.

Without `num_labels`, a head has two outputs. A label out of range ends the run in the first batch that contains it: on
the CPU with `Target 2 is out of bounds`, on a GPU with a CUDA assertion that points to another line.

A model of rewards has one output: `RewardTrainer` refuses any other number, and older versions trained on all columns.

## Bad

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased")  # <- missing-num-labels
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises IndexError: Target 2 is out of bounds

## Good

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The number may come from the data:

    classes = raw["train"].features["label"].names
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=len(classes))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Labels of two classes need no number:

    pairs = load_dataset("glue", "mrpc").map(lambda rows: tokenizer(rows["sentence1"], rows["sentence2"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased")
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)

The targets of the loss may have fewer classes than the labels that they are made of:

    classifier = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), (y == 0).long()).backward()
        optimizer.step()

## Fix

Asks first: the labels in the script are likely, but not certainly, all labels.

## References

Hugging Face course, chapter 8, "Debugging the training pipeline"; transformers#1848, transformers#10449, pytorch#1204.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.pipeline.events import Act
from lintrain.pipeline.values.data import Column, Dataset, DatasetDict
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import Absent, Constant, Mapping, Sequence, literal, text_of
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
    one_per_location,
)

if TYPE_CHECKING:
    from lintrain.evidence.run import ColumnEvidence, LossEvidence

CLASSIFIERS = {
    Task.SEQUENCE_CLASSIFICATION,
    Task.TOKEN_CLASSIFICATION,
    Task.IMAGE_CLASSIFICATION,
    Task.AUDIO_CLASSIFICATION,
}
NAME_LISTS = lazy_pattern(
    r"^(id2label|label2id|id_to_label|label_to_id|(label|class)_?(names|list)|classes)$", re.IGNORECASE
)
"""Common names for the list of labels."""

LEAVES_SOME_OUT = frozenset({"select", "take", "skip", "filter", "shard"})
"""Operations after which no row of some class may be left."""

DEFAULT_SIZE = 2
IGNORED = -100
BY_CHANCE = 0.01
"""Batches that lack the higher classes less often than this do not hold the labels themselves."""


@dataclass(frozen=True, slots=True)
class Classes:
    """The number of classes and the locations that show it; `code` gives the number in the script.

    `is_least` if there may be more.
    """

    count: int
    reasons: tuple[Related, ...]
    code: str
    is_least: bool = False


OUT_OF_BOUNDS = ("IndexError: Target ", "Received a label value of ")
"""Error messages of cross-entropy in PyTorch and TensorFlow, on a CPU, for a label without an output."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The size of the head and the number of classes; `code` gives that number in the script, empty without a fix."""

    num_labels: int
    classes: int
    code: str = ""
    is_default: bool = False


class MissingNumLabels(Rule[Claim]):
    level = Level.ERROR
    keywords = "Classification"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(map(self._of_rewards, pipeline.runs))
        for model in pipeline.models:
            if model.task in CLASSIFIERS and model.origin is not None and not _is_other_problem(model):
                contradictions = list(self._contradicted(model, model.origin))
                yield from contradictions
                classes = _classes_of(pipeline, model)
                if classes is not None and not contradictions:
                    yield from self._mismatched(model, model.origin, classes)

    def _of_rewards(self, run: TrainerRun) -> Finding[Claim] | None:
        """A model of rewards has one output."""
        model = run.model
        if run.path != "trl.RewardTrainer" or model is None or model.origin is None or _is_other_problem(model):
            return None
        size, is_default = _size(model), isinstance(model.num_labels, Absent)
        is_changed = bool(model.attributes.keys() - {"config"})
        if model.task is not Task.SEQUENCE_CLASSIFICATION or size is None or size < DEFAULT_SIZE or is_changed:
            return None
        has = f"has {size} outputs by default" if is_default else f"has {size} outputs"
        return self.finding(
            model.origin if is_default else model.argument_locations.get("num_labels", model.origin),
            f"the head {has}, but a reward is one number",
            related=[Related(run.construction, "compares one number for each text", "trainer")],
            help="pass `num_labels=1`",
            subject="model",
            claim=Claim(size, 1, "1", is_default),
        )

    def _contradicted(self, model: Model, origin: Location) -> Iterator[Finding[Claim]]:
        """`num_labels` and `id2label` of one call that differ."""
        size, names = literal(model.arguments.get("num_labels", Absent())), model.arguments.get("id2label")
        if not isinstance(size, int) or not isinstance(names, Mapping) or not names.is_complete:
            return
        if len(names.entries) != size:
            yield self.finding(
                model.argument_locations.get("num_labels", origin),
                f"`num_labels` is {size}, but `id2label` has {len(names.entries)} names",
                related=[Related(names.origin, f"{len(names.entries)} names", "names")] if names.origin else [],
                help="drop `num_labels`: `id2label` sets it",
                claim=Claim(size, len(names.entries)),
            )

    def _mismatched(self, model: Model, origin: Location, classes: Classes) -> Iterator[Finding[Claim]]:
        size = _size(model)
        if size is None or size == classes.count or (size == 1 and not isinstance(model.num_labels, Absent)):
            return
        if classes.is_least and size > classes.count:
            return
        is_default = isinstance(model.num_labels, Absent)
        has = f"has {size} outputs by default" if is_default else f"has {size} outputs"
        yield self.finding(
            origin if is_default else model.argument_locations.get("num_labels", origin),
            f"the head {has}, but the labels have {classes.count} classes",
            related=classes.reasons,
            help=f"pass `num_labels={classes.code}`",
            subject="model",
            level=Level.ERROR if size < classes.count else Level.WARNING,
            claim=Claim(size, classes.count, classes.code, is_default),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        size = _outputs(evidence)
        labels = [split.labels for split in evidence.splits if split.labels is not None]
        if size is None or not labels:
            stage = evidence.stage("dataset")
            if stage is not None and stage.status == "not reached":
                return Verdict.inconclusive(evidence.not_reached("dataset"))
            return Verdict.inconclusive("no labels of a classifier were measured")
        values = {value for column in labels for value, _ in column.counts if value != IGNORED}
        ends = {end for column in labels for end in (column.minimum, column.maximum) if end is not None}
        values |= {int(end) for end in ends if not values and end != IGNORED}
        if not values:
            return Verdict.inconclusive("the label column contains no numbers")
        rows = sum(column.rows_read for column in labels)
        low, high = min(values), max(values)
        if low < 0 or high >= size:
            named = _named_row(evidence, low if low < 0 else high)
            return Verdict.confirmed(
                f"labels run from {low} to {high} in {rows} rows{named}, the head has {size} outputs", high=high
            )
        if high < size - 1 and finding.level is not Level.ERROR:
            return Verdict.confirmed(f"no label of {rows} rows is above {high}, the head has {size} outputs", high=high)
        return Verdict.refuted(f"labels run from {low} to {high} in {rows} rows, within {size} outputs", high=high)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        loss = _loss_over_classes(evidence)
        is_own = evidence.model is None or not evidence.model.classifies
        if not _is_beyond(evidence) or (is_own and loss is None):
            return
        advice = "pass `num_labels=` with the number of classes when loading the model, and number labels from 0"
        of_layer = "give the last layer an output for each class, and number labels from 0"
        finding = self.finding(
            (loss.location if is_own and loss is not None else None) or evidence.location_of("model"),
            f"the head has {_outputs(evidence)} outputs, but a label is out of range",
            help=of_layer if is_own else advice,
            subject="model",
        )
        yield from self.if_confirmed(finding, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.code:
            return None
        code = claim.code
        if not claim.is_default:
            return fixes.Fix.of(f"write `{code}`", fixes.Replace(finding.location, code), safe=False)
        return fixes.Fix.of(
            f"pass `num_labels={code}`", fixes.AddArgument(finding.location, "num_labels", code), safe=False
        )


def _named_row(evidence: Evidence, label: int) -> str:
    """Where such a label is: ` (7 first in row 5555 of train_dataset)`; "" where rows have no numbers."""
    for split in evidence.splits:
        column = split.labels
        is_numbered = split.sweep is None or split.sweep.numbered
        ends = ((column.minimum, column.lowest_row), (column.maximum, column.highest_row)) if column else ()
        for end, row in ends:
            if end == label and row is not None and is_numbered:
                return f" ({label} first in row {row} of {split.argument})"
    return ""


def _is_other_problem(model: Model) -> bool:
    """Whether it is regression, multi-label, or a head that the script sizes in another way."""
    names = {"num_labels", "id2label", "label2id"}
    config = model.config
    changed = config is not None and bool(names & set(config.attributes)) and isinstance(model.num_labels, Absent)
    return changed or not isinstance(model.problem_type, Absent)


def _size(model: Model) -> int | None:
    """The number of outputs of a model's head; None if it is not certain."""
    if isinstance(model.num_labels, Absent):
        return model.labels_by_default if model.is_complete else None
    size = literal(model.num_labels)
    return size if isinstance(size, int) and not isinstance(size, bool) else None


def _runs_by_model(pipeline: Pipeline, _: Pipeline) -> dict[int, list[TrainerRun]]:
    """The runs of each model, by its identity."""
    found: dict[int, list[TrainerRun]] = {}
    for run in pipeline.runs:
        found.setdefault(id(run.model), []).append(run)
    return found


def _classes_of(pipeline: Pipeline, model: Model) -> Classes | None:
    """The classes of the labels that a model is trained on: those of its data set, else of a list of names."""
    runs = pipeline.cached(_runs_by_model, pipeline).get(id(model), [])
    given = [pipeline.rows_of(run.collated_rows) for run in runs]
    datasets = [dataset for dataset in given if dataset is not None] if runs else _only_data(pipeline)
    known = [classes for dataset in datasets if (classes := _classes_in(dataset)) is not None]
    if known and len(known) == len(datasets) and len({classes.count for classes in known}) == 1:
        return known[0]
    if any(dataset.label is not None and dataset.label.num_classes for dataset in datasets):
        return None
    if not isinstance(model.num_labels, Absent) or len(pipeline.models) != 1 or model.origin is None:
        return None
    return _listed(pipeline, model.origin)


def _only_data(pipeline: Pipeline) -> list[Dataset]:
    """The data of a script with its own training loop: all of it, if there is one model."""
    trains = pipeline.loaders or pipeline.keras_runs or pipeline.acts(Act.BACKWARD, Act.TRAIN)
    if len(pipeline.models) != 1 or pipeline.runs or not (trains or pipeline.models[0].framework == "tf"):
        return []
    every = [part for each in pipeline.datasets for part in (each.every() if isinstance(each, DatasetDict) else [each])]
    own = [rows for loader in pipeline.loaders if (rows := pipeline.rows_of(loader.collated_rows)) is not None]
    return [dataset for dataset in dict.fromkeys([*every, *own]) if dataset.label is not None]


def _classes_in(dataset: Dataset) -> Classes | None:
    """The classes of a data set's label column, if they are still known."""
    label: Column | None = dataset.label
    count = (len(label.class_names) or label.num_classes or label.shown_classes) if label else None
    if label is None or not count:
        return None
    is_least = not label.class_names and not label.num_classes
    if is_least and LEAVES_SOME_OUT & set(dataset.operations):
        return None
    names = f" ({', '.join(label.class_names[:4])}{', …' if count > 4 else ''})" if label.class_names else ""
    note = f"`{label.name}` has {count} classes{names}"
    return Classes(count, dataset.origins(note), str(count), is_least)


def _listed(pipeline: Pipeline, origin: Location) -> Classes | None:
    """The classes that a list or dictionary of label names in the script has, if there is one such number."""
    found: dict[int, Classes] = {}
    for binding in pipeline.bindings:
        value = binding.value
        if not NAME_LISTS.match(binding.name) or not isinstance(value, Mapping | Sequence) or not value.is_complete:
            continue
        names = [Constant(key) for key in value.entries] if isinstance(value, Mapping) else value.items
        texts = {text_of(name) or literal(name) for name in names}
        if len(texts) == len(names) and None not in texts and len(names) > DEFAULT_SIZE:
            reason = Related(binding.location, f"{len(names)} labels are listed here", "names", binding.name)
            code = f"len({binding.name})" if binding.location < origin else str(len(names))
            found.setdefault(len(names), Classes(len(names), (reason,), code))
    return next(iter(found.values())) if len(found) == 1 else None


def _loss_over_classes(evidence: Evidence) -> LossEvidence | None:
    """The loss of a loop that compares a row of scores with one class; None for any other."""
    losses = evidence.loop.losses_of("cross_entropy", "nll_loss") if evidence.loop is not None else ()
    whole = (loss for loss in losses if len(loss.input_shape) == 2 and loss.target_shape == loss.input_shape[:1])
    return next((loss for loss in whole if loss.target_dtype == "int64"), None)


def _outputs(evidence: Evidence) -> int | None:
    """How many classes the head tells apart: by the configuration of a classifier, else by the scores in the loss."""
    if evidence.model is not None and (evidence.model.classifies or evidence.loop is None):
        return evidence.model.num_labels
    loss = _loss_over_classes(evidence)
    return loss.input_shape[1] if loss is not None else None


def _are_others(loss: LossEvidence, column: ColumnEvidence) -> bool:
    """Whether the targets of a loss are made of the labels (`y == 0`): they lack classes that are frequent in these."""
    highest = loss.target_maximum
    rows = sum(count for _, count in column.counts)
    if highest is None or not rows:
        return False
    share = sum(count for value, count in column.counts if value <= highest) / rows
    return share ** loss.target_shape[0] < BY_CHANCE


def _is_beyond(evidence: Evidence) -> bool:
    """Whether a label is beyond the head, seen in an error or in the rows: the batch with it may come much later."""
    size = _outputs(evidence)
    columns = [split.labels for split in evidence.splits if split.labels is not None]
    loss = _loss_over_classes(evidence)
    columns = [column for column in columns if loss is None or not _are_others(loss, column)]
    highest = [column.maximum for column in columns if column.maximum is not None]
    # One output is for a number, not for classes.
    is_seen = size is not None and size > 1 and any(high >= size for high in highest)
    return is_seen or evidence.failed_with(*OUT_OF_BOUNDS) is not None
