"""What tests of data sets share: a script that has one, and what the reader makes of it."""

from __future__ import annotations

from textwrap import dedent

from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Column, Dataset
from lintrain.pipeline.values.python import Value
from lintrain.read import read_pipeline
from lintrain.source.source import Source

IMPORTS = """
import datasets, functools
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value, concatenate_datasets, load_dataset
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
films = Dataset.from_dict({"text": ["good", "bad"], "stars": [5, 1], "score": [0.5, 0.1]})
"""


def read(code: str) -> Pipeline:
    return read_pipeline(Source("script.py", IMPORTS + dedent(code)), TargetVersions())


def value_of(code: str, name: str = "x") -> Value:
    bound = [binding.value for binding in read(code).bindings if binding.name == name]
    assert bound, f"nothing is known of {name}"
    return bound[-1]


def dataset(code: str, name: str = "x") -> Dataset:
    value = value_of(code, name)
    assert isinstance(value, Dataset), value
    return value


def columns(code: str, name: str = "x") -> dict[str, str]:
    """The columns by name with what they hold; `...` stands for others that are not known."""
    found = dataset(code, name)
    known = {column.name: column.kind.value for column in (found.columns or {}).values()}
    return known if found.is_complete else {**known, "...": ""}


def column(code: str, of: str, name: str = "x") -> Column:
    return (dataset(code, name).columns or {})[of]


def literal_of(code: str) -> object:
    """The literal that `x` was set to, told from a `Dataset.add_column` that is named after it."""
    found = columns(code + "\ny = films.add_column(str(x), [1])\n", "y")
    return next((name for name in found if name not in {"text", "stars", "score"}), None)
