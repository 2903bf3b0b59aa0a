"""Probes of Lightning and Fabric: the Trainer runs by itself, shortened, and each error is shown at its stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probing import Probed, probe

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm"), pytest.mark.turns(one_in=3, of="file")]

HEAD = """
import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

L.seed_everything(1)
rows = TensorDataset(torch.randn(4000, 8), torch.randint(3, (4000,)))
held_out = TensorDataset(torch.randn(800, 8), torch.randint(3, (800,)))
train_loader = DataLoader(rows, batch_size=16, shuffle=True)
eval_loader = DataLoader(held_out, batch_size=16)
"""
MODULE = """

class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.body(x))

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val_loss", F.cross_entropy(self(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


trainer = L.Trainer(
    max_epochs=50,
    accelerator="cpu",
    gradient_clip_val=1.0,
    callbacks=[EarlyStopping("val_loss"), ModelCheckpoint("kept", monitor="val_loss")],
)
"""
FIT = "trainer.fit(Classifier(), train_loader, eval_loader)\n"
WHOLE = HEAD + MODULE + FIT
PASSED = ("script", "construction", "dataset", "batch", "forward", "backward", "step", "evaluation")


def failed(probed: Probed) -> dict[str, str]:
    """The failed stages with the message of each."""
    return {
        stage["name"]: f"{stage['failure']['type']}: {stage['failure']['message']}"
        for stage in probed.run["stages"]
        if stage["status"] == "failed"
    }


@pytest.mark.turns(one_in=1)
def test_a_correct_script_passes_every_stage_and_leaves_nothing(tmp_path: Path) -> None:
    probed = probe(tmp_path, WHOLE)
    assert probed.code == 0
    assert [probed.stages[name] for name in PASSED] == ["passed"] * len(PASSED)
    assert probed.run["framework"] == "lightning"
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    assert probed.run["loop"]["batches"] == probed.run["loop"]["steps"] == probed.run["loop"]["clips"] == 4
    assert probed.run["loop"]["past_the_launcher"] == probed.run["loop"]["divided_twice"] == 0
    assert probed.run["forward"]["chance"] == pytest.approx(1.0986, abs=1e-3)
    assert probed.run["step"]["changed_tensors"] == 4
    assert probed.run["step"]["groups"][0]["learning_rate"] == 1e-3
    assert [split["rows"] for split in probed.run["splits"]] == [4000, 800]


def test_the_run_as_it_was_meant_is_told_before_it_is_shortened(tmp_path: Path) -> None:
    arguments = probe(tmp_path, WHOLE).run["arguments"]
    assert arguments["planned_steps"] == arguments["schedule_length"] == 12_500
    assert arguments["planned_epochs"] == arguments["max_epochs"] == 50
    assert (arguments["planned_batches"], arguments["schedule_interval"]) == (250, "step")
    assert (arguments["monitors"], arguments["logged"]) == ("val_loss", "train_loss, val_loss")


def test_a_shape_error_of_the_training_step_fails_the_forward_stage(tmp_path: Path) -> None:
    probed = probe(tmp_path, WHOLE.replace("nn.Linear(16, 3)", "nn.Linear(17, 3)").replace(", eval_loader)", ")"))
    assert probed.code == 1
    assert list(failed(probed)) == ["forward"]
    assert probed.run["stages"][4]["failure"]["code"] == "return self.head(self.body(x))"
    assert probed.stages["batch"] == "passed"
    assert probed.stages["backward"] == "not reached"


def test_an_error_that_only_validation_has_is_found_and_training_is_measured_too(tmp_path: Path) -> None:
    probed = probe(tmp_path, WHOLE.replace('self.log("val_loss", F.cross_entropy(self(x), y))', "x.undefined"))
    assert probed.code == 1
    assert failed(probed) == {"evaluation": "AttributeError: 'Tensor' object has no attribute 'undefined'"}
    assert probed.stages["step"] == "passed"
    assert probed.run["model"]["training"]


def test_a_watched_name_that_nobody_logs_fails_the_evaluation_with_the_librarys_own_error(tmp_path: Path) -> None:
    probed = probe(tmp_path, WHOLE.replace('EarlyStopping("val_loss")', 'EarlyStopping("valid_loss")'))
    assert probed.code == 1
    assert failed(probed)["evaluation"].startswith("RuntimeError: Early stopping conditioned on metric `valid_loss`")
    best = probe(tmp_path, WHOLE.replace('monitor="val_loss"', 'monitor="accuracy"'))
    assert "`ModelCheckpoint(monitor='accuracy')` could not find" in failed(best)["evaluation"]


def test_a_watched_name_that_is_logged_late_is_not_held_against_the_script(tmp_path: Path) -> None:
    late = WHOLE.replace('self.log("train_loss", loss)', 'self.log("train_loss", loss) if index > 90 else None')
    probed = probe(tmp_path, late.replace('EarlyStopping("val_loss")', 'EarlyStopping("train_loss")'))
    assert probed.code == 0
    assert probed.stages["evaluation"] == "not reached"
    assert (
        "`train_loss` is monitored, but was not logged in the few batches that ran" in probed.run["stages"][7]["reason"]
    )


def test_a_schedule_that_waits_for_a_name_which_nobody_logs_fails_the_evaluation(tmp_path: Path) -> None:
    plateau = WHOLE.replace("CosineAnnealingLR(optimizer, T_max=steps)", "ReduceLROnPlateau(optimizer)")
    logged = plateau.replace('"interval": "step"', '"monitor": "val_loss"')
    assert failed(probe(tmp_path, logged)) == {}
    wrong = probe(tmp_path, plateau.replace('"interval": "step"', '"monitor": "valid_loss"'))
    assert "ReduceLROnPlateau conditioned on metric valid_loss" in failed(wrong)["evaluation"]


def test_a_run_that_ends_before_its_first_validation_has_nothing_to_watch(tmp_path: Path) -> None:
    ends = probe(tmp_path, WHOLE.replace("max_epochs=50,", "max_steps=200,"))
    assert "`val_loss`" in failed(ends)["evaluation"]
    goes_on = probe(tmp_path, WHOLE.replace("max_epochs=50,", "max_steps=300,"))
    assert goes_on.stages["evaluation"] == "passed"


def test_one_batch_is_learnt_by_heart_on_request(tmp_path: Path) -> None:
    overfit = probe(tmp_path, WHOLE, "--overfit", "20").run["overfit"]
    assert (overfit["steps"], overfit["rows"], len(overfit["losses"])) == (20, 16, 21)
    ends = [overfit[name][-1] for name in ("losses_at_ten_times", "losses", "losses_at_a_tenth")]
    assert ends == sorted(ends)


def test_validation_that_is_missing_is_not_taken_for_a_late_one(tmp_path: Path) -> None:
    probed = probe(tmp_path, WHOLE.replace(", eval_loader)", ")"))
    assert "`val_loss`" in failed(probed)["evaluation"]


def test_parameters_outside_the_optimizer_are_named(tmp_path: Path) -> None:
    probed = probe(tmp_path, WHOLE.replace("AdamW(self.parameters()", "AdamW(self.head.parameters()"))
    assert probed.run["step"]["outside_optimizer"] == ["body.0.weight", "body.0.bias"]
    assert probed.run["step"]["changed_tensors"] == 2


def test_a_trainer_that_cannot_be_made_fails_the_construction_stage(tmp_path: Path) -> None:
    probed = probe(tmp_path, WHOLE.replace("max_epochs=50,", "max_epochs=50, max_batches=3,"))
    assert probed.code == 1
    assert failed(probed)["construction"].endswith("unexpected keyword argument 'max_batches'")


def test_a_module_that_cannot_be_made_fails_the_construction_stage(tmp_path: Path) -> None:
    probed = probe(tmp_path, WHOLE.replace("nn.Linear(16, 3)", "nn.Linear(sixteen, 3)"))
    assert list(failed(probed)) == ["construction"]
    assert probed.stages["script"] == "passed"


def test_an_optimizer_that_cannot_be_made_fails_the_construction_stage(tmp_path: Path) -> None:
    probed = probe(tmp_path, WHOLE.replace("lr=1e-3)", "lr=-1.0)"))
    assert probed.code == 1
    assert failed(probed) == {"construction": "ValueError: Invalid learning rate: -1.0"}


DATA = """

