"""The columns of a data set do not fit the loss of Sentence Transformers.

`SentenceTransformerTrainer` takes the columns by their order: a column named `label`, `labels`, `score` or `scores` is
the label, and each other one is a text to embed, in the roles that the loss gives them. A loss that ignores labels
pulls together the pairs that are labelled as different; a column of numbers is embedded as text; an answer before its
question trains the search for questions.

## Bad

Pairs of both classes, for a loss that takes each pair for a match:

    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, losses

    embedder = SentenceTransformer("all-MiniLM-L6-v2")
    pairs = Dataset.from_dict({"one": ["a", "b"], "other": ["c", "d"], "label": [0, 1]})
    trainer = SentenceTransformerTrainer(
        embedder,
        train_dataset=pairs,  # <- loss-columns-mismatch
        loss=losses.MultipleNegativesRankingLoss(embedder),
    )
    trainer.train()

Pairs for a loss of triplets:

    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, losses

    embedder = SentenceTransformer("all-MiniLM-L6-v2")
    pairs = Dataset.from_dict({"anchor": ["a", "b"], "positive": ["c", "d"]})
    trainer = SentenceTransformerTrainer(
        embedder,
        train_dataset=pairs,  # <- loss-columns-mismatch
        loss=losses.TripletLoss(embedder),
    )
    trainer.train()

## Good

    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, losses

    embedder = SentenceTransformer("all-MiniLM-L6-v2")
    pairs = Dataset.from_dict({"one": ["a", "b"], "other": ["c", "d"], "label": [0, 1]})
    trainer = SentenceTransformerTrainer(embedder, train_dataset=pairs, loss=losses.ContrastiveLoss(embedder))
    trainer.train()

Triplets:

    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, losses

    embedder = SentenceTransformer("all-MiniLM-L6-v2")
    rows = Dataset.from_dict({"anchor": ["a", "b"], "positive": ["c", "d"], "negative": ["e", "f"]})
    trainer = SentenceTransformerTrainer(embedder, train_dataset=rows, loss=losses.TripletLoss(embedder))
    trainer.train()

## When it is fine

The rows that match were kept before:

    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, losses

    embedder = SentenceTransformer("all-MiniLM-L6-v2")
    pairs = Dataset.from_dict({"one": ["a", "b"], "other": ["c", "d"], "label": [0, 1]})
    pairs = pairs.filter(lambda row: row["label"] == 1)
    trainer = SentenceTransformerTrainer(
        embedder, train_dataset=pairs, loss=losses.MultipleNegativesRankingLoss(embedder)
    )
    trainer.train()

## Fix

None: another loss, other columns, or another order may be meant.

## References

Sentence Transformers documentation, "Loss Overview"; `BaseDataCollator` and the losses of 6.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lintrain.analysis import run_data
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.data import Column, Dataset, Kind
from lintrain.pipeline.values.python import LibraryObject, Value
from lintrain.rule import Finding, Level, Pipeline, Rule

LABELS = ("label", "labels", "score", "scores")
"""The names of which the first that a data set has is the label."""

FIRST = ("anchor", "positive", "negative"), ("question", "answer"), ("query", "response")
"""Names of columns in the order in which the losses expect their roles."""

NUMBERS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.CLASS})
IDS = ("_id", "_ids", "_idx")


class Expected(NamedTuple):
    """How many texts a loss takes (`most` 0 for any number), and whether it reads the label."""

    least: int
    most: int
    is_labelled: bool


PAIR, MATCHES = Expected(2, 2, True), Expected(2, 0, False)
LOSSES = {
    **dict.fromkeys(("CosineSimilarityLoss", "SoftmaxLoss"), PAIR),
    **dict.fromkeys(("ContrastiveLoss", "OnlineContrastiveLoss"), PAIR),
    **dict.fromkeys(("MultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss"), MATCHES),
    **dict.fromkeys(("GISTEmbedLoss", "CachedGISTEmbedLoss"), MATCHES),
    "TripletLoss": Expected(3, 3, False),
}
"""The losses of Sentence Transformers 6.2 by name; others, as those that take pairs and triplets, are not judged."""

WRAPPERS = frozenset({"MatryoshkaLoss", "Matryoshka2dLoss", "AdaptiveLayerLoss"})


class LossColumnsMismatch(Rule):
    level = Level.ERROR
    keywords = "SentenceTransformerTrainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for call in pipeline.calls:
            if call.path.rpartition(".")[2] == "SentenceTransformerTrainer" and not call.is_guarded:
                yield from self._of_trainer(call)

    def _of_trainer(self, call: LibraryCall) -> Iterator[Finding]:
        # By their names: a call that gives five arguments by position is not written.
        given, loss = call.arguments.get("train_dataset"), call.arguments.get("loss")
        name = _single(loss.value) if loss is not None else None
        rows = given.value if given is not None else None
        if given is None or name is None or not isinstance(rows, Dataset) or rows.may_differ or rows.has_transform:
            return
        found = _problem_of_ids(rows) or (_problem(rows, name, LOSSES[name]) if rows.is_complete else None)
        if found is not None:
            message, advice, level = found
            location = given.keyword or given.location
            yield self.finding(location, message, related=run_data.origin_of(rows), help=advice, level=level)


def _single(value: Value | None) -> str | None:
    """The name of the loss that a trainer is given, or that a wrapper of losses is; None if it is not known."""
    if not isinstance(value, LibraryObject) or not value.path.startswith("sentence_transformers."):
        return None
    name = value.path.rpartition(".")[2]
    if name in WRAPPERS:
        return _single(value.arguments.get("loss", value.arguments.get("1")))
    return name if name in LOSSES else None


def _problem_of_ids(rows: Dataset) -> tuple[str, str, Level] | None:
    """A column of numbers that is embedded; None if none is known."""
    columns = {name: column for name, column in (rows.columns or {}).items() if name not in LABELS}
    found = next((name for name, column in columns.items() if _is_id(name, column)), None)
    if found is None:
        return None
    return f"`{found}` is embedded as a text, as each column that is no label", f"remove `{found}`", Level.ERROR


def _problem(rows: Dataset, loss: str, expected: Expected) -> tuple[str, str, Level] | None:
    """What does not fit: a message, advice and level; None if nothing is known to."""
    columns = dict(rows.columns or {})
    label = next((columns.pop(name) for name in LABELS if name in columns), None)
    names = list(columns)
    if len(names) < expected.least or len(names) > expected.most > 0:
        count = f"{expected.least}" if expected.most else f"{expected.least} or more"
        message = f"`{loss}` takes {count} columns of texts, and the rows have {len(names)}"
        return (
            message,
            f"its columns are {', '.join(names)}: choose the loss for them, or add what is missing",
            (Level.ERROR),
        )
    return _problem_of_label(rows, loss, expected, label) or _problem_of_order(names)


def _problem_of_label(
    rows: Dataset, loss: str, expected: Expected, label: Column | None
) -> tuple[str, str, Level] | None:
    if expected.is_labelled and label is None:
        return f"`{loss}` compares with a label, and the rows have none", "add a column `label`", Level.ERROR
    is_class = label is not None and label.kind in {Kind.CLASS, Kind.INTEGER}
    if label is not None and not expected.is_labelled and is_class and "filter" not in rows.operations:
        message = f"`{loss}` ignores `{label.name}` and takes each pair for a match"
        return message, f"keep the rows that match and remove `{label.name}`, or use `ContrastiveLoss`", Level.WARNING
    is_graded = rows.hub_name in {"glue", "nyu-mll/glue"} and rows.config == "stsb"
    if loss == "CosineSimilarityLoss" and is_graded and "map" not in rows.operations:
        message = "the similarities of STS-B go up to 5, and those of the cosine up to 1"
        return message, 'divide them: `map(lambda row: {"label": row["label"] / 5})`', Level.WARNING
    return None


def _problem_of_order(names: list[str]) -> tuple[str, str, Level] | None:
    for order in FIRST:
        known = [name for name in names if name in order]
        if len(known) > 1 and known != sorted(known, key=order.index):
            ordered = ", ".join(f'"{name}"' for name in sorted(known, key=order.index))
            message = f"`{known[0]}` comes before `{known[1]}`, so the roles of the two are swapped"
            return message, f"columns count by their order: `select_columns([{ordered}])`", Level.WARNING
    return None


def _is_id(name: str, column: Column) -> bool:
    is_named = name in {"id", "idx", "__index_level_0__"} or name.endswith(IDS)
    return column.kind in NUMBERS or (is_named and column.kind is Kind.UNKNOWN)
