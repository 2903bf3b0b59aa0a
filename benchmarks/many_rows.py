"""Data sets of 100,000 rows to tokenize: `python -m benchmarks.many_rows FOLDER` builds them there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.measure import ROOT
from benchmarks.one_step import COURSE, Case

MANY_ROWS = 100_000
REVIEWS = "reviews"
"""The folder of the long rows, beside the assets and beside every script."""
WORDS = 230
"""Words of a review, as many as those of IMDB have on average."""
HELD_OUT_ROWS = 200

FRESH = ("batched=True", "batched=True, load_from_cache_file=False")
FIRST_STEP = ('eval_strategy="epoch"', 'eval_strategy="no"')
CASES = (
    Case(
        "100,000 pairs of sentences", COURSE / "mended.py", (("num_train_epochs=3", "max_steps=1"), FRESH, FIRST_STEP)
    ),
    Case(
        "100,000 reviews",
        ROOT / "fixtures" / "speed" / "reviews.py",
        (("num_train_epochs=2", "max_steps=1"), FRESH, FIRST_STEP),
    ),
)
"""Scripts and what leaves them one training step, on rows that no run before has tokenized."""


def build(folder: Path, rows: int = MANY_ROWS) -> None:
    """The assets of the fixtures with so many training rows, and so many reviews beside them."""
    from tools import build_fixtures

    build_fixtures.build(folder / "assets", rows)
    datasets: Any = import_module("datasets")  # Any: its types say less than it takes
    label = datasets.ClassLabel(names=["neg", "pos"])
    features = datasets.Features({"text": datasets.Value("string"), "label": label})
    made = datasets.DatasetDict()
    for name, count in (("train", rows), ("test", HELD_OUT_ROWS)):
        made[name] = datasets.Dataset.from_list(list(reviews(count, name)), features=features)
    made.save_to_disk(folder / REVIEWS)


def reviews(rows: int, seed: str) -> Iterator[dict[str, str | int]]:
    """Texts of words that the tokenizers of the fixtures know, with a label in turn."""
    from tools.fixture_assets.sentences import vocabulary_text

    random = Random(seed)
    words = sorted({word for line in vocabulary_text() for word in line.split()})
    for number in range(rows):
        length = random.randint(WORDS // 2, WORDS * 3 // 2)
        yield {"text": " ".join(random.choices(words, k=length)), "label": number % 2}


if __name__ == "__main__":
    build(Path(sys.argv[1]))
