"""The token ids that a Trainer or a loop reads: the columns of its data, and the tokenizer calls that created them.

The number of positions of the model that reads the rows of a feed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lintrain.analysis.run_data import OWN_LOADING, PLAIN_TRAINERS, is_default_collator
from lintrain.analysis.special_tokens import certain_facts
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Collator, Column, Dataset, Encoding, Tokenizer
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import Value, is_missing, literal, options_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TokenFeed:
    """Rows of token ids that a plain Trainer or a DataLoader reads: `columns` are those of one row.

    `dataset` is the Hugging Face dataset that contains them, None for a dataset class of the script; `model` is the
    model that reads them, None if it is not certain.
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
        """The tokenizer call that created the ids; None if other code may have created or changed them."""
        ids = self.columns.get("input_ids")
        return ids.made_by if ids is not None and isinstance(ids.made_by, Encoding) else None

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that created the ids; None if it is not known."""
        given = self.encoding.tokenizer if self.encoding else None
        return given if isinstance(given, Tokenizer) else None

    @property
    def has_library_collator(self) -> bool:
        """Whether a library's collator certainly creates the batches, and not a custom one."""
        if self.loader is not None and not is_missing(self.collator):
            return isinstance(self.collator, Collator)
        return isinstance(self.collator, Collator) or is_default_collator(self.collator)


def token_feeds(pipeline: Pipeline) -> Iterator[TokenFeed]:
    """The rows that the script's Trainers and DataLoaders read, if they are known in every branch."""
    for run in pipeline.runs:
        if run.path in PLAIN_TRAINERS and not run.overrides & OWN_LOADING:
            for parameter in ("train_dataset", "eval_dataset"):
                # The script's own collator is read on the rows of the training data.
                passed_on = run.passed_on if parameter == "train_dataset" else None
                for columns, dataset in _rows_in(pipeline, passed_on or run.value(parameter)):
                    yield TokenFeed(run.construction, columns, dataset, run.model, run.collator, run=run)
    model = pipeline.models[0] if len(pipeline.models) == 1 else None
    for loader in pipeline.loaders:
        if loader.origin is not None:
            for columns, dataset in _rows_in(pipeline, loader.collated_rows):
                yield TokenFeed(loader.origin, columns, dataset, model, loader.collator, loader=loader)


def _rows_in(pipeline: Pipeline, value: Value) -> Iterator[tuple[Mapping[str, Column], Dataset | None]]:
    """The columns and the dataset of each possible value; none at all if one of them is unknown."""
    options = [option for option in options_of(value) if not is_missing(option)]
    known: list[tuple[Mapping[str, Column], Dataset | None]] = []
    for option in options:
        rows = pipeline.rows_of(option)
        if rows is not None and not rows.has_transform:
            known.append((rows.columns or {}, rows if rows.library else None))
    yield from known if len(known) == len(options) else ()


_LEARNED = frozenset(
    {"albert", "bart", "bert", "camembert", "distilbert", "electra", "gpt2", "gpt_neo", "opt", "roberta", "xlm-roberta"}
)
"""Model types with learned position embeddings."""

_SKIPS_PADDING = frozenset({"camembert", "opt", "roberta", "xlm-roberta"})
"""Model types with learned positions that give padding no position."""

_SHORT = frozenset(
    {
        "ag_news",
        "conll2003",
        "dair-ai/emotion",
        "emotion",
        "fancyzhx/ag_news",
        "glue",
        "multi_nli",
        "nyu-mll/glue",
        "nyu-mll/multi_nli",
        "paws",
        "rotten_tomatoes",
        "snli",
        "sst2",
        "stanfordnlp/snli",
        "stanfordnlp/sst2",
        "trec",
        "tweet_eval",
        "wnut_17",
        "xnli",
    }
)
"""Datasets of sentences, all far shorter than 512 tokens."""


def learned_positions(pipeline: Pipeline, feed: TokenFeed) -> tuple[int | None, str]:
    """The number of learned positions of the model that reads the rows, and the name of its checkpoint."""
    model = feed.model
    if model is not None and (model.config is not None or "config" in model.arguments or not model.is_complete):
        return None, ""
    owner = feed.model or feed.tokenizer
    facts = certain_facts(pipeline, owner) if owner else None
    if owner is None or facts is None or facts.model_type not in _LEARNED:
        return None, ""
    return facts.max_positions, str(literal(owner.checkpoint))


def pads_take_positions(pipeline: Pipeline, feed: TokenFeed) -> bool:
    """Whether padding certainly takes positions in the model, as text does."""
    facts = certain_facts(pipeline, feed.model) if feed.model else None
    return facts is not None and facts.model_type in _LEARNED - _SKIPS_PADDING


def may_be_short(dataset: Dataset | None) -> bool:
    """Whether rows may be short: sentences of a well-known dataset, or rows that the script creates."""
    root = dataset.lineage[-1] if dataset else None
    if root is None:
        return False
    return root.hub_name in _SHORT or root.operations[:1] in {("from_dict",), ("from_list",)}
