"""How many axes a tensor has: after operations on axes, made of numbers, of a frame's values, of images, of labels."""

from __future__ import annotations

import pytest

from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import Value
from tests.support.columns import read
from tests.test_reader_language import value_of

PRELUDE = """
import cv2
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelEncoder
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, Dataset, TensorDataset

rows = torch.zeros(8, 2)
labels = torch.zeros(8, dtype=torch.long)
tokens = torch.zeros(8, 5, dtype=torch.long)
frame = pd.read_csv(path)
numbers = {name: place for place, name in enumerate(names)}
"""


def shown(value: Value) -> str:
    assert isinstance(value, Tensor), value
    return f"{value.shape} {value.kind}".strip()


def of(expression: str, code: str = "") -> str:
    return shown(value_of(PRELUDE + code, expression))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("rows.sum(1, keepdim=True)", "(8, 1) float"),
        ("rows.mean(dim=0, keepdim=True)", "(1, 2) float"),
        ("rows.sum(1, keepdim=flag)", "(…,) float"),
        ("rows.norm(2, 1)", "(8,)"),
        ("rows.norm()", "()"),
        ("rows.std(0)", "(2,) float"),
        ("torch.any(rows, dim=1)", "(8,) bool"),
        ("rows.max(1)[0]", "(8,) float"),
        ("rows.max(dim=1).indices", "(8,) int"),
        ("torch.max(rows, 1)[1]", "(8,) int"),
        ("torch.max(rows, torch.zeros(2))", "(8, 2) float"),
        ("rows.max(axis=1)", "(8,) float"),
        ("rows.topk(1).values", "(N, *)"),
        ("torch.sort(labels)[1]", "(N,) int"),
        ("rows.gather(1, labels.unsqueeze(1))", "(8, 1)"),
        ("tokens[..., 0]", "(8,) int"),
        ("tokens[..., :3]", "(8, *) int"),
        ("tokens[0, ...]", "(5,) int"),
        ("tokens[None, ..., None]", "(1, 8, 5, 1) int"),
        ("tokens[..., 0, ...]", "(…,) int"),
        ("tokens[..., one()]", "(…,) int"),
        ("torch.FloatTensor(len(rows))", "(N,) float"),
        ("torch.FloatTensor(rows.size(0), 1).fill_(1.0)", "(8, 1) float"),
        ("torch.FloatTensor(some().shape[0], 1).fill_(1.0)", "(N, 1) float"),
        ("torch.LongTensor(3).random_(5)", "(3,) int"),
        ("torch.LongTensor([3])", "(1,) int"),
        ("rows.type_as(labels)", "(8, 2) int"),
        ("labels.type_as(other())", "(8,)"),
        ("labels.new_full((8, 3), 1)", "(N, *) int"),
        ("F.normalize(rows, dim=1)", "(N, *)"),
        ("F.pad(labels, (0, 1))", "(N,)"),
        ("F.interpolate(some())", "(…,)"),
        ("labels.repeat(3)", "(N,) int"),
        ("labels.repeat(3, 1)", "(N, *) int"),
        ("labels.repeat_interleave(3)", "(N,) int"),
        ("labels.expand(4, 8)", "(N, *) int"),
        ("labels.expand_as(tokens)", "(8, 5) int"),
        ("rows.t()", "(2, 8) float"),
        ("rows.T", "(2, 8) float"),
        ("rows.chunk(2)[0]", "(N, *)"),
        ("torch.masked_select(unknown, mask)", "(N,)"),
        ("torch.nonzero(unknown)", "(N, *) int"),
        ("torch.full((8,), 1.0)", "(8,) float"),
        ("torch.full(size, 1.0)", "(…,) float"),
        ("torch.cat([labels, unknown])", "(N,)"),
        ("torch.stack([labels, unknown])", "(N, *)"),
        ("pack_padded_sequence(tokens, lengths).data", "(N,) int"),
        ("np.expand_dims(np.zeros(3), 0)", "(1, 3)"),
        ("np.stack([np.zeros(3), np.ones(3)])", "(2, 3) float"),
        ("np.array([np.zeros(3), np.ones(3)])", "(2, 3) float"),
        ("torch.ones(unknown.size(0))", "(N,) float"),
        ("torch.ones(unknown.size())", "(…,) float"),
    ],
)
def test_operations_on_axes_leave_a_known_number_of_them(expression: str, expected: str) -> None:
    assert of(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("labels[torch.randperm(8)[:4]]", "(N,) int"),
        ("rows[labels]", "(8, 2) float"),
        ("rows[[1, 2, 3]]", "(3, 2) float"),
        ("labels[labels != -100]", "(N,) int"),
        ("rows[rows > 0]", "(N,) float"),
        ("rows[labels > 0]", "(N, 2) float"),
        ("rows[torch.arange(8), labels]", "(8,) float"),
        ("rows[unknown]", "(…,) float"),
        ("rows[unknown > 0]", "(…,) float"),
    ],
)
def test_places_and_masks_in_a_subscript_leave_a_known_number_of_axes(expression: str, expected: str) -> None:
    assert of(expression) == expected


