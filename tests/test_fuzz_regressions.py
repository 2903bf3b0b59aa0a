"""What the fuzzing brought to light, each as a small file of its own: answered, and mended to something that parses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lintrain.cli import run
from tests.fuzz.inputs import Input
from tests.fuzz.trial import tried

ENDLESS = "9" * 5000
"""Python reads no number of more than 4300 digits."""

TWO_LOADERS = """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

net = torch.nn.Linear(8, 3)
if is_smoke_test:
    loader = DataLoader(few, batch_size=2)
else:
    loader = DataLoader(many, batch_size=16)
    optimizer = torch.optim.Adam(net.parameters())
    accelerator = Accelerator()
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for rows in loader:
        optimizer.zero_grad()
        accelerator.backward(net(rows).sum())
        optimizer.step()
"""

CALL_OF_TWO_LINES = """\
import torch
from torch.utils.data import DataLoader

net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
rows = torch.utils.data.TensorDataset(torch.randn(9, 4), torch.zeros(9).long())
loader = DataLoader(rows, batch_size=8, shuffle=True)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy((net
    (x)), y)
    loss.backward()
    optimizer.step()
"""

SCRIPTS = {
    "a call that is one line only within its parentheses": CALL_OF_TWO_LINES,
    "two loaders of one name, in two branches": TWO_LOADERS,
    "a length without end": "from transformers import AutoTokenizer\n"
    'tokenizer = AutoTokenizer.from_pretrained("gpt2")\ntokenizer("x", max_length=1e400)\n',
    "a share without end": "from datasets import load_dataset\n"
    'load_dataset("glue", "mnli", split="train").take(1e400).train_test_split(1e400)\n',
    "a list repeated without end": f"import transformers\nx = [] * {2**64}\n",
    "a number that is no byte, looked for in bytes": 'import transformers\nx = 300 in b"abc"\n',
    "a range without end": f"import transformers\nx = range({2**64})\n",
    "a split with endless numbers": f'import datasets\ndatasets.load_dataset("imdb", split="train[:{ENDLESS}]")\n',
    "an encoding that ruff does not read": '# coding: latin-1\nimport torch\nx = "é"\n',
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_script_that_was_a_fault_once_is_answered(kind: str) -> None:
    encoding = "latin-1" if "latin-1" in SCRIPTS[kind] else "utf-8"
    result = tried(Input("train.py", SCRIPTS[kind].encode(encoding)), form=2, with_names=True)
    assert (result.faults, result.refusal) == ((), "")
    assert not result.rules & {"unprepared-object"}


def test_half_a_character_in_a_string_is_written_as_its_escape() -> None:
    script = """from transformers import AutoModel, Trainer, TrainingArguments
args = TrainingArguments("o", eval_strategy="\\ud800", save_strategy="no", load_best_model_at_end=True)
Trainer(AutoModel.from_pretrained("gpt2"), args).train()
"""
    result = tried(Input("t.py", script.encode()), form=2)
    assert ("unmatched-save-strategy" in result.rules, result.faults, result.mended) == (True, (), 1)


def test_names_are_looked_for_in_what_is_not_utf_8(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = tried(
        Input("t.py", "# coding: latin-1\nimport torch\nx = 'é'\nnowhere\n".encode("latin-1")), with_names=True
    )
    assert result.rules == {"undefined-name"}


def cells(*sources: object) -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": each} for each in sources]}).encode()


@pytest.mark.libraries  # the installed version decides which arguments there are
def test_a_cell_that_holds_more_than_text_is_read_and_never_written() -> None:
    mistake = ["from transformers import TrainingArguments\n", "TrainingArguments('out', lerning_rate=1)"]
    assert tried(Input("t.ipynb", cells(mistake)), form=2).mended == 1
    result = tried(Input("t.ipynb", cells([True, *mistake, -1])), form=2)
    assert (set(result.rules), result.faults, result.mended, result.unwritable) == ({"unknown-argument"}, (), 0, 1)


def test_a_script_with_a_number_that_python_cannot_write_is_refused() -> None:
    script = f"import torch\nfrom transformers import TrainingArguments\nTrainingArguments('o', seed=0x{'f' * 4000})\n"
    result = tried(Input("t.py", script.encode()), form=1)
    assert (result.refusal, result.faults) == ("a number in it has more digits than Python writes", ())


def test_a_form_feed_among_the_blanks_of_an_indentation_leaves_a_fix_unwritten() -> None:
    script = (
        "from transformers import TrainingArguments\nif True:\n   \f TrainingArguments('o', evaluation_strategy='no')\n"
    )
    result = tried(Input("t.py", script.encode()), form=2)
    assert ("removed-argument" in result.rules, result.faults, result.mended) == (True, (), 0)


def test_a_notebook_with_an_endless_number_is_refused() -> None:
    result = tried(Input("t.ipynb", b'{"cells": [], "x": ' + ENDLESS.encode() + b"}"))
    assert result.refusal == "not a notebook: a number in it has more digits than Python reads"
    assert result.faults == ()


@pytest.mark.parametrize("deep", [ENDLESS, "[" * 100_000])
def test_files_of_ours_with_endless_numbers_or_depth_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], deep: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        'import yaml\nfrom transformers import TrainingArguments\nTrainingArguments(**yaml.safe_load(open("c.yaml")))\n'
    )
    Path("c.yaml").write_text(f"learning_rate: {deep}\n")
    assert run(["check", "train.py"]) == 0
    Path("lintrain.toml").write_text(f"select = {deep}\n")
    assert run(["check", "train.py"]) == 2
    assert "lintrain.toml: " in capsys.readouterr().err
    Path("lintrain.toml").unlink()
    Path("kept.json").write_text(f'{{"schema": {deep}')
    for words in (["judge", "kept.json"], ["report", "merge", "kept.json"], ["check", "--baseline", "kept.json", "."]):
        assert run(words) == 2
        assert "lintrain: kept.json: " in capsys.readouterr().err
