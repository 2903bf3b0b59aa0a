"""A subset contains only the first rows of a data set that is sorted by class.

In some data sets, all rows of one class come before those of the next. Their first rows belong to one class or to few:
the model learns to predict always the same class, the loss goes to 0 and the accuracy to 1, without an error.

## Bad

    reviews = load_dataset("imdb", split="train")
    few = reviews.select(range(100))  # <- sorted-subset
    few = few.map(lambda batch: tokenizer(batch["text"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=few, processing_class=tokenizer)

A slice of the split has the same effect:

    few = load_dataset("imdb", split="train[:100]")  # <- sorted-subset
    few = few.map(lambda batch: tokenizer(batch["text"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=few, processing_class=tokenizer)

Shuffling the subset afterwards does not add the other class:

    imdb = load_dataset("imdb")
    imdb = imdb.map(lambda batch: tokenizer(batch["text"], truncation=True), batched=True)
    few = imdb["train"].take(120).shuffle(seed=42)  # <- sorted-subset
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=few, processing_class=tokenizer)

## Good

    reviews = load_dataset("imdb", split="train")
    few = reviews.shuffle(seed=42).select(range(100))
    few = few.map(lambda batch: tokenizer(batch["text"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=few, processing_class=tokenizer)

and

    few = load_dataset("imdb", split="train[:10%]+train[-10%:]")
    few = few.map(lambda batch: tokenizer(batch["text"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=few, processing_class=tokenizer)

and

    imdb = load_dataset("imdb")
    imdb = imdb.map(lambda batch: tokenizer(batch["text"], truncation=True), batched=True)
    few = imdb["train"].shuffle(seed=42).take(120).shuffle(seed=42)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=few, processing_class=tokenizer)

## When it is fine

A data set that is not sorted:

    few = tokenized["train"].select(range(100))
    trainer = Trainer(model, args, train_dataset=few, processing_class=tokenizer)

A language model does not use the classes:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    films = load_dataset("imdb", split="train[:50]")
    films = films.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True)
    films = films.remove_columns(["text", "label"])
    lm_collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=films, data_collator=lm_collator)

A quick test of the code that a flag enables:

    debug = bool(os.environ.get("DEBUG"))
    films = load_dataset("imdb", split="train").map(lambda batch: tokenizer(batch["text"], truncation=True))
    if debug:
        films = films.select(range(20))
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=films, processing_class=tokenizer)

## Fix

Safe: a subset of rows that are sorted by class lacks some of the classes, which no correct run needs.

## References

Card of `stanfordnlp/imdb`; datasets documentation, "Process": shuffle and select.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import class_order, expressions, loaders
from lintrain.pipeline import dataset_rows
from lintrain.pipeline.values.columns import Cut
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import Value, options_of
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

if TYPE_CHECKING:
    from lintrain.evidence.run import SplitEvidence

JOINS = frozenset({"concatenate_datasets", "interleave_datasets"})
CLASSIFIERS = frozenset({Task.SEQUENCE_CLASSIFICATION, Task.IMAGE_CLASSIFICATION})


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the subset with a shuffle before it; None without a fix."""

    code: str | None = None


FEW = 8
"""Fewer rows of one class may be a test of the code, or chance."""


