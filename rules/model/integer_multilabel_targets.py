"""The labels of a multi-label head are integers.

In multi-label classification, each output has a target of its own, which is a float: 0.0 or 1.0. Integers raise an
error in the first batch. Without `problem_type`, the head treats them as class ids, one per output, and the run ends
with an error about batch sizes.

## Bad

    rows = Dataset.from_dict({"text": ["good", "bad"] * 8, "labels": [[1, 0, 1], [0, 1, 0]] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, problem_type="multi_label_classification"
    )
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)  # <- integer-multilabel-targets
    # raises result type Float can't be cast to the desired output type Long

Created in a function, for a head without `problem_type`:

    def encode(row):
        encoded = tokenizer(row["premise"], truncation=True)
        encoded["labels"] = [1 if row["label"] == number else 0 for number in range(3)]
        return encoded

    rows = raw.map(encode, remove_columns=["label"])
    trainer = Trainer(model, args, train_dataset=rows["train"], data_collator=collator)  # <- integer-multilabel-targets
    # raises to match target batch_size

Floats in place of class ids, which `map` converts back to the integers of the column:

    rows = Dataset.from_dict({"text": ["good", "bad"] * 8, "labels": [[0, 2], [1]] * 8})
    rows = rows.map(lambda row: {"labels": [1.0 if number in row["labels"] else 0.0 for number in range(3)]})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, problem_type="multi_label_classification"
    )
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)  # <- integer-multilabel-targets
    # raises result type Float can't be cast to the desired output type Long

## Good

    rows = Dataset.from_dict({"text": ["good", "bad"] * 8, "labels": [[1, 0, 1], [0, 1, 0]] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, problem_type="multi_label_classification"
    )
    rows = rows.cast_column("labels", datasets.Sequence(datasets.Value("float32")))
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)

Created as floats:

    rows = Dataset.from_dict({"text": ["good", "bad"] * 8, "labels": [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, problem_type="multi_label_classification"
    )
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)

Cast after `map`:

    rows = Dataset.from_dict({"text": ["good", "bad"] * 8, "labels": [[0, 2], [1]] * 8})
    rows = rows.map(lambda row: {"labels": [1.0 if number in row["labels"] else 0.0 for number in range(3)]})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, problem_type="multi_label_classification"
    )
    rows = rows.cast_column("labels", datasets.Sequence(datasets.Value("float32")))
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)

## When it is fine

Floats in a column of another name keep their type:

    rows = Dataset.from_dict({"text": ["good", "bad"] * 8, "classes": [[0, 2], [1]] * 8})
    rows = rows.map(lambda row: {"labels": [1.0 if number in row["classes"] else 0.0 for number in range(3)]})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, problem_type="multi_label_classification"
    )
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)

A list of integers is correct if each token has a label:

    words = Dataset.from_dict({"input_ids": [[5, 6, 7]] * 16, "labels": [[0, 1, 2]] * 16})
    model = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=words, data_collator=DataCollatorForTokenClassification(tokenizer))

A custom collator may convert them to floats:

    class FloatCollator(DataCollatorWithPadding):
        def __call__(self, rows):
            batch = super().__call__(rows)
            batch["labels"] = batch["labels"].float()
            return batch

    rows = Dataset.from_dict({"text": ["good", "bad"] * 8, "labels": [[1, 0, 1], [0, 1, 0]] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, problem_type="multi_label_classification"
    )
    trainer = Trainer(model, args, train_dataset=rows, data_collator=FloatCollator(tokenizer))

The labels that an imported function creates are unknown:

    from my_data import to_many_hot

    rows = raw.map(lambda row: {**tokenizer(row["premise"]), "labels": to_many_hot(row["label"])})
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, problem_type="multi_label_classification"
    )
    trainer = Trainer(model, args, train_dataset=rows["train"], data_collator=collator)

## Fix

Safe: with `problem_type="multi_label_classification"`, integers raise an error in the first step. Not offered without
`problem_type`, because one class per row may be intended.

## References

transformers#10232; PyTorch documentation, `torch.nn.BCEWithLogitsLoss`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import run_data
from lintrain.pipeline.values.data import Column, Dataset, Kind
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import is_missing, literal
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes, lazy_pattern

LOSS_METHODS = frozenset({"compute_loss", "training_step"})
INTEGERS = ("int", "uint", "bool")


@dataclass(frozen=True, slots=True)
class Claim:
    """The statements that cast the labels; None if the fix is not certain."""

    statements: str | None


class IntegerMultilabelTargets(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for given in run_data.given_datasets(pipeline):
            run, model = given.run, given.run.model
            if given.parameter != "train_dataset" or model is None or not _has_stock_loss(run, model):
                continue
            integral = [dataset for dataset in given.datasets if _has_integers(dataset.label)]
            is_set = literal(model.problem_type) == "multi_label_classification"
            if is_set and all(_has_one_class(dataset.label) for dataset in given.datasets):
                yield self.finding(
                    given.argument.location,
                    f"the labels of {given.text} are one class per row, but the model expects a list of floats",
                    related=[Related(model.origin, "made for several classes per row")] if model.origin else [],
                    help="leave out `problem_type`, or make the labels lists with a float for each class",
                    subject="labels",
                )
            if integral:
                expected = "floats" if is_set else "one class per row, or floats and a `problem_type`"
                origins = integral[0].origins("the labels are lists of integers")
                yield self.finding(
                    given.argument.location,
                    f"the labels of {given.text} are lists of integers, not floats",
                    related=[
                        *origins,
                        *([Related(model.origin, f"the model expects {expected}")] if model.origin else []),
                        Related(run.construction, f"`{run.name}` trains on them", "trainer"),
                    ],
                    help="convert them to floats in a column of another name, and set `problem_type`",
                    subject="labels",
                    claim=Claim(_casts(run) if is_set else None),
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        batch, model = evidence.batch(), evidence.model
        labels = batch.tensor("labels") if batch is not None else None
        if labels is None or model is None or model.task != "SequenceClassification" or evidence.passed("forward"):
            return
        if len(labels.shape) == 2 and labels.shape[1] == model.num_labels:
            yield self.finding(
                evidence.location,
                "the labels of several classes at once are integers, not floats",
                help="convert them to floats: `[float(value) for value in …]`, and set `problem_type`",
                subject="labels",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        labels = batch.tensor("labels") if batch is not None else None
        if labels is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        text = f"the labels of one batch are {labels.dtype} of shape {list(labels.shape)}"
        if len(labels.shape) == 1 and finding.claim is None and evidence.failed_with("Target size", "size") is not None:
            return Verdict.confirmed(text, dimensions=1)
        if len(labels.shape) == 2 and labels.dtype.removeprefix("torch.").startswith(INTEGERS):
            return Verdict.confirmed(text, dimensions=len(labels.shape))
        return Verdict.refuted(text, dimensions=len(labels.shape))

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        calls = finding.with_role("trainer")
        statements = finding.claim.statements if finding.claim else None
        if not calls or statements is None:
            return None
        return fixes.Fix.of(
            "convert the labels to floats",
            fixes.InsertBefore(calls[0].location, statements),
            fixes.AddImport("datasets"),
            safe=True,
        )


def _has_integers(label: Column | None) -> bool:
    return label is not None and label.kind is Kind.LIST and label.item is Kind.INTEGER


def _has_one_class(label: Column | None) -> bool:
    return label is not None and label.kind in {Kind.CLASS, Kind.INTEGER}


def _has_stock_loss(run: TrainerRun, model: Model) -> bool:
    """Whether a sequence classifier certainly computes its own loss from unchanged labels."""
    is_stock = run.is_plain and not run.overrides & LOSS_METHODS and is_missing(run.value("compute_loss_func"))
    return is_stock and model.task is Task.SEQUENCE_CLASSIFICATION and run_data.collates_plainly(run)


def _casts(run: TrainerRun) -> str | None:
    """Statements that cast the labels of the trainer's data sets; None unless all of them have names."""
    statements: dict[str, None] = {}
    for name in ("train_dataset", "eval_dataset"):
        argument = run.arguments.get(name)
        if argument is None:
            continue
        rows = argument.value
        if not isinstance(rows, Dataset) or rows.label is None or not PLAIN.fullmatch(argument.text):
            return None
        cast = f'cast_column("{rows.label.name}", datasets.Sequence(datasets.Value("float32")))'
        statements[f"{argument.text} = {argument.text}.{cast}"] = None
    return "\n".join(statements) or None


PLAIN = lazy_pattern(r"""[A-Za-z_]\w*(\[["']\w+["']\])?""")
"""A name, or a name with one index."""
