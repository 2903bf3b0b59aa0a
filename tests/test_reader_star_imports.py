"""Names that `from library import *` brings in."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of

LOSS = """
loss = mse_loss(Linear(6, 1)(torch.randn(9, 6)), torch.randn(9))
"""


def spread(imports: str) -> int:
    return len(lines_of("broadcast-loss", f"{imports}\nfrom torch.nn.functional import mse_loss\n{LOSS}"))


@pytest.mark.parametrize("imports", ["from torch.nn import *", "from helpers import *\nfrom torch.nn import *"])
def test_names_of_a_library_are_known(imports: str) -> None:
    assert spread(imports) == 1


@pytest.mark.parametrize(
    "imports",
    [
        "from torch.optim import *",
        "from torch.nn import *\nfrom helpers import *",
        "from torch.nn import *\nfrom .helpers import *",
        "from torch.nn import *\nLinear = make",
        "from unheard.nn import *",
    ],
)
def test_names_that_another_module_may_have_bound_are_not(imports: str) -> None:
    assert spread(imports) == 0


def test_callbacks_of_lightning_are_known() -> None:
    code = """
from lightning.pytorch import *
from lightning.pytorch.callbacks import *
class Net(LightningModule):
    def training_step(self, batch):
        self.log("loss", batch.sum())
Trainer(callbacks=[EarlyStopping("val_loss")]).fit(Net(), loader)
"""
    assert lines_of("unavailable-monitor", code) == [6]


def test_builtins_are_not_taken_from_a_library_without_them() -> None:
    assert spread("from transformers import *\nfrom torch.nn import *\nnumbers = list(range(3))") == 1