class Data(L.LightningDataModule):
    def setup(self, stage):
        self.rows = rows

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=16)

    def val_dataloader(self):
        return eval_loader


"""


def test_errors_of_a_data_module_fail_the_dataset_or_the_batch_stage(tmp_path: Path) -> None:
    script = HEAD + MODULE + DATA + "trainer.fit(Classifier(), datamodule=Data())\n"
    assert failed(probe(tmp_path, script)) == {}
    unset = probe(tmp_path, script.replace("self.rows = rows", "self.row = rows"))
    assert list(failed(unset)) == ["dataset"]
    ragged = "lambda rows: torch.stack([row[0][: len(row[0]) - int(row[1])] for row in rows])"
    broken = probe(tmp_path, script.replace("self.rows, batch_size=16", f"self.rows, 16, collate_fn={ragged}"))
    assert list(failed(broken)) == ["batch"]


BY_HAND = """

class Players(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.left, self.right = nn.Linear(8, 3), nn.Linear(8, 3)

    def training_step(self, batch, index):
        x, y = batch
        for optimizer, part in zip(self.optimizers(), (self.left, self.right)):
            self.toggle_optimizer(optimizer)
            optimizer.zero_grad()
            self.manual_backward(F.cross_entropy(part(x), y))
            optimizer.step()
            self.untoggle_optimizer(optimizer)

    def configure_optimizers(self):
        return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (self.left, self.right)], []


