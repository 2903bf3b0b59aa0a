"""What the reader makes of torch's data sets, samplers and loaders, and of the loops over their batches."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.loading import feedings, is_map_style, is_stream
from lintrain.pipeline.pipeline import Pipeline
from lintrain.pipeline.reader import read_pipeline
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Loader, TorchDataset
from lintrain.pipeline.values.python import Value
from lintrain.source.source import Source

START = """
import torch, torchvision
from datasets import load_dataset
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset, random_split
class Rows(Dataset):
    def __getitem__(self, index):
        return index
class Stream(IterableDataset):
    def __iter__(self):
        yield 1
tensors = TensorDataset(torch.zeros(8), torch.zeros(8))
imdb = load_dataset("imdb")
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def read(code: str) -> Pipeline:
    return read_pipeline(Source("script.py", START + dedent(code)), TargetVersions())


def value_of(code: str, name: str = "x") -> Value:
    return [binding.value for binding in read(code).bindings if binding.name == name][-1]


@pytest.mark.parametrize(
    ("code", "map_style", "stream"),
    [
        ("x = Rows()", True, False),
        ("x = Stream()", False, True),
        ("x = tensors", True, False),
        ("x = Subset(tensors, [0, 1])", True, False),
        ("x = ConcatDataset([tensors, tensors])", True, False),
        ("x = torchvision.datasets.MNIST('data')", True, False),
        ("x = imdb['train']", True, False),
        ("x = load_dataset('imdb', split='train', streaming=True)", False, True),
        ("x = [1, 2, 3]", False, False),
    ],
)
def test_kinds_of_data_sets(code: str, map_style: bool, stream: bool) -> None:
    assert (is_map_style(value_of(code)), is_stream(value_of(code))) == (map_style, stream)


def test_a_random_split_keeps_what_it_was_made_of() -> None:
    part = value_of("x, y = random_split(tensors, [6, 2])")
    assert isinstance(part, TorchDataset)
    assert [each.name for each in part.parts if isinstance(each, TorchDataset)] == ["TensorDataset"]


def test_a_random_split_of_a_hub_data_set_is_one_still() -> None:
    part = value_of("x, y = random_split(imdb['train'], [20000, 5000])")
    assert isinstance(part, Dataset)
    assert part.operations == ("load_dataset", "random_split")


def test_a_loader_knows_its_arguments_and_where_they_stand() -> None:
    loader = value_of("x = DataLoader(tensors, 4, shuffle=True)")
    assert isinstance(loader, Loader)
    assert {name: place.column for name, place in loader.places.items()} == {
        "dataset": 16,
        "batch_size": 25,
        "shuffle": 36,
    }
    assert loader.is_complete


@pytest.mark.parametrize("over", ["loader", "enumerate(loader)", "tqdm(loader)", "enumerate(tqdm(loader), 1)"])
def test_the_loader_of_a_training_loop_is_found(over: str) -> None:
    pipeline = read(
        f"""
        from tqdm import tqdm
        loader = DataLoader(tensors, batch_size=4)
        for epoch in range(3):
            for batch in {over}:
                optimizer.zero_grad()
                model(batch).sum().backward()
                optimizer.step()
        """
    )
    found = list(feedings(pipeline))
    assert [feeding.loader for feeding in found] == pipeline.loaders
    assert found[0].is_repeated
