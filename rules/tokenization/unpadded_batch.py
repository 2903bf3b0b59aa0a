"""Rows of different length are put into one batch without padding.

A tokenizer pads only with `padding=True`, and the default collators of Trainer and DataLoader only stack rows. The
first batch whose rows differ in length raises an error.

## Bad

    tokenized = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"])  # <- unpadded-batch
    # raises ValueError: expected sequence of length

A custom collator that stacks rows:

    def collate(rows):
        ids = torch.tensor([row["input_ids"] for row in rows])  # <- unpadded-batch
        return {"input_ids": ids, "labels": torch.tensor([row["label"] for row in rows])}

    tokenized = raw.map(tokenize, batched=True)
    args = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collate)
    trainer.train()
    # raises ValueError: expected sequence of length

## Good

    tokenized = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=DataCollatorWithPadding(tokenizer))

## When it is fine

Trainer pads if it gets the tokenizer:

    trainer = Trainer(model, args, train_dataset=tokenized["train"], processing_class=tokenizer)

All rows have the same length:

    def tokenize_to_length(batch):
        return tokenizer(batch["premise"], truncation=True, padding="max_length", max_length=32)

    tokenized = raw.map(tokenize_to_length, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"])

A custom collator pads the rows:

    def collate(rows):
        longest = max(len(row["input_ids"]) for row in rows)
        ids = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor([row["label"] for row in rows])}

    tokenized = raw.map(tokenize, batched=True)
    args = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collate)

A batch of one row needs no padding:

    args = TrainingArguments("out", per_device_train_batch_size=1)
    trainer = Trainer(model, args, train_dataset=tokenized["train"])

## Fix

Safe for sequence classification, where rows of different length raise an error. Asks first for other tasks, which may
need another collator.

## References

transformers#15183; Hugging Face course, chapter 3 "Dynamic padding".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import collators, loaders, run_data
from lintrain.pipeline.values.data import Collator, ColumnValues, Dataset, Rows
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import Function, Instance, Value, is_missing, literal
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
from lintrain.source.nodes import unparse

COLLATORS = {
    Task.SEQUENCE_CLASSIFICATION: "DataCollatorWithPadding({})",
    Task.TOKEN_CLASSIFICATION: "DataCollatorForTokenClassification({})",
    Task.CAUSAL_LM: "DataCollatorForLanguageModeling({}, mlm=False)",
}

COLLATE_METHODS = ("collate_fn", "collate", "collater", "collate_batch")
"""Names of methods of a data set that make a batch of its rows."""

RAGGED_ERRORS = (
    "expected sequence of length",
    "stack expects each tensor to be equal size",
    "each element in list of batch should be of equal size",
    "Unable to create tensor",
)
"""Error messages for rows of different length."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The argument to pass and its code, None without a fix; `is_safe` if the fix is safe."""

    argument: str | None = None
    code: str | None = None
    is_safe: bool = False