L.Trainer(max_epochs=2, accelerator="cpu").fit(Players(), train_loader)
"""


def test_several_optimizers_that_step_by_hand_are_measured_together(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + BY_HAND)
    assert probed.code == 0
    assert probed.stages["evaluation"] == "not reached"
    assert probed.run["step"]["changed_tensors"] == probed.run["step"]["trainable_tensors"] == 4
    assert probed.run["step"]["outside_optimizer"] == []
    assert (probed.run["loop"]["batches"], probed.run["loop"]["steps"]) == (4, 8)


def test_a_plain_backward_by_hand_goes_past_lightning(tmp_path: Path) -> None:
    script = BY_HAND.replace(
        "self.manual_backward(F.cross_entropy(part(x), y))", "F.cross_entropy(part(x), y).backward()"
    )
    assert probe(tmp_path, HEAD + script).run["loop"]["past_the_launcher"] == 8
    assert probe(tmp_path, HEAD + BY_HAND).run["loop"]["past_the_launcher"] == 0


def test_gradients_that_are_added_up_are_measured_per_step(tmp_path: Path) -> None:
    probed = probe(tmp_path, WHOLE.replace("max_epochs=50,", "max_epochs=50, accumulate_grad_batches=2,"))
    assert probed.run["loop"]["backwards_per_step"] == [2, 2, 2, 2]
    assert probed.run["loop"]["undivided_losses"] == 0
    assert probed.run["forward"]["losses"][0] == pytest.approx(1.1, abs=0.15)


def test_the_other_name_of_the_library_and_a_call_that_only_tests(tmp_path: Path) -> None:
    script = WHOLE.replace("lightning as L", "pytorch_lightning as L").replace("lightning.pytorch", "pytorch_lightning")
    assert [probe(tmp_path, script).stages[name] for name in PASSED] == ["passed"] * len(PASSED)
    tested = script.replace("def validation_step", "def test_step").replace(
        FIT, "trainer.test(Classifier(), eval_loader)\n"
    )
    probed = probe(tmp_path, tested)
    assert probed.code == 0
    assert (probed.stages["step"], probed.stages["evaluation"]) == ("not reached", "passed")


FABRIC = """
from lightning.fabric import Fabric

fabric = Fabric(accelerator="cpu", devices=1)
model = nn.Linear(8, 3)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
loader = fabric.setup_dataloaders(train_loader)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    fabric.backward(loss)
    fabric.clip_gradients(model, optimizer, max_norm=1.0)
    optimizer.step()
fabric.save("model.ckpt", {"model": model})
"""


def test_a_loop_on_fabric_is_told_from_one_that_goes_past_it(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + FABRIC)
    assert probed.code == 0
    assert (probed.run["framework"], probed.run["model"]["name"]) == ("fabric", "Linear")
    assert probed.run["backward"]["clipped_at"] == 1.0
    assert probed.run["loop"]["past_the_launcher"] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    plain = probe(tmp_path, HEAD + FABRIC.replace("fabric.backward(loss)", "loss.backward()"))
    assert plain.run["loop"]["past_the_launcher"] == 4