def test_the_parts_of_packed_rows_are_two_in_old_versions_and_four_in_new_ones() -> None:
    assert of("x", "x, _ = pack_padded_sequence(tokens, lengths)") == "(N,) int"
    assert of("x", "x, _, _, _ = pack_padded_sequence(tokens, lengths)") == "(N,) int"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.tensor([numbers[name]])", "(1,) int"),
        ("torch.LongTensor([numbers[name] for name in others])", "(N,) int"),
        ("torch.tensor([positive, not negative], dtype=torch.float)", "(…,) float"),
        ("torch.tensor([not positive, not negative], dtype=torch.float)", "(2,) float"),
        ("torch.tensor([unknown])", "(…,)"),
        ("torch.tensor(frame.iloc[3]['label'])", "()"),
        ("torch.tensor([frame.iloc[3].label])", "(1,)"),
        ("torch.tensor(frame['label'].values)", "(N,)"),
        ("torch.tensor(frame['label'].tolist())", "(N,)"),
        ("torch.tensor(frame['label'])", "(N,)"),
        ("torch.tensor(frame.iloc[0, 1:].values)", "(N,)"),
        ("torch.tensor(frame['label'].values[3])", "()"),
        ("torch.LongTensor(train_test_split(frame, frame['label'].values)[3])", "(N,) int"),
        ("torch.tensor(LabelEncoder().fit_transform(frame['label']))", "(N,) int"),
        ("torch.from_numpy(np.array(Image.open(path).convert('L')))", "(N, *) int"),
        ("torch.from_numpy(np.array(Image.open(path).convert('RGB')))", "(N, *, *) int"),
        ("torch.from_numpy(np.array(Image.open(path)))", "(…,) int"),
        ("cv2.imread(path, 0)", "(N, *) int"),
        ("cv2.imread(path, flags)", "(…,) int"),
        ("cv2.cvtColor(unknown, cv2.COLOR_BGR2GRAY)", "(N, *)"),
        ("cv2.cvtColor(unknown, cv2.COLOR_BGR2RGB)", "(N, *, *)"),
    ],
)
def test_numbers_values_of_frames_and_images_make_arrays_of_known_axes(expression: str, expected: str) -> None:
    assert of(expression) == expected


OWN = """
class Own(Dataset):
    def __init__(self, path):
        self.frame = pd.read_csv(path)
        self.labels = self.frame["label"].tolist()

    def __getitem__(self, index):
        if torch.is_tensor(index):
            index = index.tolist()
        return index, torch.tensor({item})

for _, target in DataLoader(Own(path), batch_size=8):
    pass
"""


def test_the_next_batch_of_an_iterator_is_one_of_its_loader() -> None:
    code = "batches = iter(DataLoader(TensorDataset(rows, labels), batch_size=4))\n_, target = batches.next()"
    assert of("target", code) == "(N,) int"


PROCESSED = """
from transformers import AutoProcessor

processor = AutoProcessor.from_pretrained("microsoft/git-base")
encoding = processor(images=image, text="a", return_tensors="pt")
row = {key: value.squeeze() for key, value in encoding.items()}
"""


def test_each_part_of_a_processed_row_is_a_tensor_whatever_its_name() -> None:
    assert of("row['pixel_mask']", PROCESSED) == "(…,)"
    assert of("encoding.input_ids", PROCESSED.replace('text="a", ', "")) == "(…,) int"


