"""Which token ids a run or a loop reads: the columns of its data, and the tokenizer calls that gave them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lintrain.analysis.run_data import OWN_LOADING, PLAIN_TRAINERS, is_default_collator
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Collator, Column, Dataset, Encoding, Tokenizer
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import Value, is_missing, options_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TokenFeed:
    """Rows of token ids that a plain Trainer or a loader is given: `columns` are those of one row.

    `dataset` is the data set of Hugging Face that they are in, None for one of the script's own class; `model` is
    the one that reads them, None where it is not certain.
    """

    location: Location
    columns: Mapping[str, Column]
    dataset: Dataset | None
    model: Model | None
    collator: Value
    run: TrainerRun | None = None
    loader: Loader | None = None

    @property
    def encoding(self) -> Encoding | None:
        """The tokenizer call that gave the ids, where nothing but it made them."""
        ids = self.columns.get("input_ids")
        return ids.made_by if ids is not None and isinstance(ids.made_by, Encoding) else None

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that gave the ids, where it is understood."""
        given = self.encoding.tokenizer if self.encoding else None
        return given if isinstance(given, Tokenizer) else None

    @property
    def is_stacked_plainly(self) -> bool:
        """Whether its rows certainly become batches as the libraries do it: no collator of the script's own."""
        if self.loader is not None and not is_missing(self.collator):
            return isinstance(self.collator, Collator)
        return isinstance(self.collator, Collator) or is_default_collator(self.collator)


def token_feeds(pipeline: Pipeline) -> Iterator[TokenFeed]:
    """The rows that the script's Trainers and loaders read, where every branch gives rows that are understood."""
    for run in pipeline.runs:
        if run.path in PLAIN_TRAINERS and not run.overrides & OWN_LOADING:
            for parameter in ("train_dataset", "eval_dataset"):
                for columns, dataset in _rows_in(pipeline, run.value(parameter)):
                    yield TokenFeed(run.construction, columns, dataset, run.model, run.value("data_collator"), run=run)
    model = pipeline.models[0] if len(pipeline.models) == 1 else None
    for loader in pipeline.loaders:
        if loader.origin is not None:
            for columns, dataset in _rows_in(pipeline, loader.dataset):
                yield TokenFeed(loader.origin, columns, dataset, model, loader.collate, loader=loader)


def _rows_in(pipeline: Pipeline, value: Value) -> Iterator[tuple[Mapping[str, Column], Dataset | None]]:
    """The columns of what may be given; none at all where one of the options is not understood."""
    options = [option for option in options_of(value) if not is_missing(option)]
    known: list[tuple[Mapping[str, Column], Dataset | None]] = []
    for option in options:
        own = next((rows for rows in pipeline.own_rows if rows.instance is option), None)
        if isinstance(option, Dataset) and not option.has_transform:
            known.append((option.columns or {}, option))
        elif own is not None:
            known.append((own.columns, None))
    yield from known if len(known) == len(options) else ()
