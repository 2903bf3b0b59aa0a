"""Findings that rest on the default of an option, and those that a switch brings."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.check.one_file import check_source
from lintrain.check.result import Reported
from lintrain.knowledge.versions import TargetVersions
from lintrain.read import read_pipeline
from lintrain.rulebook import load_rules
from lintrain.source.project import Project
from lintrain.source.source import Source

HEAD = """
import argparse
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
parser = argparse.ArgumentParser()
"""


def reported(rule: str, code: str, head: str = HEAD) -> list[Reported]:
    """What one rule reports about a script."""
    rules = [each for each in load_rules() if each.name == rule]
    return list(check_source(Source("train.py", head + code), rules, TargetVersions).reported)


def messages(rule: str, code: str, head: str = HEAD) -> list[str]:
    """The messages of one rule."""
    return [each.finding.message for each in reported(rule, code, head)]


BOTH = "`fp16=True` and `bf16=True` are both set, but only one is allowed"


PARSED = "half = parser.parse_args().half"


@pytest.mark.parametrize(
    ("code", "assumption"),
    [
        (f'parser.add_argument("--half", type=bool, default=True)\n{PARSED}', "with the default `--half True`"),
        (f'parser.add_argument("-b", "--half", default=True)\n{PARSED}', "with the default `--half True`"),
        (f'parser.add_argument("--half", action="store_true")\n{PARSED}', "with `--half`"),
        ('parser.add_argument("--full", action="store_false")\nhalf = parser.parse_args().full', "without `--full`"),
        ('import os\nhalf = os.environ.get("HALF", True)', "with the default `HALF=True`"),
        (f'parser.add_argument("--half")\nparser.set_defaults(half=True)\n{PARSED}', "with the default `--half True`"),
    ],
)
def test_the_message_names_the_option(code: str, assumption: str) -> None:
    code = f'{code}\nTrainingArguments("out", fp16=half, bf16=True)\n'
    assert messages("both-half-precisions", code) == [f"{BOTH} ({assumption})"]


@pytest.mark.parametrize(
    "code",
    [
        'parser.add_argument("--half", type=bool)\nhalf = parser.parse_args().half',
        'parser.add_argument("--half", type=bool, required=True, default=True)\nhalf = parser.parse_args().half',
        'parser.add_argument("--half", action="store_true")\nhalf = parser.parse_args([]).half',
        'parser.add_argument("--half", type=bool, default=False)\nhalf = parser.parse_args().half',
    ],
)
def test_an_option_without_a_default_and_one_that_is_never_passed_are_silent(code: str) -> None:
    assert messages("both-half-precisions", f'{code}\nTrainingArguments("out", fp16=half, bf16=True)\n') == []


def test_only_the_options_that_decide_are_named() -> None:
    code = """
parser.add_argument("--half", type=bool, default=True)
parser.add_argument("--rate", type=float, default=2e-5)
parser.add_argument("--other", type=bool, default=True)
args = parser.parse_args()
TrainingArguments("out", fp16=args.half, bf16=args.other, learning_rate=args.rate)
TrainingArguments("out", fp16=True, bf16=True)
"""
    both, plain = messages("both-half-precisions", code)
    assert both == f"{BOTH} (with the defaults `--half True` and `--other True`)"
    assert plain == BOTH


def test_the_place_of_the_option_is_related() -> None:
    code = (
        'parser.add_argument("--half", type=bool, default=True)\n'
        'TrainingArguments("out", fp16=parser.parse_args().half, bf16=True)\n'
    )
    (found,) = reported("both-half-precisions", code)
    (option,) = found.finding.with_role("default")
    assert (option.location.line, option.note) == (5, "the default of `--half`")


def test_a_fix_that_rests_on_a_default_is_not_safe() -> None:
    code = """
from torch.utils.data import DataLoader, TensorDataset
parser.add_argument("--sampler", default="weighted")
loader = DataLoader(TensorDataset(x, y), shuffle=True, sampler=SAMPLER)
"""
    (certain,) = reported("shuffle-with-sampler", code.replace("SAMPLER", "[0, 1]"))
    (by_default,) = reported("shuffle-with-sampler", code.replace("SAMPLER", "parser.parse_args().sampler"))
    assert certain.fix is not None
    assert by_default.fix is not None
    assert not by_default.fix.safe


def test_a_field_that_the_command_line_sets_is_an_option() -> None:
    code = """
from dataclasses import dataclass
from transformers import HfArgumentParser
@dataclass
class Options:
    half: bool = True
(options,) = HfArgumentParser(Options).parse_args_into_dataclasses()
TrainingArguments("out", fp16=options.half, bf16=True)
"""
    assert messages("both-half-precisions", code) == [f"{BOTH} (with the default `--half True`)"]


def test_a_data_set_that_an_option_names_is_an_assumption() -> None:
    code = """
