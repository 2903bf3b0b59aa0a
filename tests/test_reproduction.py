"""A failing stage as a script of its own: it fails with the same error, or nothing is written and the reason said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lintrain.evidence.run import Evidence, Failure, Stage, StageName
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.report.reproduction import NoReproductionError, write_reproduction
from lintrain.runtime.parent.record import SCHEMA, Record
from lintrain.runtime.reproduction.reproducer import definitions_of
from tests.support.probing import MENDED, command, path_for_lintrain, probe
from tests.test_probe_loops import EPOCHS, HEAD

ERROR = Failure("ValueError", 'rows of "3" and 4 at <Net object at 0x7f00>', None)
CODE = """
import json
from torch import nn, optim
import numpy as np

LIMIT = 3
other = np.zeros(LIMIT)
rows = json.loads("[]")


def scaled(rows, by=LIMIT):
    return [row * by for row in rows]


class Net(nn.Module):
    def forward(self, x):
        return scaled(x)


model = Net()
"""


def record(*stages: Stage) -> Record:
    run = Evidence("train.py", "loop", "a loop", None, None, "cpu", {"torch": "2.13.0+cpu", "python": "3.11"}, stages)
    return Record(SCHEMA, "0.1.0", "train.py", "", sys.executable, Ending(EndingKind.MEASURED), (run,))


def kept(folder: Path, *lines: str, **parts: object) -> Path:
    """What the probed process keeps of a failing stage."""
    folder.mkdir()
    recipe = {"stage": "forward", "raised_by": "the model", "lines": lines, **parts}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return folder


FAILING = record(Stage.passed(StageName.BATCH), Stage.failed(StageName.FORWARD, ERROR))
RAISING = "raise ValueError('rows of \"3\" and 4 at <Net object at 0x9a11>')"


def test_what_fails_in_the_same_way_is_written_with_its_versions(tmp_path: Path) -> None:
    folder = tmp_path / "repro"
    assert write_reproduction(FAILING, kept(tmp_path / "kept", RAISING), folder) == ERROR
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "repro.py", "requirements.txt"]
    assert (folder / "requirements.txt").read_text() == "torch==2.13.0\n"
    assert "# ValueError in the forward stage of train.py" in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("print('all is well')", "the reproduction ends with no error"),
        ("raise ValueError('rows of 5')", "the reproduction ends with ValueError: rows of 5"),
        ("raise KeyError('rows of \"3\" and 4')", "the reproduction ends with KeyError"),
    ],
)
def test_what_fails_in_another_way_is_not_written(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(NoReproductionError, match=reason):
        write_reproduction(FAILING, kept(tmp_path / "kept", line), tmp_path / "repro")
    assert not (tmp_path / "repro").exists()


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (record(Stage.passed(StageName.FORWARD)), "no stage failed"),
        (record(Stage.failed(StageName.SCRIPT, ERROR)), "which running the script reproduces"),
    ],
)
def test_without_a_failing_stage_of_training_nothing_is_written(tmp_path: Path, found: Record, reason: str) -> None:
    with pytest.raises(NoReproductionError, match=reason):
        write_reproduction(found, tmp_path, tmp_path / "repro")


def test_what_cannot_be_made_without_the_script_is_said(tmp_path: Path) -> None:
    folder = kept(
        tmp_path / "kept", reason="`Net`, whose construction was not recorded cannot be created without the script"
    )
    with pytest.raises(NoReproductionError, match="the forward stage failed, but `Net`, whose construction"):
        write_reproduction(FAILING, folder, tmp_path / "repro")


def test_of_the_script_only_what_a_name_needs_is_taken() -> None:
    found = definitions_of(CODE, {"Net"})
    assert found is not None
    imports, rest = found
    assert imports == ["from torch import nn"]
    assert [text.split("\n", 1)[0] for text in rest] == [
        "LIMIT = 3",
        "def scaled(rows, by=LIMIT):",
        "class Net(nn.Module):",
    ]
    assert definitions_of(CODE, {"Missing"}) is None


@pytest.mark.parametrize("name", ["none/repro", "full", "file"])
def test_a_folder_that_cannot_be_made_is_refused_before_the_script_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path_for_lintrain(monkeypatch)
    (tmp_path / "train.py").write_text("open('ran', 'w')\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    done = command(tmp_path, "probe", "train.py", "--export-repro", name)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"lintrain: {name}: ")


OWN = """
HIDDEN = 16


class Net(nn.Module):
    def __init__(self, inputs, hidden=HIDDEN):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU())
        self.head = nn.Linear(hidden + 1, 3)

    def forward(self, x):
        return self.head(self.inner(x))


model = Net(6)
"""
COLLATE = """
class Pad:
    def __init__(self, side):
        self.side = side

    def __call__(self, rows):
        return torch.stack([row[self.side] for row in rows])


"""
SCRIPTS = {
    "labels out of range": (MENDED.replace(", num_labels=3", ""), "IndexError: Target 2 is out of bounds."),
    "an unpadded batch": (
        MENDED.replace("    data_collator=DataCollatorWithPadding(tokenizer),\n", ""),
        "ValueError: expected sequence of length",
    ),
    "missing labels": (
        MENDED.replace('tokenized["train"]', 'tokenized["train"].remove_columns("label")'),
        "ValueError: The model did not return a loss from the inputs",
    ),
    "a collator that holds something": (
        COLLATE + HEAD.replace("shuffle=True)", "collate_fn=Pad(2))") + EPOCHS,
        "IndexError: tuple index out of range",
    ),
    "the shapes of an own model": (
        HEAD[: HEAD.index("model =")] + OWN + HEAD[HEAD.index("optimizer =") :] + EPOCHS,
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x16 and 17x3)",
    ),
}


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_written_script_ends_with_the_error_of_the_run(tmp_path: Path, assets: Path, name: str) -> None:
    script, error = SCRIPTS[name]
    probed = probe(tmp_path, script, "--export-repro", "repro")
    failure = next(stage["failure"] for stage in probed.run["stages"] if stage["failure"])
    assert f"{failure['type']}: {failure['message']}".startswith(error)
    assert "wrote repro" in probed.err  # only what was run, and ended with this error, is
    if "transformers" not in script:
        (tmp_path / "train.py").unlink()
        words = [sys.executable, "repro/repro.py"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, error)
