"""What the reader follows of images and their transforms, of files, frames and arrays whose content nobody knows."""

from __future__ import annotations

import pytest

from lintrain.pipeline.values.columns import DataFrame, Kind, Series
from lintrain.pipeline.values.data import ColumnValues, Rows
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import Mapping, Sequence, Value
from lintrain.pipeline.values.tensors import Real, Whole
from tests.test_reader_language import plain, value_of

PRELUDE = """
import random, re
from collections import namedtuple
import albumentations as A
import cv2
import numpy as np
import pandas as pd
import torch
from albumentations.pytorch import ToTensorV2
from PIL import Image
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler
from torchvision import transforms as T
from torchvision.transforms import functional as TF


def own(image):
    return image


class Flip:
    def __call__(self, sample):
        return {"image": sample["image"], "label": sample["label"]}


class Convert:
    def __call__(self, sample):
        return {"image": torch.from_numpy(sample["image"]).float(), "label": torch.tensor(1)}


class Pictures(torch.utils.data.Dataset):
    def __init__(self, files, transform=None):
        self.files, self.transform = files, transform

    def __getitem__(self, i):
        picture = Image.open(self.files[i])
        if self.transform is not None:
            picture = self.transform(picture)
        return picture, 1


picture = Image.open(path).convert("RGB")
usual = T.Compose([T.Resize(64), T.RandomCrop(32), own, T.ToTensor(), T.Normalize(mean, deviation)])
several = [T.Resize(64)]
if crops:
    several.append(T.RandomCrop(32))
several.append(T.ToTensor())
frame = pd.read_csv(path)
Pair = namedtuple("Pair", "x y")
"""


def found(expression: str) -> Value:
    return value_of(PRELUDE, expression)


def described(value: Value) -> str:
    match value:
        case Tensor():
            return f"{value.shape} {value.kind}".strip()
        case ColumnValues(column=column):
            return str(column.kind)
        case Series(column=column):
            return f"series {column.name}".strip()
        case _:
            return type(value).__name__


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("picture", "image"),
        ("picture.resize((3, 3))", "image"),
        ("usual(picture)", "(N, *, *) float"),
        ("usual(unknown)", "(N, *, *) float"),
        ("T.Compose([T.Resize(64)])(picture)", "image"),
        ("T.Compose([T.Resize(64)])(unknown)", "Unknown"),
        ("T.Compose(several)(picture)", "(N, *, *) float"),
        ("T.Compose(unknown)(picture)", "Unknown"),
        ("T.Compose([T.Lambda(lambda x: x), T.ToTensor()])(picture)", "(N, *, *) float"),
        ("T.Compose([T.ToTensor(), T.CenterCrop(8)])(picture)", "(N, 8, 8) float"),
        ("T.Compose([T.ToTensor(), T.ToPILImage()])(picture)", "image"),
        ("T.Compose([unknown])(picture)", "Unknown"),
        ("T.Compose([Flip(), Convert()])({'image': x, 'label': 1})['image']", "(…,) float"),
        ("TF.to_tensor(picture)", "(N, *, *) float"),
        ("TF.hflip(picture)", "image"),
        ("A.Compose([A.Flip(), ToTensorV2()])(image=x, mask=y)['image']", "(N, *, *)"),
        ("A.Compose([A.Flip()])(image=x, mask=y)['mask']", "(…,)"),
        ("cv2.imread(path)", "(N, *, *) int"),
        ("cv2.resize(cv2.imread(path), (3, 3))", "(N, *, *)"),
        ("cv2.somewhere(path)", "LibraryObject"),
        ("Pictures(files)[0][0]", "image"),
        ("Pictures(files, usual)[0][0]", "(N, *, *) float"),
        ("Pictures(files, unknown)[0][0]", "Unknown"),
    ],
)
def test_an_image_is_followed_through_its_transforms(expression: str, expected: str) -> None:
    assert described(found(expression)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("Pair(1, 2).x", 1),
        ("Pair(1, y=2)[1]", 2),
        ("[b for a, b in [Pair(1, 2)]]", [2]),
        ("namedtuple('P', ['x'])(3).x", 3),
    ],
)
def test_a_named_tuple_has_its_values_by_name_and_by_place(expression: str, expected: object) -> None:
    assert plain(found(expression)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("frame['label']", "series label"),
        ("frame.label", "series label"),
        ("frame[['a', 'b']]", "DataFrame"),
        ("frame[frame.columns[1:]]", "DataFrame"),
        ("frame.values", "(N, *)"),
        ("frame.iloc[:, 1:].to_numpy()", "(N, *)"),
        ("frame.iloc[3]['label']", "unknown"),
        ("frame.iloc[3].label", "unknown"),
        ("frame.loc[3, 'label']", "unknown"),
        ("frame['label'].values[3]", "unknown"),
        ("frame[:10]", "DataFrame"),
        ("frame.shape", "Bound"),
        ("frame.merge(other)", "DataFrame"),
        ("pd.concat([frame, frame])", "DataFrame"),
        ("pd.read_csv(path, chunksize=3)", "LibraryObject"),
        ("StandardScaler().fit_transform(frame)", "(N, *) float"),
        ("StandardScaler().fit_transform(frame.values)[3]", "(N,) float"),
        ("load_iris().data", "(N, *) float"),
        ("load_iris(return_X_y=True)[1]", "(N,) int"),
        ("np.load(path)", "(…,)"),
        ("np.loadtxt(path).astype(np.float32)", "(…,) float"),
        ("np.load(path, allow_pickle=True)", "LibraryObject"),
        ("np.zeros_like(np.ones((2, 3)))", "(2, 3)"),
        ("np.hstack([np.ones(3), unknown])", "(N,) float"),
        ("np.add(unknown, 'x')", "LibraryObject"),
    ],
)
def test_frames_and_arrays_of_unknown_files_have_their_form(expression: str, expected: str) -> None:
    assert described(found(expression)) == expected


