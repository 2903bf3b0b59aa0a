"""What the reader makes of objects that hold settings: parsers and dictionaries with methods, nodes, flags."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.values.certainty import Default
from lintrain.pipeline.values.python import Constant
from lintrain.read import read_pipeline
from lintrain.source.source import Source
from tests.test_reader_language import value_of
from tests.test_reader_modules import read


def known(code: str) -> tuple[object, Default | None] | None:
    """The literal that `x` is, and what it rests on; None where it is not known."""
    value = value_of(dedent(code))
    return (value.value, value.default) if isinstance(value, Constant) else None


def option(code: str) -> tuple[object, str] | None:
    """The literal that `x` is by default, and the option that changes it."""
    found = known(code)
    return (found[0], found[1].option) if found and found[1] is not None else None


def in_project(folder: Path, files: dict[str, str]) -> tuple[object, str] | None:
    """What the script `train.py` gives `TrainingArguments`, and the option that changes it."""
    script = f"from transformers import TrainingArguments\n{dedent(files['train.py'])}\nTrainingArguments(x)\n"
    value = read(folder, {**files, "train.py": script}).arguments[-1].value("output_dir")
    return (value.value, value.default.option if value.default else "") if isinstance(value, Constant) else None


PARSER = """
import argparse
class Options(argparse.ArgumentParser):
    def __init__(self, **given):
        super().__init__(**given)
        self.add_argument("--lr", type=float, default=0.1)
"""


@pytest.mark.parametrize(
    "code",
    [
        "x = Options().parse_args().lr",
        "options = Options(description='training'); options.add_argument('--size'); x = options.parse_args().lr",
        "x = argparse.ArgumentParser(parents=[Options()]).parse_args().lr",
        "x = Options().get_default('lr')",
        "class More(Options):\n    def parse(self): return self.parse_args()\nx = More().parse().lr",
        "class More(Options):\n    def parse_args(self):\n        made = super().parse_args()\n        return made\n"
        "x = More().parse_args().lr",
    ],
)
def test_a_class_that_derives_from_the_parser_has_its_options(code: str) -> None:
    assert option(f"{PARSER}\n{code}") == (0.1, "--lr")


COMMANDS = """
import argparse
parser = argparse.ArgumentParser()
commands = parser.add_subparsers()
commands.add_parser("train").add_argument("--lr", default=0.1)
"""


def test_the_options_of_a_command_are_those_of_the_whole() -> None:
    assert option(f"{COMMANDS}x = parser.parse_args().lr") == (0.1, "--lr")


def test_an_option_that_two_commands_declare_is_unknown() -> None:
    both = f"{COMMANDS}commands.add_parser('tune').add_argument('--lr', default=0.5)\n"
    assert option(f"{both}x = parser.parse_args().lr") is None


def test_a_default_that_is_text_is_what_the_scripts_own_type_makes_of_it() -> None:
    code = """
    import argparse
    def as_switch(text):
        return text.lower() == "yes"
    parser = argparse.ArgumentParser()
    parser.add_argument("--fast", type=as_switch, default="yes")
    x = parser.parse_args().fast
    """
    assert option(code) == (True, "--fast")


def test_each_item_of_a_list_that_is_a_default_may_be_another_one() -> None:
    code = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--sizes', nargs='+', default=[8, 4])"
    )
    assert option(f"{code}\nx = parser.parse_args().sizes[0]") == (8, "--sizes")


def test_options_that_a_loop_declares_are_known() -> None:
    code = """
    import argparse
    parser = argparse.ArgumentParser()
    for name, default in [("--lr", 0.1), ("--size", 8), ("--steps", 5), ("--warmup", 1), ("--seed", 3)]:
        parser.add_argument(name, default=default)
    x = parser.parse_args().steps
    """
    assert option(code) == (5, "--steps")


def test_files_that_configargparse_reads_win_over_the_defaults() -> None:
    code = "import configargparse\np = configargparse.ArgParser({})\np.add('--lr', default=0.1)\nx = p.parse_args().lr"
    assert option(code.format("")) == (0.1, "--lr")
    assert option(code.format("default_config_files=['a.txt']")) is None


BASE_OPTIONS = """
import argparse
class BaseOptions:
    def declare(self, parser):
        parser.add_argument("--model", default="small_net")
        parser.add_argument("--lr", default=0.1)
        return parser
    def parse(self):
        parser = self.declare(argparse.ArgumentParser())
        given, _ = parser.parse_known_args()
        import models
        parser = models.options_of(given.model)(parser)
        self.opt = parser.parse_args()
        return self.opt
"""
MODELS = """
import importlib
def options_of(name):
    module = importlib.import_module("models." + name)
    found = None
    for each, value in module.__dict__.items():
        if each.lower() == name.replace("_", "") and callable(value):
            found = value
    return found.more_options