from datasets import load_dataset
parser.add_argument("--data", default="glue")
raw = load_dataset(parser.parse_args().data, "mnli")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", num_labels=2)
Trainer(model, train_dataset=raw["train"]).train()
"""
    (message,) = messages("missing-num-labels", code)
    assert message.endswith("(with the default `--data glue`)")


def test_what_a_rule_learns_without_an_option_is_forgotten() -> None:
    pipeline = read_pipeline(Source("train.py", "import torch\n"), TargetVersions())
    with pipeline.apart():
        assert pipeline.cached(lambda *_: "unknown", pipeline.runs) == "unknown"
        inside = len(pipeline._answers)  # pyright: ignore[reportPrivateUsage]
    assert (inside, len(pipeline._answers)) == (1, 0)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("field", "assumption"),
    [
        ("half: bool = True", " (without `--half`)"),
        ("half: bool = False", " (with `--half`)"),
        ("half: bool = choose()", None),
        ("half: bool", None),
    ],
)
def test_the_annotated_attributes_of_a_tap_parser_are_options(field: str, assumption: str | None) -> None:
    head = "from tap import Tap\nfrom transformers import TrainingArguments\n"
    code = (
        f"class Options(Tap):\n    {field}\n    rate: float = 0.1\n"
        "options = Options().parse_args()\nTrainingArguments('out', fp16=options.half, bf16=options.half)\n"
    )
    assert messages("both-half-precisions", code, head) == ([] if assumption is None else [BOTH + assumption])


CHOSEN = """
import argparse
import importlib
import torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--net", default="{default}")
args = parser.parse_args()
net = {net}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for images, labels in loader:
    optimizer.zero_grad()
    loss = criterion(net(images), labels)
    loss.backward()
    optimizer.step()
"""
TWICE = "softmax is applied here and again in `criterion`"
NETWORK = "nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))"


@pytest.mark.parametrize(
    ("default", "net", "assumption"),
    [
        (
            "Softmax",
            "nn.Sequential(nn.Linear(4, 3), getattr(nn, args.net)(dim=1))",
            " (with the default `--net Softmax`)",
        ),
        (
            "small",
            '{"small": nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1)), "large": nn.Linear(4, 3)}[args.net]',
            " (with the default `--net small`)",
        ),
        ("small", "importlib.import_module('nets.' + args.net).build()", " (with the default `--net small`)"),
        ("small", "importlib.import_module('nets.small').build()", ""),
        ("small", NETWORK, ""),
    ],
)
def test_the_message_names_the_option_that_chooses_code(
    default: str, net: str, assumption: str, tmp_path: Path
) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "small.py").write_text(f"from torch import nn\n\ndef build():\n    return {NETWORK}\n")
    script = tmp_path / "train.py"
    script.write_text(CHOSEN.replace("{default}", default).replace("{net}", net))
    rules = [each for each in load_rules() if each.name == "softmax-before-cross-entropy"]
    source = Source(str(script), script.read_text())
    found = check_source(source, rules, TargetVersions, Project()).reported
    assert [each.finding.message for each in found] == [TWICE + assumption]


def test_a_script_is_read_again_only_for_options_that_choose_code() -> None:
    text = CHOSEN.replace("{default}", "Softmax")
    plain = read_pipeline(Source("train.py", text.replace("{net}", NETWORK)), TargetVersions())
    assert plain.read_without is None
    code = text.replace("{net}", "nn.Sequential(nn.Linear(4, 3), getattr(nn, args.net)(dim=1))")
    chosen = read_pipeline(Source("train.py", code), TargetVersions())
    (option,) = chosen.chosen
    assert chosen.read_without is not None
    assert chosen.read_without(option) is chosen.read_without(option)


def test_a_toml_file_that_is_no_python_is_read_for_its_values_alone(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('[tool.needs]\nsome-package = "^1.0"\n[run]\nrate = 1e-2\n')
    script = tmp_path / "train.py"
    code = (
        "import tomllib, torch\nwith open('settings.toml', 'rb') as file:\n    run = tomllib.load(file)['run']\n"
        "from transformers import AutoModelForSequenceClassification as Classifier\n"
        "model = Classifier.from_pretrained('bert-base-cased')\n"
        "optimizer = torch.optim.AdamW(model.parameters(), lr=run['rate'])\n"
    )
    script.write_text(code)
    outcome = check_source(Source(str(script), code), load_rules(), TargetVersions, Project())
    assert [found.finding.rule for found in outcome.reported if found.finding.location.line == 6] == [
        "high-learning-rate"
    ]