def test_the_rows_of_a_frame_hold_its_columns() -> None:
    made = found("[row['label'] for _, row in frame.iterrows()]")
    assert isinstance(made, Sequence)
    (item,) = made.items
    assert isinstance(item, ColumnValues)
    assert item.column.name == "label"


def test_what_was_stored_into_a_frame_of_an_unknown_file_is_known() -> None:
    made = value_of(f"{PRELUDE}frame['text'] = 'a'\n", "frame")
    assert isinstance(made, DataFrame)
    assert made.columns["text"].kind is Kind.TEXT
    assert not made.is_complete


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("open(path).read()", "text"),
        ("open(path).readlines()[3]", "text"),
        ("[line.strip().split()[0] for line in open(path)][3]", "text"),
        ("re.sub('a', 'b', unknown)", "text"),
        ("open(path, 'rb').read()", "Unknown"),
        ("open(path, mode).read()", "Unknown"),
    ],
)
def test_text_of_files_is_text(expression: str, expected: str) -> None:
    assert described(found(expression)) == expected


def test_what_python_picks_at_random_is_one_of_the_items() -> None:
    assert plain(found("random.choice(['a', 'b'])")) == {"a", "b"}
    assert plain(found("random.sample(['a', 'a'], 2)")) == ["a"]
    assert isinstance(found("random.randint(0, 3)"), Whole)
    assert isinstance(found("random.random()"), Real)


def test_the_row_of_a_data_set_at_an_unknown_number_is_a_row() -> None:
    code = """
    from datasets import load_dataset
    class Own:
        def __init__(self):
            self.held = load_dataset("glue", "mnli", split="train")
        def __getitem__(self, index):
            return self.held[index]
    x = Own()[int(n)]
    """
    made = value_of(code)
    assert isinstance(made, Rows)
    assert not made.is_batch


def test_a_decorator_that_keeps_results_leaves_them_what_they_are() -> None:
    code = "from somewhere import store, change\n@store.memoize(typed=True)\ndef f():\n    return 3\nx = f()"
    assert plain(value_of(code)) == 3
    assert plain(value_of(code.replace("store.memoize(typed=True)", "change"))) == "unknown"


def test_the_arguments_of_a_class_that_nothing_makes_have_their_defaults() -> None:
    from tests.support.loops import pipeline_of

    code = """
    import torch
    from torch.utils.data import DataLoader
    class Runner:
        def __init__(self, data, size=16):
            self.loader = DataLoader(data, batch_size=size)
    """
    (loader,) = pipeline_of(
        code.replace("(self, data, size=16):", "(self, data, size=16):\n            self.data = data")
    ).loaders
    assert plain(loader.value("batch_size")) == 16


def test_a_mapping_of_images_keeps_its_names() -> None:
    made = found("A.Compose([A.Flip()])(image=x, label=3)")
    assert isinstance(made, Mapping)
    assert plain(made.entries["label"]) == 3
