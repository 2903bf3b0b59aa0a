"""Loops over a few names: read once for each, so that each split and each phase is its own."""

from __future__ import annotations

import pytest

from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Tensor
from tests.support.loops import MADE, PRELUDE, acts_of, lines_of, pipeline_of

SPLITS = """
from datasets import load_dataset
from torch.utils.data import DataLoader
raw = load_dataset("glue", "mnli")
loaders = {}
for split in ("train", "validation_matched"):
    loaders[split] = DataLoader(raw[split], batch_size=8, shuffle=split == "train")
train_loader, val_loader = loaders["train"], loaders["validation_matched"]
"""
PHASES = """
for epoch in range(3):
    for phase in ["train", "val"]:
        for x, y in loaders[phase]:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            if phase == "train":
                loss.backward()
                optimizer.step()
"""


def test_each_split_has_its_own_rows() -> None:
    shared = SPLITS.replace("raw[split]", 'raw["train"]')
    assert not lines_of("train-data-in-eval", SPLITS)
    assert len(lines_of("train-data-in-eval", shared)) == 1


@pytest.mark.parametrize(
    "header",
    [
        "for split in ['train', 'validation_matched']:",
        "for split in {'train': 1, 'validation_matched': 2}:",
        "for split, size in {'train': 1, 'validation_matched': 2}.items():",
        "for split, size in [('train', 1), ('validation_matched', 2)]:",
        "for split, size in zip(('train', 'validation_matched'), (1, 2)):",
    ],
)
def test_all_forms_of_few_known_items_are_unrolled(header: str) -> None:
    code = SPLITS.replace('for split in ("train", "validation_matched"):', header)
    assert code != SPLITS
    assert not lines_of("train-data-in-eval", code)
    assert len(lines_of("train-data-in-eval", code.replace("raw[split]", 'raw["train"]'))) == 1


def test_what_one_phase_does_is_under_no_condition() -> None:
    steps = acts_of(MADE + PHASES, Act.STEP)
    assert [(len(event.loops), event.conditions) for event in steps] == [(2, ())]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('["train", "val"]', "phases"),
        ('["train", "val"]', "range(2)"),
        ('["train", "val"]', '["a", "b", "c", "d", "e"]'),
        ("optimizer.step()", "optimizer.step()\n        if stop():\n            break"),
        ("loaders[phase]", "loader"),
    ],
)
def test_other_loops_are_read_once(old: str, new: str) -> None:
    code = PHASES.replace(old, new)
    if new == "loader":
        code = code.replace('phase == "train"', "training")
    assert [len(event.loops) for event in acts_of(MADE + code, Act.STEP)] == [3]


def test_a_continue_goes_on_with_the_next_item_and_a_return_ends_the_loop() -> None:
    code = """
def run():
    for phase in ("train", "val"):
        if phase == "train":
            {}
        net.eval()
run()
"""
    assert len(acts_of(MADE + code.format("continue"), Act.EVAL_MODE)) == 1
    assert not acts_of(MADE + code.format("return"), Act.EVAL_MODE)
    assert len(acts_of(MADE + code.format("pass"), Act.EVAL_MODE)) == 2


COMPOSED = """
import numpy as np
from PIL import Image
from torchvision.transforms import functional as transforms
from torch.utils.data import DataLoader, Dataset

class Compose:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, image, mask):
        for step in self.steps:
            image, mask = step(image, mask)
        return image, mask

class Flip:
    def __call__(self, image, mask):
        if flips():
            image, mask = transforms.hflip(image), transforms.hflip(mask)
        return image, mask

class Resize:
    def __call__(self, image, mask):
        return transforms.resize(image, 64), transforms.resize(mask, 64)

class Crop:
    def __call__(self, image, mask):
        return transforms.center_crop(image, 32), transforms.center_crop(mask, 32)

class ToTensor:
    def __call__(self, image, mask):
        return transforms.to_tensor(image), torch.as_tensor(np.array(mask), dtype=torch.int64)

class Normalize:
    def __call__(self, image, mask):
        return transforms.normalize(image, [0.5], [0.2]), mask

class Rows(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        image, mask = Image.open(f"{index}.jpg").convert("RGB"), Image.open(f"{index}.png").convert("L")
        return Compose([Flip(), Resize(), Crop(), ToTensor(), Normalize()])(image, mask)

net = nn.Conv2d(3, 5, 1)
for x, y in DataLoader(Rows(), batch_size=8):
    F.cross_entropy(net(x), y).backward()
"""


def test_a_row_is_passed_through_each_transform_of_an_own_composition() -> None:
    (loss,) = pipeline_of(PRELUDE + COMPOSED).losses
    assert loss.target is not None
    assert isinstance(loss.target.value, Tensor)
    assert str(loss.target.value.shape) == "(N, *, *)"
    assert loss.target.value.kind == "int"


@pytest.mark.parametrize("body", ["image, mask = step(mask.x, image.x)", "other = step(image, mask)"])
def test_functions_that_do_not_pass_on_what_they_return_are_read_once(body: str) -> None:
    (loss,) = pipeline_of(PRELUDE + COMPOSED.replace("image, mask = step(image, mask)", body)).losses
    assert loss.target is not None
    assert not isinstance(loss.target.value, Tensor) or loss.target.value.kind != "int"


STAGES = """
class Period(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (1,) + SIZES
        self.stages = nn.ModuleList([nn.Conv2d(sizes[i], sizes[i + 1], (5, 1)) for i in range(len(sizes) - 1)])
        self.score = nn.Conv2d(64, 1, (3, 1))

    def forward(self, x):
        x = x.view(-1, 1, 96, 3)
        for stage in self.stages:
            x = F.leaky_relu(stage(x), 0.1)
        x = self.score(x)
        return x.flatten(1)

net = Period()
optimizer = optim.Adam(net.parameters())
for x, y in loader:
    optimizer.zero_grad()
    F.mse_loss(net(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("sizes", ["(16, 32, 64, 64)", "(16, 32, 64, 64, 64)"])
def test_a_loop_over_layers_that_are_there_has_run(sizes: str) -> None:
    assert not lines_of("shape-mismatch", f"SIZES = {sizes}\n{STAGES}")


def test_a_loop_over_no_layers_leaves_what_was_before() -> None:
    assert lines_of("shape-mismatch", STAGES.replace("sizes = (1,) + SIZES", "sizes = (1,)"))
