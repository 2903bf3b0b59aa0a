"""What the reader makes of torch's data sets, samplers and loaders, and of the loops over their batches."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.analysis.loaders import feedings, is_map_style, is_stream
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.dataset_rows import sharing
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Loader, TorchDataset
from lintrain.pipeline.values.python import Value
from lintrain.read import read_pipeline
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
films = load_dataset("rotten_tomatoes")
corpus = load_dataset(some_name)
pairs = [(1, 2), (3, 4)]
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
        ("x = [1, 2, 3]", True, False),
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
    assert {name: location.column for name, location in loader.locations.items()} == {
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


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = films['train'].select(range(100))", (0, 100, 8530)),
        ("x = films['train'].select(range(5, 10))", (5, 10, 8530)),
        ("x = films['train'].take(100)", (0, 100, 8530)),
        ("x = films['train'].map(f).skip(100)", (100, None, 8530)),
        ("x = films['train'].select(range(0, 100, 2))", (None, None, None)),
        ("x = films['train'].select(chosen)", (None, None, None)),
        ("x = load_dataset('rotten_tomatoes', split='train[:10%]')", (0, 10, 100)),
        ("x = load_dataset('rotten_tomatoes', split='train[-1000:]')", (7530, None, 8530)),
        ("x = load_dataset('no/where', split='train[100:200]')", (100, 200, None)),
    ],
)
def test_the_rows_that_a_cut_keeps(code: str, expected: tuple[int | None, ...]) -> None:
    made = value_of(code)
    assert isinstance(made, Dataset)
    assert made.cut is not None
    assert (made.cut.first, made.cut.stop, made.cut.of) == expected


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        ("imdb['train']", "imdb['train']", "same"),
        ("imdb['train'].map(f)", "imdb['train'].shuffle(seed=1)", "same"),
        ("imdb['train']", "imdb['train'].select(chosen)", "part"),
        ("imdb['train'].train_test_split(0.1)['train']", "imdb['train']", "overlap"),
        ("imdb['train'].select(range(100))", "imdb['train'].select(range(50, 150))", "overlap"),
        ("imdb['train'].select(range(100))", "imdb['train'].select(range(100, 150))", None),
        ("imdb['train'].shuffle().select(range(100))", "imdb['train'].shuffle().select(range(50))", None),
        ("imdb['train'].shuffle(seed=1).select(range(9))", "imdb['train'].shuffle(seed=1).select(range(5))", "overlap"),
        ("imdb['train'].filter(f)", "imdb['train'].filter(g)", None),
        ("imdb['train'].skip(10)", "imdb['train'].take(10)", None),
        ("imdb['train']", "imdb['test']", None),
        ("corpus[names.fit]", "corpus[names.held_out]", None),
        ("corpus.filter(f)[names.fit]", "corpus.filter(f)[names.held_out]", None),
        ("corpus[names.fit]", "corpus[names.fit]", "same"),
        ("load_dataset('a/b', split='train')", "load_dataset('a/b', split='train')", "same"),
        ("load_dataset('a/b', split='train')", "load_dataset('a/b', split='train[:10%]')", "part"),
        ("load_dataset('a/b', split='train[10%:]')", "load_dataset('a/b', split='train[:10%]')", None),
        (
            "load_dataset('csv', data_files='a', split='train')",
            "load_dataset('csv', data_files='b', split='train')",
            None,
        ),
        ("torchvision.datasets.MNIST('d', train=True)", "torchvision.datasets.MNIST('d', train=True)", "same"),
        ("torchvision.datasets.MNIST('d', train=True)", "torchvision.datasets.MNIST('d', train=False)", None),
        ("pairs", "pairs", "same"),
        ("pairs", "[(1, 2)]", None),
        ("pairs[:1]", "pairs[1:]", None),
    ],
)
def test_rows_that_two_data_sets_share(one: str, other: str, how: str | None) -> None:
    code = f"x = {one}\ny = {other}"
    pipeline = read(code)
    named = {binding.name: binding.value for binding in pipeline.bindings}
    shared = sharing(named["x"], named["y"])
    assert (shared.how if shared else None) == how


def test_the_columns_that_a_transform_cannot_do_without() -> None:
    made = value_of(
        """
        def encode(rows):
            if "label" in rows:
                rows["label"]
            rows.get("id"), rows.pop("other", None)
            return {"a": rows["text"]}
        x = imdb["train"].with_transform(encode)
        """
    )
    assert isinstance(made, Dataset)
    assert set(made.needs) == {"text"}


def test_the_columns_that_a_collator_cannot_do_without() -> None:
    pipeline = read(
        """
        from transformers import Trainer
        def collate(rows):
            return {"a": [row["text"] for row in rows], "b": [row["label"] for row in rows]}
        trainer = Trainer(model, train_dataset=imdb["train"], data_collator=collate)
        """
    )
    assert set(pipeline.runs[0].collator_needs) == {"text", "label"}