class SortedSubset(Rule[Claim]):
    level = Level.WARNING
    keywords = "Trainer|DataLoader|validation_split"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for found in class_order.last_classes(pipeline.source):
            yield self.finding(
                found.location,
                "this holds out the last rows, and the rows are in the order of their classes",
                related=[Related(found.loop, "read class by class", "origin")],
                why="the last class is missing in the training, and it is alone in the validation",
                help="shuffle rows and labels with one permutation before `fit`",
                claim=Claim(),
            )
        if not _only_classifies(pipeline):
            return
        used = list(_used(pipeline))
        for dataset in pipeline.datasets:
            if isinstance(dataset, Dataset) and _lacks_a_class(dataset) and dataset.depth == _depth_above(dataset):
                is_used = any(_is_only_source(dataset, made) for made in used)
                if is_used and not loaders.is_deliberate(pipeline, dataset.steps[-1].location):
                    yield self._report(dataset)

    def _report(self, dataset: Dataset) -> Finding[Claim]:
        step, cut = dataset.steps[-1], dataset.cut or Cut()
        unit = "%" if cut.is_percent else f" of {cut.of} rows"
        rows = f"the first {cut.stop}{unit}" if not cut.first else f"rows {cut.first} to {cut.stop or 'the end'}{unit}"
        name = f"`{dataset.hub_name}`" if dataset.hub_name else "a data set"
        first = dataset.steps[0]
        note = "loaded here, sorted by class"
        return self.finding(
            step.location,
            f"this takes {rows} of {name}, which is sorted by `{dataset.sorted_by}`",
            related=[Related(first.location, note, "origin", first.text)] if first != step else [],
            why="the rows of each class are contiguous, so the subset lacks at least one class",
            help="shuffle before taking the subset: `.shuffle(seed=42)`",
            claim=Claim(_shuffled(step.text) if step.operation in {"select", "take"} else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        model = evidence.model
        if model is None or not model.classifies or (model.num_labels or 0) < 2:
            return
        for split in evidence.splits:
            # Rows may be filtered by their class on purpose: only a range that was taken is a subset by chance.
            if _is_of_one_class(split) and split.argument in evidence.locations and split.key is None:
                yield self.finding(
                    evidence.locations[split.argument],
                    f"all {split.rows} rows of `{split.argument}` are of one class",
                    help="shuffle the rows before taking some of them",
                    subject=split.argument,
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        named = evidence.split(finding.subject or "")
        for split in (named,) if named is not None else evidence.splits:
            labels = split.labels
            if labels is None or not labels.counts:
                continue
            counted, names = len(labels.counts), max(2, len(labels.names))
            text = f"the {split.rows} rows of {split.argument} have {counted} of {names} classes"
            if counted < names:
                return Verdict.confirmed(text, classes=counted)
            return Verdict.refuted(text, classes=counted)
        return Verdict.inconclusive(evidence.not_reached("dataset"))

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.code is None:
            return None
        edit = fixes.Replace(finding.location, claim.code)
        return fixes.Fix.of("shuffle before taking the subset", edit, safe=True)


def _only_classifies(pipeline: Pipeline) -> bool:
    """Whether the script has models, and all of them classify whole rows."""
    tasks = {model.task for model in pipeline.models}
    return bool(tasks) and tasks <= CLASSIFIERS


def _used(pipeline: Pipeline) -> Iterator[Dataset]:
    """The data sets that runs and loaders read."""
    values: list[Value] = [run.value(name) for run in pipeline.runs for name in ("train_dataset", "eval_dataset")]
    values += [loader.dataset for loader in pipeline.loaders]
    for value in values:
        yield from (option for option in options_of(value) if isinstance(option, Dataset))


def _is_only_source(dataset: Dataset, made: Dataset) -> bool:
    """Whether a data set was derived from another one without joining other rows."""
    for each in made.lineage:
        if each is dataset:
            return True
        if each.steps and each.steps[-1].operation in JOINS:
            return False
    return False


def _lacks_a_class(dataset: Dataset) -> bool:
    """Whether a range of rows is too short to contain all classes of a data set that is sorted by them."""
    column = (dataset.columns or {}).get(dataset.sorted_by or "")
    share = dataset.cut.share() if dataset.cut and not dataset.cut.may_differ else None
    if (
        share is None
        or column is None
        or not column.num_classes
        or not dataset_rows.is_in_order(dataset)
        or dataset.may_differ
    ):
        return False
    if any(each.cut is not None for each in dataset.lineage[1:]):
        return False
    first, stop = share
    return stop <= 1 - 1 / column.num_classes or first >= 1 / column.num_classes


def _depth_above(dataset: Dataset) -> int:
    """The number of conditions around the source of a subset: under one more, the subset is only sometimes taken."""
    parent = dataset.parent
    return parent.depth if isinstance(parent, Dataset) else dataset.depth


def _shuffled(code: str) -> str | None:
    """The code of a subset with a shuffle before it."""
    try:
        taken_from = expressions.parsed(code).called_on
    except SyntaxError:
        return None
    above = taken_from.written_code if taken_from else ""
    return f"{above}.shuffle(seed=42){code[len(above) :]}" if above and code.startswith(above) else None


def _is_of_one_class(split: SplitEvidence) -> bool:
    """Whether a data set of several classes has rows of one: of many, a script may keep some on purpose."""
    labels = split.labels
    if labels is None or labels.kind != "class label" or len(labels.names) < 2:
        return False
    return len(labels.counts) == 1 and (split.rows or 0) >= FEW
