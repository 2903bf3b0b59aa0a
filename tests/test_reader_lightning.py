"""What Lightning modules log for callbacks, and when the text does not tell it."""

from __future__ import annotations

import pytest

from lintrain.pipeline.lightning_logs import logged_values
from tests.loops import pipeline_of

SCRIPT = """
import lightning as L

class Classifier(L.LightningModule):
    def validation_step(self, batch):
        loss = self.net(batch)
        {logging}

module = Classifier()
trainer = L.Trainer()
trainer.fit(module, loader)
"""


def names_logged(logging: str) -> list[str] | None:
    logged = logged_values(pipeline_of(SCRIPT.format(logging=logging)))
    return None if logged is None else [each.name for each in logged]


def test_names_of_single_values_and_of_dictionaries_are_known() -> None:
    assert names_logged('self.log("loss", loss); self.log_dict({"f1": 1, "recall": 2})') == ["loss", "f1", "recall"]


@pytest.mark.parametrize("watched", ["loss", "loss_step", "loss_epoch", "loss/dataloader_idx_1"])
def test_lightning_logs_a_value_under_several_names(watched: str) -> None:
    logged = logged_values(pipeline_of(SCRIPT.format(logging='self.log("loss", loss)')))
    assert logged is not None
    assert [each.gives(watched) for each in logged] == [True]


def test_what_a_tracker_or_torch_logs_is_not_for_callbacks() -> None:
    assert names_logged('self.log("loss", loss); torch.log(loss); wandb.log({"f1": 1}); self.logger.log(x)') == ["loss"]


@pytest.mark.parametrize(
    "logging",
    [
        'self.log(f"{stage}_loss", loss)',
        'self.log("loss", loss); self.log_dict(self.metrics)',
        'self.log("loss", loss); self.log_dict({"f1": 1, **more})',
        'self.log("loss", loss); self.meter.add(self, loss)',
        'self.log("loss", loss); say = self.log',
        'self.log("loss", loss); self.trainer.callback_metrics["f1"] = 1',
    ],
)
def test_names_that_are_not_in_the_text_leave_all_unknown(logging: str) -> None:
    assert names_logged(logging) is None


def test_a_module_of_another_library_may_log_anything() -> None:
    script = SCRIPT.format(logging='self.log("loss", loss)').replace("L.LightningModule", "base.Module")
    assert logged_values(pipeline_of(f"import base{script}")) is None
