"""Data sets with the columns, splits and label names of well-known ones, a few hundred rows each."""

from __future__ import annotations

from collections.abc import Iterable

from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from tools.fixture_assets import sentences

Row = dict[str, str | int]
TRAIN_ROWS = 480
HELD_OUT_ROWS = 96


def entailment(train_rows: int = TRAIN_ROWS) -> DatasetDict:
    """As `glue`, `mnli`: three labels, two validation splits, test splits with -1 for a label."""
    features = _labelled(("premise", "hypothesis"), ["entailment", "neutral", "contradiction"])
    rows = sentences.entailment_rows
    held_out = {
        "validation_matched": _table(rows(HELD_OUT_ROWS, 1), features),
        "validation_mismatched": _table(rows(HELD_OUT_ROWS, 2), features),
        "test_matched": _table(_unlabelled(rows(HELD_OUT_ROWS, 3)), features),
        "test_mismatched": _table(_unlabelled(rows(HELD_OUT_ROWS, 4)), features),
    }
    return DatasetDict({"train": _table(rows(train_rows, 0), features), **held_out})


def paraphrases() -> DatasetDict:
    """As `glue`, `mrpc`: pairs of sentences, two labels."""
    features = _labelled(("sentence1", "sentence2"), ["not_equivalent", "equivalent"])
    rows = sentences.paraphrase_rows
    return _three_splits([rows(TRAIN_ROWS, 0), rows(HELD_OUT_ROWS, 1), rows(HELD_OUT_ROWS, 2)], features)


def opinions() -> DatasetDict:
    """As `glue`, `sst2`: one sentence, two labels, no labels in the test split."""
    features = _labelled(("sentence",), ["negative", "positive"])
    rows = sentences.opinion_rows
    test = _unlabelled(rows(HELD_OUT_ROWS, 2))
    splits = [_renamed(split) for split in (rows(TRAIN_ROWS, 0), rows(HELD_OUT_ROWS, 1), test)]
    return _three_splits(splits, features)


def reviews() -> DatasetDict:
    """As `imdb`: both splits sorted by class."""
    features = _labelled(("text",), ["neg", "pos"], numbered=False)
    train = _table(sentences.opinion_rows(TRAIN_ROWS, 0, by_class=True), features)
    return DatasetDict(
        {"train": train, "test": _table(sentences.opinion_rows(HELD_OUT_ROWS, 1, by_class=True), features)}
    )


def news() -> DatasetDict:
    """As `ag_news`: four topics, no validation split."""
    features = _labelled(("text",), list(sentences.TOPICS), numbered=False)
    train = _table(sentences.topic_rows(TRAIN_ROWS, 0), features)
    return DatasetDict({"train": train, "test": _table(sentences.topic_rows(HELD_OUT_ROWS, 1), features)})


def running_text() -> DatasetDict:
    """As `wikitext`: text alone."""
    features = Features({"text": Value("string")})
    rows = sentences.plain_rows
    return _three_splits([rows(TRAIN_ROWS, 0), rows(HELD_OUT_ROWS, 1), rows(HELD_OUT_ROWS, 2)], features)


def _labelled(texts: Iterable[str], names: list[str], *, numbered: bool = True) -> Features:
    columns = {text: Value("string") for text in texts} | {"label": ClassLabel(names=names)}
    return Features(columns | ({"idx": Value("int32")} if numbered else {}))


def _three_splits(splits: list[Iterable[Row]], features: Features) -> DatasetDict:
    names = ("train", "validation", "test")
    return DatasetDict({name: _table(rows, features) for name, rows in zip(names, splits, strict=True)})


def _table(rows: Iterable[Row], features: Features) -> Dataset:
    listed = [row | {"idx": number} if "idx" in features else row for number, row in enumerate(rows)]
    return Dataset.from_list(listed, features=features)


def _unlabelled(rows: Iterable[Row]) -> Iterable[Row]:
    return (row | {"label": -1} for row in rows)


def _renamed(rows: Iterable[Row]) -> Iterable[Row]:
    return ({"sentence": row["text"], "label": row["label"]} for row in rows)