class UnpaddedBatch(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|DataLoader|stack|tensor"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.runs:
            if run.path in run_data.PLAIN_TRAINERS and not run.overrides & run_data.OWN_LOADING:
                yield from self._check_trainer(pipeline, run)
        for loader in pipeline.loaders:
            reasons = collators.ragged_at(pipeline, loader.dataset)
            if loader.origin and reasons and _stacks_rows(loader):
                yield self._report_loader(pipeline, loader, reasons, loader.origin)
            elif loader.origin and (method := _own_collate(loader)) and _stacks_rows(loader):
                yield self._report_own(pipeline, loader, method, loader.origin)
            elif loader.origin and _stacks_rows(loader) and (other := _collated_alike(pipeline, loader)) is not None:
                yield self._report_other(pipeline, loader, other, loader.origin)
            elif loader.origin and (name := _text_column(loader)):
                yield self.finding(
                    loader.origin,
                    f"`{name}` holds texts, of which the collator cannot make a tensor",
                    related=run_data.origin_of(loader.dataset) if isinstance(loader.dataset, Dataset) else [],
                    help=f'remove the columns of texts: `remove_columns(["{name}"])`',
                )
        found: dict[Location, Finding[Claim]] = {}
        for misuse in pipeline.misuses:
            rows = misuse.value.dataset if misuse.use == "collate" and isinstance(misuse.value, ColumnValues) else None
            reasons = collators.ragged_at(pipeline, rows.dataset) if isinstance(rows, Rows) else ()
            if reasons and not loaders.expects_error(pipeline, misuse.location):
                found.setdefault(misuse.location, self._report_collate(misuse.location, reasons))
        yield from found.values()

    def _report_collate(self, location: Location, reasons: tuple[Related, ...]) -> Finding[Claim]:
        return self.finding(
            location,
            "rows of different length are put into one tensor without padding",
            related=reasons,
            help='pad the rows first: `tokenizer.pad(rows, return_tensors="pt")`',
        )

    def _check_trainer(self, pipeline: Pipeline, run: TrainerRun) -> Iterator[Finding[Claim]]:
        for parameter in ("train_dataset", "eval_dataset"):
            given = run.value(parameter)
            reasons = collators.ragged_at(pipeline, given) or collators.ragged_copy_at(pipeline, given)
            if reasons and _stacks(run, parameter):
                yield self._report_trainer(pipeline, run, parameter, reasons)
                return

    def _report_trainer(
        self, pipeline: Pipeline, run: TrainerRun, parameter: str, reasons: tuple[Related, ...]
    ) -> Finding[Claim]:
        task = run.model.task if run.model else None
        collator = COLLATORS.get(task, "") if task else ""
        return self.finding(
            run.construction,
            f"rows of {_given_text(pipeline, run, parameter)} differ in length and are not padded",
            related=reasons,
            help="pass `data_collator=DataCollatorWithPadding(tokenizer)` or `processing_class=tokenizer`",
            subject=parameter,
            claim=_claim(
                pipeline, run.construction, "data_collator", collator, is_safe=task is Task.SEQUENCE_CLASSIFICATION
            ),
        )

    def _report_loader(
        self, pipeline: Pipeline, loader: Loader, reasons: tuple[Related, ...], location: Location
    ) -> Finding[Claim]:
        dataset = loader.dataset
        text = pipeline.code(loader.dataset_location) if loader.dataset_location else ""
        only_numbers = (
            is_missing(loader.collate)
            and isinstance(dataset, Dataset)
            and dataset.is_complete
            and not dataset.text_columns
        )
        return self.finding(
            location,
            f"rows of {_shown(text)} differ in length and are not padded",
            related=reasons,
            help="pass `collate_fn=DataCollatorWithPadding(tokenizer)`",
            claim=_claim(pipeline, location, "collate_fn", "DataCollatorWithPadding({})" if only_numbers else ""),
        )

    def _report_own(self, pipeline: Pipeline, loader: Loader, method: Function, location: Location) -> Finding[Claim]:
        code = pipeline.code(loader.dataset_location) if loader.dataset_location else ""
        made = [Related(method.origin, "creates the batches of these rows", "collate")] if method.origin else []
        return self.finding(
            location,
            f"the loader does not use the `{method.name}` of its data set",
            related=made,
            why="Rows that need a collate function of their own do not fit into one tensor without it.",
            help=f"pass `collate_fn={code if code.isidentifier() else 'dataset'}.{method.name}`",
            level=Level.WARNING,
            claim=Claim("collate_fn", f"{code}.{method.name}") if code.isidentifier() else Claim(),
        )

    def _report_other(self, pipeline: Pipeline, loader: Loader, other: Loader, location: Location) -> Finding[Claim]:
        code = pipeline.code(other.locations["collate_fn"])
        name = _class_of(loader)
        return self.finding(
            location,
            f"other rows of `{name}` are collated by `{code}`, and these are not",
            related=[Related(other.origin, "passes a collate function", "other")] if other.origin else [],
            why="Rows that need a collate function of their own do not fit into one tensor without it.",
            help=f"pass `collate_fn={code}`",
            level=Level.WARNING,
            claim=Claim("collate_fn", code),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        parameter = finding.subject or "train_dataset"
        split, batch = evidence.split(parameter), evidence.batch(parameter)
        tokens = split.column("input_ids") if split else None
        if split is not None and split.columns and tokens is None:
            return Verdict.inconclusive(f"none of the {len(split.columns)} columns of `{parameter}` is `input_ids`")
        shortest, longest = (tokens.lengths[0], tokens.lengths[-1]) if tokens and tokens.lengths else (0, 0)
        stage = evidence.stage("batch")
        if (
            stage is not None
            and stage.failure is not None
            and stage.failure.contains(*RAGGED_ERRORS)
            and longest > shortest
        ):
            return Verdict.confirmed(
                f"rows of {shortest} to {longest} tokens cannot be stacked: {stage.failure.type}",
                shortest=shortest,
                longest=longest,
            )
        if batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        if longest and shortest == longest:
            return Verdict.inconclusive(f"all measured rows have {longest} tokens")
        return Verdict.refuted(
            f"{batch.rows} rows of {shortest} to {longest} tokens were collated into one batch", rows=batch.rows
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.argument is None or claim.code is None:
            return None
        library = claim.code.partition("(")[0]
        edits = [fixes.AddImport("transformers", library)] if library != claim.code else []
        return fixes.Fix.of(
            f"pass `{claim.argument}={claim.code}`",
            fixes.AddArgument(finding.location, claim.argument, claim.code),
            *edits,
            safe=claim.is_safe,
        )


def _given_text(pipeline: Pipeline, run: TrainerRun, parameter: str) -> str:
    """The code of the rows: of the argument, or of the tokenized copy of it."""
    argument = run.arguments.get(parameter)
    if argument is None:
        return "this dataset"
    if isinstance(argument.value, Dataset) and not argument.value.is_tokenized:
        copies = run_data.tokenized_copies(pipeline, argument.value, argument.location)
        return _shown(copies[0].text) if len(copies) == 1 else "its tokenized copy"
    return _shown(argument.text)


def _stacks(run: TrainerRun, parameter: str) -> bool:
    """Whether this Trainer certainly stacks several rows into a batch without padding."""
    collator = run.collator
    if not _is_plain(collator):
        return False
    if is_missing(collator) and not all(is_missing(run.value(name)) for name in ("processing_class", "tokenizer")):
        return False
    settings = run.settings
    if settings is None:
        return is_missing(run.value("args"))
    kind = "train" if parameter == "train_dataset" else "eval"
    # Of the sizes that a command line may give, only one row is no batch.
    return _is_many(settings.usual(f"per_device_{kind}_batch_size"), 8)


def _is_many(size: Value, default: int) -> bool:
    number = default if is_missing(size) else literal(size)
    return isinstance(number, int) and number > 1


def _stacks_rows(loader: Loader) -> bool:
    """Whether this DataLoader certainly stacks several rows into a batch; its default is one row."""
    given = loader.arguments
    if "batch_sampler" in given or "**" in given or not _is_plain(loader.collate):
        return False
    return "batch_size" in given and _is_many(given["batch_size"], 1)


def _is_plain(collate: Value) -> bool:
    """Whether a collate function is none, or one of transformers that stacks rows as they are."""
    return run_data.is_default_collator(collate) or (isinstance(collate, Collator) and collate.pads is False)


def _own_collate(loader: Loader) -> Function | None:
    """The collate function that the class of a loader's rows defines for them."""
    if not isinstance(loader.dataset, Instance) or not is_missing(loader.collate):
        return None
    found = (loader.dataset.cls.lookup(name) for name in COLLATE_METHODS)
    return next((each[1] for each in found if each is not None and isinstance(each[1], Function)), None)


def _class_of(loader: Loader) -> str:
    """The name of the script's class of a loader's rows; empty for other rows."""
    return loader.dataset.cls.node.name if isinstance(loader.dataset, Instance) else ""


def _collated_alike(pipeline: Pipeline, loader: Loader) -> Loader | None:
    """A loader of rows of the same class that has a collate function with a name."""
    if not isinstance(loader.dataset, Instance) or not loader.is_complete or not is_missing(loader.collate):
        return None
    found = pipeline.cached(_collated_by_class, pipeline).get(id(loader.dataset.cls))
    # Two loaders over one object are usually there to be compared.
    return found if found is not None and found.dataset is not loader.dataset else None


def _collated_by_class(pipeline: Pipeline, _: Pipeline) -> dict[int, Loader]:
    """The first loader with a named collate function, by the identity of the class of its rows."""
    found: dict[int, Loader] = {}
    for loader in pipeline.loaders:
        location = loader.locations.get("collate_fn")
        is_named = location is not None and pipeline.code(location).isidentifier()
        if not isinstance(loader.dataset, Instance) or not isinstance(loader.collate, Function):
            continue
        if is_named and not _stacks_as_default(loader.collate):
            found.setdefault(id(loader.dataset.cls), loader)
    return found


def _shown(text: str) -> str:
    return f"`{text}`" if 0 < len(text) <= 29 and "\n" not in text else "this dataset"


def _claim(pipeline: Pipeline, location: Location, argument: str, code: str, *, is_safe: bool = False) -> Claim:
    """The claim with the argument that pads, if the tokenizer has a name at this location."""
    name = run_data.tokenizer_name(pipeline, location) if code else None
    return Claim(argument, code.format(name), is_safe) if name else Claim()


PADDING = frozenset(
    f"transformers.DataCollator{kind}" for kind in ("WithPadding", "ForTokenClassification", "ForSeq2Seq")
)
"""Collators that pass all columns of the rows to `tokenizer.pad`."""


def _text_column(loader: Loader) -> str:
    """A column of texts that tokenized rows certainly still have for such a collator; empty if there is none."""
    rows, collator = loader.dataset, loader.collate
    if not isinstance(rows, Dataset) or not isinstance(collator, Collator) or collator.path not in PADDING:
        return ""
    if rows.may_differ or rows.has_transform or not rows.is_tokenized or "return_tensors" in collator.arguments:
        return ""
    return next(iter(rows.text_columns), "")


def _stacks_as_default(collate: Function) -> bool:
    """Whether a collate function leaves the rows to the default one, perhaps without some of them."""
    code = unparse(collate.node)
    return "default_collate(" in code and MAKES_BATCHES.search(code) is None


MAKES_BATCHES = lazy_pattern(r"pad|stack\(|cat\(|tensor\(|zip\(")
"""Code that makes a batch of rows of different length itself."""
