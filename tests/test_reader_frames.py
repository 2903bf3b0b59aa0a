"""Frames of pandas under a name: columns and their kinds follow what code does to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.pipeline.values.data import Dataset
from tests.test_reader_data_files import kinds
from tests.test_reader_files import value_in

HEAD = """
import numpy as np
import pandas as pd
from datasets import Dataset
from sklearn.model_selection import train_test_split
df = pd.DataFrame({"text": ["a", "b"], "label": ["neg", "pos"], "size": [1, 2], "score": [0.5, 1.5]})
"""
WHOLE = {"text": "text", "label": "text", "size": "integer", "score": "float"}
MADE = "x = Dataset.from_pandas(df, preserve_index=False)"


def made(folder: Path, code: str) -> Dataset:
    value = value_in(folder, f"{HEAD}{code}")
    assert isinstance(value, Dataset)
    return value


@pytest.mark.parametrize(
    "change",
    [
        "df = df.sample(frac=1, random_state=1).reset_index(drop=True)",
        "df = df[df['size'] > 0]",
        "df = df[(df['size'] > 0) & ~df.text.isna()]",
        "df = df.loc[df['text'].str.len() > 3]",
        "df = df.iloc[:100].copy()",
        "df = df[:100]",
        "df = df.dropna().drop_duplicates()",
        "df = df.head(10)",
        "df.sort_values('size', inplace=True)",
        "df, other = train_test_split(df, test_size=0.5, stratify=df['label'])",
        "df['text'] = df['text'].str.lower().str.strip()",
        "df['text'] = df['text'] + ' ' + df['label']",
        "df['text'] = df['text'].fillna('')",
        "df['size'] = pd.factorize(df['label'])[0]",
        "df['size'], names = df['label'].factorize()",
        "df = df.astype({'size': int, 'score': np.float32})",
        "df = pd.concat([df, df], ignore_index=True)",
        "print(df); display(df); sns.countplot(data=df)",
        "df = df.assign(size=df['score'].astype('int64'))",
        "def keep(frame):\n    return frame[frame['size'] > 0]\ndf = keep(df)",
    ],
)
def test_the_columns_stay_what_they_are(tmp_path: Path, change: str) -> None:
    value = made(tmp_path, f"{change}\n{MADE}")
    assert (kinds(value), value.is_complete) == (WHOLE, True)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("df = df[['text', 'label']]", {"text": "text", "label": "text"}),
        ("df = df.drop(columns=['size', 'score'])", {"text": "text", "label": "text"}),
        ("df = df.drop(['size', 'score'], axis=1)", {"text": "text", "label": "text"}),
        ("df.drop(columns='score', inplace=True)", {"text": "text", "label": "text", "size": "integer"}),
        ("df = df[['size']].rename(columns={'size': 'labels'})", {"labels": "integer"}),
        ("df = df[['size', 'score']]; df.columns = ['a', 'b']", {"a": "integer", "b": "float"}),
        ("df['label'] = df['label'].map({'neg': 0, 'pos': 1})", {**WHOLE, "label": "integer"}),
        ("df['label'] = df['label'].astype('category').cat.codes", {**WHOLE, "label": "unknown"}),
        ("df.label = f(df['label'])", {**WHOLE, "label": "unknown"}),
        ("df.loc[:, 'label'] = 0", {**WHOLE, "label": "unknown"}),
        ("df['label'].replace({'neg': 0}, inplace=True)", {**WHOLE, "label": "unknown"}),
        ("df['label'][0] = 1", {**WHOLE, "label": "unknown"}),
        ("df['label'] = df['size'].astype(str)", WHOLE),
        ("df['size'] = df['size'].astype(float)", {**WHOLE, "size": "float"}),
        ("df = df.fillna(0)", dict.fromkeys(WHOLE, "unknown")),
        ("if f():\n    df['label'] = 0", {**WHOLE, "label": "unknown"}),
        ("for i in range(3):\n    df['label'] = 0", {**WHOLE, "label": "unknown"}),
        ("for each in (df, df.copy()):\n    each['label'] = 0", {**WHOLE, "label": "unknown"}),
        ("for name, each in {'a': df, 'b': df.copy()}.items():\n    each['label'] = 0", {**WHOLE, "label": "unknown"}),
        ("(df if f() else df.copy())['label'] = 0", {**WHOLE, "label": "unknown"}),
        ("def number(frame):\n    frame['label'] = 0\nnumber(df)", {**WHOLE, "label": "integer"}),
    ],
)
def test_columns_follow_what_code_does_to_them(tmp_path: Path, change: str, expected: dict[str, str]) -> None:
    assert kinds(made(tmp_path, f"{change}\n{MADE}")) == expected


@pytest.mark.parametrize(
    "change",
    [
        "clean(df)",
        "df[name()] = 0",
        "df = df[name()]",
        "df.replace(names, inplace=flag())",
        "df.eval('label = 0', inplace=True)",
        "df.columns = names()",
        "df = df.rename(columns=names())",
        "df = df.drop(columns=names())",
        "df = pd.concat([df, other()])",
        "df.insert(0, 'a', 1)",
        "for each in [df, df.copy(), df.copy(), df.copy(), df.copy()]:\n    each['label'] = 0",
        "things = [df]\nclean(things)",
        "df = pd.DataFrame(df, columns=names())",
        "if f():\n    df.drop(columns='label', inplace=True)",
    ],
)
def test_a_frame_that_may_be_anything_is_not_known(tmp_path: Path, change: str) -> None:
    value = made(tmp_path, f"{change}\n{MADE}")
    assert not value.is_complete
    assert not value.columns


def test_an_index_that_counts_no_rows_may_be_one_more_column(tmp_path: Path) -> None:
    assert not made(tmp_path, "x = Dataset.from_pandas(df[df['size'] > 0])").is_complete
    assert made(tmp_path, "x = Dataset.from_pandas(df[df['size'] > 0].reset_index(drop=True))").is_complete


@pytest.mark.parametrize(
    "values",
    ["df['label'].tolist()", "df['label'].values", "list(df['label'])", "df.label.to_numpy()", "[y for y in df.label]"],
)
def test_the_values_of_a_column_keep_their_kind(tmp_path: Path, values: str) -> None:
    assert kinds(made(tmp_path, f"x = Dataset.from_dict({{'label': {values}}})")) == {"label": "text"}


def test_parts_of_columns_keep_their_kinds(tmp_path: Path) -> None:
    code = "a, b, c, d = train_test_split(df['text'], df['size'].values)\nx = Dataset.from_dict({'a': a, 'd': d})"
    assert kinds(made(tmp_path, code)) == {"a": "text", "d": "integer"}


def test_files_give_frames(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("text,label\n" + "a,0\n" * 50 + "b,1\n" * 50)
    (tmp_path / "r.jsonl").write_text('{"text": "a", "zip": "01234", "created_at": "yesterday"}\n' * 3)
    by_csv = made(tmp_path, "df = pd.read_csv('r.csv', sep=',')\nx = Dataset.from_pandas(df)")
    assert (kinds(by_csv), by_csv.sorted_by, by_csv.rows) == ({"text": "text", "label": "integer"}, "label", 100)
    by_json = made(tmp_path, "df = pd.read_json('r.jsonl', lines=True)\nx = Dataset.from_pandas(df)")
    assert kinds(by_json) == {"text": "text", "zip": "unknown", "created_at": "unknown"}


def test_rows_in_another_order_are_not_sorted_any_more(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("text,label\n" + "a,0\n" * 50 + "b,1\n" * 50)
    value = made(tmp_path, "df = pd.read_csv('r.csv').sample(frac=1)\nx = Dataset.from_pandas(df)")
    assert (value.sorted_by, value.label and value.label.num_classes) == (None, 2)


def test_many_different_texts_are_text(tmp_path: Path) -> None:
    lists = "'a': ['a', 'b', 'c', 'd', 'e', 'f'], 'b': [1, 2, 3, 4, 5, -100], 'c': [1, 'b', 3, 4, 5, 6]"
    code = f"df = pd.DataFrame({{{lists}}})"
    assert kinds(made(tmp_path, f"{code}\n{MADE}")) == {"a": "text", "b": "unknown", "c": "unknown"}