@pytest.mark.parametrize(
    "item", ["self.labels[index]", "self.frame.iloc[index]['label']", "self.frame.loc[index, 'label']"]
)
def test_a_label_of_an_own_row_is_one_number_and_that_of_a_batch_a_row_of_them(item: str) -> None:
    assert of("target", OWN.replace("{item}", item)) == "(N,)"


PICTURES = """
import torchvision
from tqdm import tqdm

to_tensor = torchvision.transforms.ToTensor()
pictures = torchvision.datasets.MNIST("data", transform=to_tensor)
loader = DataLoader(pictures, batch_size=8)


def moved(part, device):
    if isinstance(part, (list, tuple)):
        return [moved(each, device) for each in part]
    return part.to(device, non_blocking=True)


class OnDevice:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        for batch in self.loader:
            yield moved(batch, "cuda")
"""


@pytest.mark.parametrize(
    "loop",
    [
        "for batch in loader:\n    _, target = moved(batch, 'cuda')",
        "for batch in OnDevice(loader):\n    _, target = batch",
        "with tqdm(loader) as bar:\n    for _, target in bar:\n        pass",
        "for batch in loader:\n    _, target, *others = batch",
    ],
)
def test_a_batch_is_followed_through_helpers_and_progress_bars(loop: str) -> None:
    assert of("target", PICTURES + loop) == "(N,) int"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("pictures.targets", "(N,) int"),
        ("pictures.data[:100]", "(N, 28, 28) int"),
        ("torchvision.datasets.CIFAR10('data').data", "(N, 32, 32, 3) int"),
        ("torch.tensor(torchvision.datasets.ImageFolder('data').targets)", "(N,) int"),
        (
            "torchvision.datasets.VOCSegmentation('d', transform=to_tensor, target_transform=to_tensor)[0][1]",
            "(1, *, *) float",
        ),
        ("F.one_hot(labels, 10)", "(8, 10) int"),
        ("np.memmap(path, dtype=np.uint16)[start:start + 8]", "(N,)"),
        ("torch.zeros(6).view(labels.size(0) * unknown.size(0))", "(N,) float"),
        ("np.random.beta(1, 1) * rows + (1 - np.random.beta(1, 1)) * rows", "(8, 2)"),
        ("torch.cuda.FloatTensor(8, 1)", "(8, 1) float"),
    ],
)
def test_data_sets_of_pictures_and_numbers_of_a_script_have_known_axes(expression: str, expected: str) -> None:
    assert of(expression, PICTURES) == expected


def test_numbers_of_a_batch_of_columns_that_is_moved_are_a_tensor() -> None:
    code = """
import datasets

data = datasets.load_dataset("glue", "sst2")["train"]

def score(batch):
    return {"score": batch["label"].to("cuda")}

target = score(data[:8])["score"]
"""
    assert of("target", code) == "(N,) int"


CELLS = """
class Rows(Dataset):
    def __len__(self):
        return len(frame)
    def __getitem__(self, index):
        row = frame.iloc[index]
        return row["text"], row["label"], frame.loc[index, "score"], frame["words"].values
for texts, given, scores, words in DataLoader(Rows(), batch_size=8):
    loss = F.mse_loss(network(texts), scores)
    {}
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("given.to('cuda')", "(N,)"),
        ("given.long()", "(N,) int"),
        ("given.float().unsqueeze(1)", "(N, 1) float"),
        ("scores.cuda().view(-1, 1)", "(N, 1)"),
        ("words.to('cuda')", "(N, *)"),
    ],
)
def test_values_of_a_frame_that_a_loader_puts_together_have_one_axis(expression: str, expected: str) -> None:
    assert shown(value_of(PRELUDE + CELLS.format(f"x = {expression}"), "x")) == expected


def test_values_of_a_frame_are_no_tensor_where_code_shows_none() -> None:
    """Text is put together as a list."""
    assert not isinstance(value_of(PRELUDE + CELLS.format("x = texts"), "x"), Tensor)
    assert not isinstance(value_of(PRELUDE + "x = frame['words'].values.reshape(-1, 1)", "x"), Tensor)


def test_a_target_from_a_frame_is_a_tensor() -> None:
    loss = read(PRELUDE + CELLS.format("pass")).losses[-1]
    assert loss.target is not None
    assert shown(loss.target.value) == "(N,)"