"""
SMALL_NET = """
import torch
from torch import nn
class SmallNet(nn.Module):
    @staticmethod
    def more_options(parser):
        parser.set_defaults(lr=0.5)
        parser.add_argument("--width", default=8)
        return parser
"""
PROJECT = {
    "options/base.py": BASE_OPTIONS,
    "options/train.py": "from .base import BaseOptions\nclass TrainOptions(BaseOptions): pass",
    "models/__init__.py": MODELS,
    "models/small_net.py": SMALL_NET,
}


@pytest.mark.parametrize("taken", ["found = value", "found = value\n            break"])
def test_a_class_that_a_loop_finds_by_its_name_is_taken(tmp_path: Path, taken: str) -> None:
    script = "from options.train import TrainOptions\nx = TrainOptions().parse().width"
    models = MODELS.replace("found = value", taken)
    assert in_project(tmp_path, {**PROJECT, "models/__init__.py": models, "train.py": script}) == (8, "--width")


@pytest.mark.parametrize(("name", "expected"), [("lr", (0.5, "--lr")), ("width", (8, "--width"))])
def test_options_that_a_model_found_by_its_name_declares_are_known(
    tmp_path: Path, name: str, expected: tuple[object, str]
) -> None:
    script = f"from options.train import TrainOptions\nx = TrainOptions().parse().{name}"
    assert in_project(tmp_path, {**PROJECT, "train.py": script}) == expected


@pytest.mark.parametrize(
    "cls",
    [
        "class Own(dict):\n    def __getattr__(self, name): return self[name]",
        "class Own(dict):\n    __getattr__ = dict.get\n    __setattr__ = dict.__setitem__",
        "class Own(dict):\n    def __init__(self, *args, **more):\n        super().__init__(*args, **more)\n"
        "        self.__dict__ = self",
        "class Own:\n    def __init__(self, **given): self.__dict__.update(given)",
        "class Own:\n    def __init__(self, **given):\n        for name, value in given.items():\n"
        "            setattr(self, name, value)",
    ],
)
def test_entries_that_are_attributes_are_known(cls: str) -> None:
    made = f"{cls}\nmade = Own(a=1, b=2, c=3, d=4, lr=0.1)\n"
    assert known(f"{made}x = made.lr") == (0.1, None)
    assert known(f"{made}made.lr = 0.2\nx = made.lr") == (0.2, None)
    assert known(f"{made}x = made.unknown") is None


def test_a_dictionary_of_the_scripts_own_class_has_its_items() -> None:
    made = "class Own(dict):\n    def size(self): return len(self)\nmade = Own({'lr': 0.1})\n"
    assert known(f"{made}x = made['lr']") == (0.1, None)
    assert known(f"{made}made['lr'] = 0.2\nx = made.get('lr')") == (0.2, None)


def test_what_a_constructor_hands_to_a_dictionary_is_not_known_without_it() -> None:
    cls = "class Own(dict):\n    def __init__(self, given):\n        load(self, given)\n"
    assert known(f"{cls}x = len(Own({{}}))") is None


NODES = """
from yacs.config import CfgNode as CN
_C = CN()
_C.SOLVER = CN()
_C.SOLVER.LR = 0.1
cfg = _C.clone()
"""


def test_nodes_of_settings_hold_what_is_set() -> None:
    assert known(f"{NODES}x = cfg.SOLVER.LR") == (0.1, None)
    assert known(f"{NODES}cfg.merge_from_list(['SOLVER.LR', 0.7])\nx = cfg.SOLVER.LR") == (0.7, None)
    assert known(f"{NODES}cfg.SOLVER.LR = 0.7\nx = _C.SOLVER.LR") == (0.1, None)


def test_nodes_that_the_command_line_changes_are_options() -> None:
    assert option(f"{NODES}import sys\ncfg.merge_from_list(sys.argv[1:])\nx = cfg.SOLVER.LR") == (0.1, "SOLVER.LR")


def test_nodes_that_an_unknown_file_changes_are_not_certain() -> None:
    assert option(f"{NODES}cfg.merge_from_file(choose())\nx = cfg.SOLVER.LR") == (0.1, "")


def test_nodes_that_a_file_changes_have_what_it_holds(tmp_path: Path) -> None:
    files = {"config.py": NODES, "a.yaml": "SOLVER:\n  LR: 0.5\n"}
    script = "from config import cfg\ncfg.merge_from_file('a.yaml')\ncfg.freeze()\nx = cfg.SOLVER.LR"
    assert in_project(tmp_path, {**files, "train.py": script}) == (0.5, "")


def test_settings_that_the_command_line_is_merged_into_are_options() -> None:
    code = "from omegaconf import OmegaConf\ncfg = OmegaConf.merge({'solver': {'lr': 0.1}}, OmegaConf.from_cli())"
    assert option(f"{code}\nx = cfg.solver.lr") == (0.1, "solver.lr=")


def test_settings_that_are_updated_by_a_dotted_name_hold_the_new_value() -> None:
    code = "from omegaconf import OmegaConf\ncfg = OmegaConf.create({'solver': {'lr': 0.1}})\n"
    update = "OmegaConf.update(cfg, 'solver.lr', 0.4)\n"
    assert known(f"{code}{update}x = cfg.solver.lr") == (0.4, None)
    assert known(f"{code}{update}x = OmegaConf.select(cfg, 'solver.lr')") == (0.4, None)


@pytest.mark.parametrize(
    ("composed", "expected"),
    [
        ("cfg = compose(config_name='train')", (0.1, "train.yaml:")),
        ("cfg = compose(config_name='train', overrides=['size=8'])", (0.1, "train.yaml:")),
        ("cfg = compose(config_name='train', overrides=['lr=0.2'])", None),
        ("cfg = compose(config_name='train', overrides=given())", None),
    ],
)
def test_settings_that_hydra_composes(tmp_path: Path, composed: str, expected: tuple[object, str] | None) -> None:
    script = f"from hydra import compose, initialize\nwith initialize(config_path='conf'):\n    {composed}\nx = cfg.lr"
    assert in_project(tmp_path, {"conf/train.yaml": "lr: 0.1\nsize: 4\n", "train.py": script}) == expected


def test_json_is_what_the_hook_makes_of_its_dictionaries(tmp_path: Path) -> None:
    script = """
    import json
    from types import SimpleNamespace
    cfg = json.load(open("a.json"), object_hook=lambda held: SimpleNamespace(**held))
    x = cfg.solver.lr
    """
    assert in_project(tmp_path, {"a.json": '{"solver": {"lr": 0.1}}', "train.py": script}) == (0.1, "")


@pytest.mark.parametrize("flags", ["from absl import flags", "import tensorflow as tf\nflags = tf.app.flags"])
def test_flags_are_options(flags: str) -> None:
    assert option(f"{flags}\nflags.DEFINE_float('lr', 0.1, 'rate')\nx = flags.FLAGS.lr") == (0.1, "--lr")


def test_the_settings_of_a_run_of_wandb() -> None:
    assert known("import wandb\nwandb.init(config={'lr': 0.1})\nx = wandb.config.lr") == (0.1, None)
    assert known("import wandb\nrun = wandb.init(config=dict(lr=0.1))\nx = run.config['lr']") == (0.1, None)
    assert known("import wandb\nconfig = wandb.config\nconfig.lr = 0.1\nx = wandb.config.lr") == (0.1, None)
    assert known("import wandb\nwandb.init(config=load())\nx = wandb.config.lr") is None


def test_the_settings_of_a_search_of_wandb_are_not_certain() -> None:
    code = "import wandb\nwandb.init(config={'lr': 0.1})\nx = wandb.config.lr\nwandb.agent(sweep, function=train)"
    assert option(code) == (0.1, "")


def test_fields_of_attrs_are_known() -> None:
    code = "import attr\n@attr.s\nclass Own:\n    lr = attr.ib(default=0.1)\n    sizes = attr.ib(factory=list)\n"
    assert known(f"{code}x = Own().lr") == (0.1, None)
    assert known(f"{code}x = attr.evolve(Own(), lr=0.4).lr") == (0.4, None)
    assert known(f"{code}x = len(Own().sizes)") == (0, None)


def test_settings_of_pydantic_are_known() -> None:
    code = "from pydantic import BaseModel\nclass Own(BaseModel):\n    lr: float = 0.1\n    size: int = 3\n"
    assert known(f"{code}x = Own.model_validate({{'lr': 0.3}}).lr") == (0.3, None)
    assert known(f"{code}x = Own.model_validate(load()).lr") is None
    assert known(f"{code}x = Own().model_copy(update={{'lr': 0.3}}).size") == (3, None)


CHOSEN = """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", default="Adam")
args = parser.parse_args()
"""


def paths(code: str) -> list[str]:
    """The classes of torch that a script creates optimizers of."""
    source = Source("train.py", CHOSEN + dedent(code))
    return [call.path for call in read_pipeline(source, TargetVersions()).calls if call.path.startswith("torch.optim")]


def test_a_class_by_the_name_in_an_option_is_the_one_by_default() -> None:
    assert paths("getattr(torch.optim, args.optimizer)(weights)") == ["torch.optim.Adam"]


def test_a_class_by_the_name_that_a_test_asks_for_may_be_any() -> None:
    code = """
    if args.optimizer in WITH_MOMENTUM:
        getattr(torch.optim, args.optimizer)(weights, momentum=0.9)
    """
    assert paths(code) == ["torch.optim.Any"]


def test_a_class_by_the_one_name_that_its_branch_is_for_is_that_class() -> None:
    code = """
    if args.optimizer == "SGD":
        getattr(torch.optim, args.optimizer)(weights, momentum=0.9)
    """
    assert paths(code) == ["torch.optim.SGD"]
