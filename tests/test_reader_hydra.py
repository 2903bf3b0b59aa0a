"""What the reader takes from a Hydra project: its composed settings, and the objects that they name."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from lintrain.check.check_run import CheckRun
from lintrain.check.selection import CheckRequest, Choice, choose, known_names
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.values.python import Value
from lintrain.rulebook import load_rules
from tests.test_reader_files import value_in
from tests.test_reader_language import plain

MAIN = """
import hydra
from hydra.utils import instantiate
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    global x
    x = {}
main()
"""


def unknown_or(value: object) -> object:
    """What `plain` gives, with one word for what is not known, under whatever name."""
    return "unknown" if value == "Bound" else value


def composed(folder: Path, files: dict[str, str], expression: str) -> object:
    """What an expression over the composed settings gives, by these files under `conf/`."""
    for name, text in files.items():
        path = folder / "conf" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    value: Value = value_in(folder, MAIN.format(expression), "x")
    return unknown_or(plain(value))


BIG = {"model/big": "size: 9\ndepth: 2\n"}


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ("defaults: [{model: big}, _self_]\nmodel: {size: 1}\n", 1),
        ("defaults: [_self_, {model: big}]\nmodel: {size: 1}\n", 9),
        # Hydra 1.0 and 1.1 merge the file itself at different places.
        ("defaults: [{model: big}]\nmodel: {size: 1}\n", "unknown"),
        ("defaults: [{model: null}, _self_]\nmodel: {size: 1}\n", 1),
        ("defaults: [{optional model: none}, _self_]\nmodel: {size: 1}\n", 1),
        ("defaults: [{model: none}, _self_]\nmodel: {depth: 1}\n", "unknown"),
        ("defaults: [{model: big}, {override model: none}, _self_]\n", "unknown"),
    ],
)
def test_the_order_of_defaults_says_who_wins(tmp_path: Path, config: str, size: object) -> None:
    assert composed(tmp_path, {"config": config, **BIG}, "cfg.model.size") == size


def test_groups_have_defaults_packages_and_references(tmp_path: Path) -> None:
    files = {
        "config": "defaults: [{model: big}, {data: digits}, {experiment: wide}, _self_]\nclasses: ${data.classes}\n",
        "model/big": "defaults: [base, _self_]\nsize: 9\nclasses: ${data.classes}\nhome: ${oc.env:HOME}\n",
        "model/base": "size: 1\ndepth: 2\n",
        "data/digits": "classes: 10\n",
        "experiment/wide": "# @package _global_\nmodel:\n  width: 7\n",
    }
    held = "(cfg.model.size, cfg.model.depth, cfg.model.width, cfg.model.classes, cfg.classes, cfg.model.home)"
    assert composed(tmp_path, files, held) == (9, 2, 7, 10, 10, "unknown")


@pytest.mark.parametrize(
    ("section", "code", "value"),
    [
        ("_target_: types.SimpleNamespace\na: 1", "instantiate(cfg.s).a", 1),
        ("_target_: types.SimpleNamespace\na: 1", "instantiate(cfg.s, a=2).a", 2),
        ("_target_: types.SimpleNamespace\nb: {_target_: types.SimpleNamespace, a: 3}", "instantiate(cfg.s).b.a", 3),
        ("_target_: types.SimpleNamespace\n_recursive_: false\nb: {a: 3}", "instantiate(cfg.s).b.a", 3),
        ("_target_: types.SimpleNamespace\n_partial_: true\na: 1", "instantiate(cfg.s)(b=4).b", 4),
        ("_target_: types.SimpleNamespace\n_partial_: true\na: 1", "instantiate(cfg.s)(b=4).a", 1),
        ("a: 5", "instantiate(cfg.s).a", 5),
        ("_target_: ${unknown}\na: 1", "instantiate(cfg.s)['a']", "unknown"),
        ("_target_: nowhere.Thing\na: 1", "instantiate(cfg.s)", "unknown"),
    ],
)
def test_a_section_is_called_with_its_entries(tmp_path: Path, section: str, code: str, value: object) -> None:
    config = "s:\n" + "".join(f"  {line}\n" for line in section.splitlines())
    assert composed(tmp_path, {"config": config}, code) == value


FILES = {
    ".git/HEAD": "",
    "src/__init__.py": "",
    "src/net.py": """
        from torch import nn
        class Net(nn.Module):
            def __init__(self, size=64, classes=10):
                super().__init__()
                self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, size), nn.ReLU(), nn.Linear(size, classes))
            def forward(self, x):
                return self.layers(x)
        """,
    "src/module.py": """
        import lightning as L
        from torch import nn
        class Module(L.LightningModule):
            def __init__(self, net, optimizer, scheduler):
                super().__init__()
                self.save_hyperparameters(logger=False)
                self.net = net
                self.criterion = nn.CrossEntropyLoss()
            def step(self, batch):
                x, y = batch
                return self.criterion(self.net(x), y)
            def on_train_start(self):
                # Lightning has run its sanity check with rows of validation.
                print("go")
            def training_step(self, batch, batch_idx):
                return self.step(batch)
            def validation_step(self, batch, batch_idx):
                self.log("val/loss", self.step(batch))
            def configure_optimizers(self):
                optimizer = self.hparams.optimizer(params=self.parameters())
                scheduler = self.hparams.scheduler(optimizer=optimizer)
                return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val/loss"}}
        """,
    "src/data.py": """
        import lightning as L
        from torch.utils.data import ConcatDataset, DataLoader, random_split
        from torchvision.datasets import MNIST
        from torchvision.transforms import transforms
        class Digits(L.LightningDataModule):
            def __init__(self, folder="data", parts=(55_000, 15_000), batch_size=64):
                super().__init__()
                self.save_hyperparameters(logger=False)
            def setup(self, stage=None):
                made = transforms.ToTensor()
                rows = ConcatDataset([MNIST(self.hparams.folder, train=each, transform=made) for each in (True, False)])
                self.train_rows, self.held_out = random_split(rows, self.hparams.parts)
            def train_dataloader(self):
                return DataLoader(self.train_rows, batch_size=self.hparams.batch_size, shuffle=True)
            def val_dataloader(self):
                return DataLoader(self.held_out, batch_size=self.hparams.batch_size)
        """,
    "src/train.py": """
        import hydra
        def train(cfg):
            data = hydra.utils.instantiate(cfg.data)
            model = hydra.utils.instantiate(cfg.model)
            trainer = hydra.utils.instantiate(cfg.trainer)
            trainer.fit(model=model, datamodule=data)
        @hydra.main(version_base="1.3", config_path="../conf", config_name="train.yaml")
        def main(cfg):
            train(cfg)
        if __name__ == "__main__":
            main()
        """,
    "conf/train.yaml": "defaults: [_self_, {data: digits}, {model: plain}, {trainer: default}]\n",
    "conf/data/digits.yaml": "_target_: src.data.Digits\nparts: [55_000, 15_000]\nbatch_size: 128\n",
    "conf/trainer/default.yaml": "_target_: lightning.pytorch.trainer.Trainer\nmax_epochs: 3\n",
    "conf/model/plain.yaml": """
        _target_: src.module.Module
        optimizer:
          _target_: torch.optim.Adam
          _partial_: true
          lr: 0.001
        scheduler:
          _target_: torch.optim.lr_scheduler.ReduceLROnPlateau
          _partial_: true
          mode: min
        net:
          _target_: src.net.Net
          size: 32
        """,
}


@pytest.mark.parametrize(
    ("file", "old", "new", "found"),
    [
        ("src/net.py", "nn.Linear(784, size)", "nn.Linear(784, size)", set[str]()),
        (
            "src/net.py",
            "nn.Linear(size, classes))",
            "nn.Linear(size, classes), nn.Softmax(dim=1))",
            {"softmax-before-cross-entropy"},
        ),
        ("src/net.py", "nn.Linear(784", "nn.Linear(1024", {"shape-mismatch"}),
        ("src/net.py", "classes=10", "classes=9", {"label-out-of-range"}),
        ("src/data.py", "DataLoader(self.held_out", "DataLoader(self.train_rows", {"train-data-in-eval"}),
        ("conf/model/plain.yaml", "mode: min", "mode: max", {"wrong-metric-direction"}),
    ],
)
def test_a_mistake_in_any_file_of_a_hydra_project_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str, found: set[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip())
    changed = tmp_path / file
    assert old in changed.read_text()
    changed.write_text(changed.read_text().replace(old, new))
    assert _rules_found(["src/train.py", "src/net.py", "src/data.py", "src/module.py"]) == found


def _rules_found(files: list[str]) -> set[str]:
    rules = load_rules()
    selection = choose(known_names(rules), Choice("c", str(Path.cwd()), ["ALL"]), Choice("l", "/"))
    outcome = CheckRun(CheckRequest(files, rules, selection, lambda _: TargetVersions())).check()
    return {each.finding.rule for each in outcome.reported} - {"missing-seed"}


def test_a_setting_of_a_group_is_reported_once_and_where_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = "_target_: transformers.TrainingArguments\noutput_dir: out\nlearning_rate: 0.1\n"
    files = {
        "conf/config.yaml": "defaults: [{training: base}, _self_]\ntraining:\n  num_train_epochs: 2\n",
        "conf/training/base.yaml": arguments,
        "train.py": """
            import hydra
            from transformers import AutoModelForCausalLM, Trainer
            @hydra.main(version_base=None, config_path="conf", config_name="config")
            def main(cfg):
                model = AutoModelForCausalLM.from_pretrained("gpt2")
                Trainer(model, hydra.utils.instantiate(cfg.training), train_dataset=rows()).train()
            if __name__ == "__main__":
                main()
            """,
    }
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip())
    rules = load_rules()
    selection = choose(known_names(rules), Choice("c", str(Path.cwd()), ["high-learning-rate"]), Choice("l", "/"))
    request = CheckRequest(["train.py", "conf/training/base.yaml"], rules, selection, lambda _: TargetVersions())
    assert [str(each.finding.location) for each in CheckRun(request).check().reported] == [
        "conf/training/base.yaml:3:1"
    ]
