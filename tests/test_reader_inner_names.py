"""Names of libraries that are imported from the modules inside them, and apex."""

from __future__ import annotations

import pytest

from lintrain.interpreter.imports import canonical
from lintrain.libraries import load_libraries
from tests.support.loops import lines_of


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("datasets.load.load_dataset", "datasets.load_dataset"),
        ("peft.mapping.get_peft_model", "peft.get_peft_model"),
        ("transformers.trainer.Trainer.train", "transformers.Trainer.train"),
        ("torchvision.datasets.mnist.MNIST", "torchvision.datasets.MNIST"),
        ("torchvision.models.resnet.resnet18", "torchvision.models.resnet18"),
        ("torchvision.models.resnet", "torchvision.models.resnet"),
        ("keras.engine.Model", "keras.Model"),
        ("keras.engine.training.Model", "keras.Model"),
        ("tensorflow.python.keras.engine.sequential.Sequential", "keras.Sequential"),
        ("keras.engine.training.Model.fit", "keras.engine.training.Model.fit"),
        ("keras.engine.saving", "keras.engine.saving"),
        ("tensorflow.losses.BinaryCrossentropy", "keras.losses.BinaryCrossentropy"),
        ("tensorflow.losses.mean_squared_error", "tensorflow.losses.mean_squared_error"),
        ("torchvision.transforms.functional.resize", "torchvision.transforms.functional.resize"),
    ],
)
def test_a_name_means_the_same_wherever_it_is_imported_from(path: str, name: str) -> None:
    load_libraries()
    assert canonical(path) == name


@pytest.mark.parametrize("made", ["net, optimizer = amp.initialize(net, optimizer)", "net = amp.initialize(net)"])
def test_apex_returns_what_it_is_given_and_enters_with_the_loss(made: str) -> None:
    code = f"""
from apex import amp
net = nn.Linear(4, 2)
optimizer = optim.SGD(net.parameters(), lr=0.1)
{made}
for x, y in loader:
    loss = F.cross_entropy(net(x), y)
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""
    assert lines_of("missing-zero-grad", code) == [8]


def test_a_function_that_the_tables_list_elsewhere_is_not_removed() -> None:
    assert lines_of("removed-name", "import lightning as L\nL.seed_everything(1)\n") == []
