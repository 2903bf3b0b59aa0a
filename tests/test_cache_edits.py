"""Whatever is edited, a check that takes what is kept says what one says that reads everything."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.kept_project import (
    ALL,
    CELLS,
    FILES,
    NET,
    Ask,
    afresh,
    ask,
    notebook,
    project,
    put,
    read_afresh,
)

__all__ = ["ask", "project", "read_afresh"]
"""The fixtures."""

EDITS: list[Callable[[random.Random, Path], object]] = []


def edit(make: Callable[[random.Random, Path], object]) -> Callable[[random.Random, Path], object]:
    EDITS.append(make)
    return make


MODULES = ["parts/model.py", "parts/rows.py", "parts/net.py", "parts/__init__.py"]
SCRIPTS = ["train.py", "loop.py", "plain.py", "quiet.py"]


@edit
def change_text(chance: random.Random, project: Path) -> object:
    name = chance.choice([*SCRIPTS, *MODULES])
    old, new = chance.choice(
        [('d")', 'd", num_labels=3)'), ("mnli", "sst2"), ("1e-4", "5.0"), ("nothing", "torch"), ("dim=1", "dim=0")]
    )
    text = (project / name).read_text() if (project / name).exists() else FILES[name]
    return put(name, text.replace(old, new) if old in text else text.replace(new, old))(project)


@edit
def change_a_comment(chance: random.Random, project: Path) -> object:
    comment = chance.choice(["", "  # lintrain: ignore[undefined-name] -- why", "  # lintrain: ignore[nothing-such]"])
    return put("quiet.py", f"import torch\n\nprint(nothing){comment}\n")(project)


@edit
def put_back(chance: random.Random, project: Path) -> object:
    name = chance.choice(list(FILES))
    return put(name, FILES[name])(project)


@edit
def take_away(chance: random.Random, project: Path) -> None:
    (project / chance.choice([*MODULES, "settings.json", "requirements.txt"])).unlink(missing_ok=True)


@edit
def give_another_name(chance: random.Random, project: Path) -> object:
    one, other = chance.sample([*SCRIPTS, *MODULES], 2)
    return (project / one).rename(project / other) if (project / one).exists() else None


@edit
def shadow(chance: random.Random, project: Path) -> object:
    name = chance.choice(["evaluate.py", "transformers/__init__.py", "parts/model/__init__.py", "src/parts/net.py"])
    text = chance.choice(["", "build = None\n", NET, "import torch\n\nnet = torch.nn.Linear(2, 2)\n"])
    return put(name, text)(project)


@edit
def take_the_shadows_away(_: random.Random, project: Path) -> object:
    (project / "evaluate.py").unlink(missing_ok=True)
    for name in ("transformers", "parts/model", "src"):
        shutil.rmtree(project / name, ignore_errors=True)
    return None


@edit
def change_settings_of_a_run(chance: random.Random, project: Path) -> object:
    return put("settings.json", chance.choice(['{"learning_rate": 5}', "{", '{"fp16": true, "bf16": true}']))(project)


@edit
def change_versions(chance: random.Random, project: Path) -> object:
    return put("requirements.txt", chance.choice(["transformers==4.30.0\n", "transformers>=4.50\n", ""]))(project)


@edit
def configure(chance: random.Random, project: Path) -> object:
    table = chance.choice(
        [
            "",
            'ignore = ["undefined-name"]\n',
            '[tool.lintrain.levels]\nundefined-name = "note"\n',
            '[tool.lintrain.target-versions]\ntransformers = "4.40.0"\n',
            'exclude = ["parts"]\n',
            '[tool.lintrain.per-file-ignores]\n"plain.py" = ["undefined-name"]\n',
        ]
    )
    return put("pyproject.toml", f"[tool.lintrain]\n{table}")(project)


@edit
def break_the_syntax(chance: random.Random, project: Path) -> object:
    name = chance.choice([*SCRIPTS, *MODULES])
    return put(name, "import torch\nnet = (\n")(project)


@edit
def change_cells(chance: random.Random, project: Path) -> object:
    cells = chance.sample([*CELLS, "import torch\n", "x = (\n", "TrainingArguments('o', no_such=1)\n"], 3)
    return put("book.ipynb", notebook(*cells))(project)


@edit
def keep_findings_in_a_baseline(chance: random.Random, project: Path) -> object:
    known = [{"rule": "undefined-name", "code": "print(nothing)"}] if chance.random() < 0.5 else []
    findings = {"plain.py": known} if known else {}
    return put("lintrain-baseline.json", json.dumps({"format": 1, "findings": findings}))(project)


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("seed", range(6))
def test_whatever_changes_the_answer_is_that_of_a_check_that_reads_everything(
    project: Path, ask: Ask, read_afresh: list[str], seed: int
) -> None:
    chance = random.Random(seed)  # the same edits each time
    made: list[str] = []
    saved = 0
    for _ in range(25):
        change = chance.choice(EDITS)
        made.append(change.__name__)
        change(chance, project)
        warm = ask()
        saved += len(read_afresh)
        assert warm == ask(*afresh()), made
        read_afresh.clear()
    assert saved < 25 * len(ALL) * 0.7
