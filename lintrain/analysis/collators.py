"""Questions about collators: for which task they create labels, and which run or loader uses them.

Token rows of different lengths: which data sets have them, and where they are tokenized.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lintrain.analysis.run_data import OWN_LOADING, PLAIN_TRAINERS, is_read_as_text, is_text
from lintrain.interpreter.core.registry import held_by
from lintrain.model.finding import Related
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Collator, Column, Dataset, Kind, Padding, Tokenizer
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import ABSENT, UNKNOWN, Constant, Value, is_missing, literal, options_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.startup.lazy_dataclass import dataclass

LANGUAGE_MODELING = "transformers.DataCollatorForLanguageModeling"
PADDING = "transformers.DataCollatorWithPadding"


@dataclass(frozen=True, slots=True)
class Collation:
    """A collator that a plain Trainer or a loader uses, with its data set, and with the model if it is known.

    `collator` is None if Trainer creates a `DataCollatorWithPadding` from its tokenizer.
    """

    location: Location
    collator: Collator | None
    tokenizer: Tokenizer | None
    dataset: Value
    model: Model | None
    run: TrainerRun | None = None


def collations(pipeline: Pipeline) -> Iterator[Collation]:
    """The collators of transformers that certainly create batches of the script."""
    for run in pipeline.runs:
        if run.path in PLAIN_TRAINERS and not run.overrides & OWN_LOADING:
            yield from _of_trainer(run)
    for loader in pipeline.loaders:
        if isinstance(loader.collator, Collator) and loader.origin is not None:
            yield _of_loader(pipeline, loader, loader.collator, loader.origin)


def _of_trainer(run: TrainerRun) -> Iterator[Collation]:
    collator, dataset = run.collator, run.value("train_dataset")
    if isinstance(collator, Collator):
        yield Collation(run.construction, collator, tokenizer_of(collator), dataset, run.model, run)
    elif is_missing(collator):
        given = run.value("processing_class")
        given = run.value("tokenizer") if is_missing(given) else given
        if isinstance(given, Tokenizer) and not given.is_processor:
            yield Collation(run.construction, None, given, dataset, run.model, run)


def _of_loader(pipeline: Pipeline, loader: Loader, collator: Collator, location: Location) -> Collation:
    model = pipeline.models[0] if len(pipeline.models) == 1 else None
    return Collation(location, collator, tokenizer_of(collator), loader.dataset, model)


@dataclass(frozen=True, slots=True)
class OwnBatch:
    """A batch that a collator of the script returns for a plain Trainer: `parts` are its values by key."""

    run: TrainerRun
    location: Location
    parts: Mapping[str, Value]


def own_batches(pipeline: Pipeline) -> Iterator[OwnBatch]:
    """The batches that collators of the script return for plain Trainers whose models compute the loss."""
    for run in pipeline.runs:
        collator = run.arguments.get("data_collator")
        has_loss = "compute_loss" in run.overrides or not is_missing(run.value("compute_loss_func"))
        if collator is not None and run.path in PLAIN_TRAINERS and not has_loss and not run.overrides & OWN_LOADING:
            parts = {name: value for name, value in held_by(run.collated)[0].items() if isinstance(name, str)}
            yield OwnBatch(run, collator.location, parts)


def tokenizer_of(collator: Collator) -> Tokenizer | None:
    """The tokenizer of a collator, if it is known."""
    return collator.tokenizer if isinstance(collator.tokenizer, Tokenizer) else None


def masks_words(collator: Collator) -> bool | None:
    """Whether a collator for language models masks tokens (`mlm`, its default); None if not certain."""
    if collator.path != LANGUAGE_MODELING:
        return None
    given = collator.arguments.get("mlm", UNKNOWN if "**" in collator.arguments else ABSENT)
    if all(literal(collator.arguments.get(name, UNKNOWN)) == 0 for name in REPLACES):
        return None  # it chooses tokens, and leaves all of them as they are
    if is_missing(given) and not isinstance(given, Constant):
        return True
    return (
        given.value if isinstance(given, Constant) and isinstance(given.value, bool) and not given.may_differ else None
    )


REPLACES = ("mask_replace_prob", "random_replace_prob")
"""How many of the chosen tokens become the mask, and another token."""

NOTE = "tokenized without `padding`"


def ragged_at(pipeline: Pipeline, value: Value) -> tuple[Related, ...]:
    """The calls that create rows of different lengths; empty if all rows may have the same length."""
    options = [option for option in options_of(value) if not is_missing(option)]
    found = [_ragged_rows(pipeline, option) for option in options]
    return found[0] if found and all(found) else ()


def ragged_copy_at(pipeline: Pipeline, value: Value) -> tuple[Related, ...]:
    """The calls that tokenize the copies of a text data set, if all of them have rows of different lengths."""
    if not isinstance(value, Dataset) or value.has_transform or not (is_text(value) or is_read_as_text(value)):
        return ()
    copies = pipeline.cached(_tokenized_by_origin, pipeline).get(id(value), ())
    return _tokenized_at(copies[0]) if copies and all(pipeline.cached(_is_ragged_set, each) for each in copies) else ()


def _tokenized_by_origin(pipeline: Pipeline, _: Pipeline) -> dict[int, list[Dataset]]:
    """The tokenized data sets that result from each data set, by its identity."""
    found = dict[int, list[Dataset]]()
    for made in pipeline.datasets:
        if isinstance(made, Dataset) and made.is_tokenized:
            for origin in made.lineage:
                found.setdefault(id(origin), []).append(made)
    return found


def _is_ragged_set(_: Pipeline, dataset: Dataset) -> bool:
    return _is_ragged(dataset)


def _ragged_rows(pipeline: Pipeline, value: Value) -> tuple[Related, ...]:
    if isinstance(value, Dataset):
        return _tokenized_at(value) if _is_ragged(value) else ()
    own = pipeline.rows_of(value)
    if own is None or not _has_ragged(own.columns or {}):
        return ()
    return tuple(Related(step.location, f"each row is {NOTE}", "tokenized") for step in own.steps)


def _is_ragged(dataset: Dataset) -> bool:
    """Whether token rows certainly differ in length: tokenized without padding, and not filtered afterwards."""
    after_map = dataset.operations[_last_map(dataset) :]
    return _has_ragged(dataset.columns or {}) and not dataset.has_transform and "filter" not in after_map


def _has_ragged(columns: Mapping[str, Column]) -> bool:
    tokens = columns.get("input_ids")
    return tokens is not None and tokens.kind is Kind.TOKENS and tokens.padding is Padding.NONE


def _last_map(dataset: Dataset) -> int:
    return max((index for index, name in enumerate(dataset.operations) if name == "map"), default=0)


def _tokenized_at(dataset: Dataset) -> tuple[Related, ...]:
    step = dataset.steps[_last_map(dataset)]
    return (Related(step.location, NOTE, "tokenized", step.text),)
