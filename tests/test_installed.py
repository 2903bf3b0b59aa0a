"""Installed packages that no table covers: their source is read, once for each version, by another process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lintrain.cli import run
from lintrain.installed import process
from lintrain.installed.environments import Environment
from lintrain.installed.facts import RUNNING
from lintrain.installed.process import ReadingProcess
from tests.conftest import ROOT
from tests.support.installed import LIBRARY, SITE, install, make_project

HEAD = """\
from datasets import load_dataset
from transformers import DataCollatorWithPadding, TrainingArguments
from acme_train import AcmeArguments, AcmeClassifier, AcmeTrainer, Deeper, Own, PlainTrainer, build

raw = load_dataset("glue", "mnli")
args = AcmeArguments("out")
model = AcmeClassifier.from_pretrained("acme/base")


def collate(rows):
    return {"labels": [row["label"] for row in rows], "text": [row["premise"] for row in rows]}


"""
FIRST = HEAD.count("\n") + 1
RULES = "unknown-argument,removed-name,removed-argument,removed-columns-needed,raw-dataset,missing-eval-dataset"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the project, in which lintrain runs."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return project


def check(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """The findings of the script, without its name, from the first line after the head."""
    given = ["check", "--select", RULES, "--output-format", "concise", "--cache-dir", "../cache", "--quiet", *options]
    run([*given, "train.py"])
    return [line.removeprefix("train.py:") for line in capsys.readouterr().out.splitlines()]


def found(folder: Path, capsys: pytest.CaptureFixture[str], code: str) -> list[str]:
    make_project(folder, HEAD + code)
    return [f"{int(line) - FIRST}:{rest}" for line, _, rest in (each.partition(":") for each in check(capsys))]


def test_an_argument_that_a_class_of_the_library_lacks_is_unknown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = 'AcmeArguments("out", alpah=1, alpha=2, learning_rate=3)\nbuild("x", sise=1)\nAcmeTrainer(beta=1)\n'
    assert found(folder, capsys, code) == [
        "0:22: error[unknown-argument] `AcmeArguments` of acme_train 1.2.0 has no argument `alpah`",
        "1:12: error[unknown-argument] `build` of acme_train 1.2.0 has no argument `sise`",
        "2:13: error[unknown-argument] `AcmeTrainer` of acme_train 1.2.0 has no argument `beta`",
    ]


def test_what_a_constructor_hands_on_is_accepted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "Deeper(model, args, beta=2, data_collator=collate, eval_dataset=None)\nOwn(model, args, None, callbacks=[])\n"
    )
    assert found(folder, capsys, code) == []


def test_a_name_that_the_installed_version_lacks_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "from acme_train import Gone, trainers\nfrom acme_train.trainers import Deeper, Shallow\n"
    assert found(folder, capsys, code) == [
        "0:24: error[removed-name] `acme_train` has no `Gone` (here: 1.2.0)",
        "1:41: error[removed-name] `acme_train.trainers` has no `Shallow` (here: 1.2.0)",
    ]


def test_a_module_that_makes_names_on_demand_may_have_any(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(folder, capsys, "from acme_train.lazy import anything\n") == []


@pytest.mark.parametrize(
    "made",
    [
        "AcmeTrainer(model=model, args=args, train_dataset=raw['train'], data_collator=collate)",
        "AcmeTrainer(model, args, train_dataset=raw['train'], data_collator=collate)",
        "Deeper(model, args, train_dataset=raw['train'], data_collator=collate)",
        "PlainTrainer(model, args, collate, raw['train'])",
    ],
)
def test_a_trainer_of_the_library_removes_columns_as_the_one_that_it_derives_from(
    folder: Path, capsys: pytest.CaptureFixture[str], made: str
) -> None:
    name = made.partition("(")[0]
    message = f"`{name}` removes the column `premise`, but the collator reads it"
    assert found(folder, capsys, f"{made}.train()\n") == [f"0:1: error[removed-columns-needed] {message}"]


def test_so_does_a_class_of_the_script_above_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "class Mine(AcmeTrainer):\n    pass\n\n\nMine(model, args, train_dataset=raw['train'], data_collator=collate)\n"
    )
    message = "`Mine` removes the column `premise`, but the collator reads it"
    assert found(folder, capsys, code) == [f"4:1: error[removed-columns-needed] {message}"]


@pytest.mark.parametrize(
    "code",
    [
        "Own(model, args, raw['train'], data_collator=collate).train()\n",  # it tokenizes the rows itself
        "AcmeTrainer(model, AcmeArguments('x', remove_unused_columns=False), train_dataset=raw['train'],"
        " data_collator=collate)\n",
        "rows = raw['train'].rename_column('premise', 'topic')\n"
        "AcmeTrainer(model, args, train_dataset=rows,"
        " data_collator=lambda rows: {'labels': [row['topic'] for row in rows]})\n",  # an input of the model
    ],
)
def test_what_the_library_may_do_with_the_rows_keeps_rules_silent(
    folder: Path, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    assert found(folder, capsys, code) == []


@pytest.mark.parametrize(("name", "is_missing"), [("PlainTrainer", True), ("Evaluating", False)])
def test_what_a_constructor_gives_by_itself_is_not_missing(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, is_missing: bool
) -> None:
    code = f"from acme_train import {name} as Made\nargs = AcmeArguments('out', eval_strategy='epoch')\n"
    findings = found(folder, capsys, f"{code}Made(model=model, args=args, train_dataset=None).train()\n")
    assert any("missing-eval-dataset" in each for each in findings) is is_missing


def test_rows_without_an_input_of_the_model_are_raw(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "PlainTrainer(model, args, train_dataset=raw['train']).train()\n"
    message = '`raw["train"]` is passed to PlainTrainer without token ids'.replace('"', "'")
    assert found(folder, capsys, code) == [f"0:41: error[raw-dataset] {message}"]


DEVELOPMENT = {
    "__init__.py": """
from typing import TYPE_CHECKING

_import_structure = {"trainer": ["Trainer"], "training_args": ["TrainingArguments"]}
if TYPE_CHECKING:
    from .trainer import Trainer
    from .training_args import TrainingArguments
else:
    import sys
    sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], _import_structure)
""",
    "trainer.py": """
class Trainer:
    def __init__(self, model=None, args=None, train_dataset=None, rows_per_step=None):
        self.model = model
""",
    "training_args.py": """
from dataclasses import dataclass

@dataclass
class TrainingArguments:
    output_dir: str | None = None
    learning_rate: float = 5e-5
    rows_per_step: int = 1
""",
}

ON_DEVELOPMENT = """\
from transformers import AdamW, Trainer, TrainingArguments
args = TrainingArguments("out", rows_per_step=2, evaluation_strategy="no", lerning_rate=1)
Trainer(None, args, rows_per_step=1, tokenizer=None).train()
"""


def test_a_version_that_the_tables_lack_is_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".git").mkdir()
    (folder / "train.py").write_text(ON_DEVELOPMENT)
    install(folder, "transformers", "9.1.0.dev0", DEVELOPMENT)
    (folder / "requirements.txt").write_text("transformers>=9\n")
    assert check(capsys) == [
        "1:26: error[removed-name] `AdamW` was removed after transformers 4.49 (here: 9.1.0.dev0)",
        "2:50: error[removed-argument] `evaluation_strategy` was removed after transformers 4.50 (here: 9.1.0.dev0)",
        "2:76: error[unknown-argument] `TrainingArguments` of transformers 9.1.0.dev0 has no argument `lerning_rate`",
        "3:38: error[removed-argument] `tokenizer` was removed after transformers 4.57 (here: 9.1.0.dev0)",
    ]


@pytest.mark.parametrize("required", ["transformers==9.2.0", "transformers==3.1.0"])
def test_a_version_that_the_project_does_not_run_on_is_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str], required: str
) -> None:
    (folder / ".git").mkdir()
    (folder / "train.py").write_text(ON_DEVELOPMENT)
    install(folder, "transformers", "9.1.0.dev0", DEVELOPMENT)
    (folder / "requirements.txt").write_text(f"{required}\n")
    assert check(capsys) == []


def test_the_tables_come_first_where_they_cover_the_version(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".git").mkdir()
    (folder / "train.py").write_text(ON_DEVELOPMENT)
    install(folder, "transformers", "4.46.3", DEVELOPMENT)
    assert check(capsys) == [
        "2:33: error[unknown-argument] `TrainingArguments` of transformers 4.46.3 has no argument `rows_per_step`",
        "2:76: error[unknown-argument] `TrainingArguments` of transformers 4.46.3 has no argument `lerning_rate`",
        "3:21: error[unknown-argument] `Trainer` of transformers 4.46.3 has no argument `rows_per_step`",
    ]


WRONG = HEAD + "build('x', sise=1)\n"
ONE = [f"{FIRST}:12: error[unknown-argument] `build` of acme_train 1.2.0 has no argument `sise`"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The packages that the reading process is asked for."""
    packages: list[str] = []
    ask = ReadingProcess.ask

    def note_and_ask(self: ReadingProcess, folder: str, name: str, paths: list[str]) -> object:
        packages.append(name)
        return ask(self, folder, name, paths)

    monkeypatch.setattr(ReadingProcess, "ask", note_and_ask)
    return packages


def test_a_package_is_read_once(folder: Path, capsys: pytest.CaptureFixture[str], asked: list[str]) -> None:
    make_project(folder, WRONG)
    assert check(capsys) == ONE
    assert asked == ["acme_train"]
    (folder / "train.py").write_text(f"{WRONG}\nprint('another text')\n")
    assert check(capsys) == ONE
    assert asked == ["acme_train"]


def test_an_edited_package_is_read_again(folder: Path, capsys: pytest.CaptureFixture[str], asked: list[str]) -> None:
    make_project(folder, WRONG)
    check(capsys)
    models = folder / SITE / "acme_train/models.py"
    models.write_text(LIBRARY["models.py"].replace("size=3", "sise=3"))
    assert check(capsys) == []
    assert asked == ["acme_train", "acme_train"]


def test_another_version_is_read_again(folder: Path, capsys: pytest.CaptureFixture[str], asked: list[str]) -> None:
    make_project(folder, WRONG)
    check(capsys)
    install(folder, "acme_train", "1.3.0", {})
    assert check(capsys) == [ONE[0].replace("1.2.0", "1.3.0")]
    assert asked == ["acme_train", "acme_train"]


def test_a_cached_result_of_another_form_is_not_trusted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_project(folder, WRONG)
    check(capsys)
    (kept,) = (folder.parent / "cache/.lintrain_cache/packages").iterdir()
    kept.write_bytes(kept.read_bytes().replace(b'"size=3"', b'"sise=3"'))
    (folder / "train.py").write_text(f"{WRONG}\nprint('another text')\n")
    assert check(capsys) == ONE


def test_without_an_environment_nothing_is_read_and_nothing_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    (folder / "train.py").write_text(WRONG)
    run(["check", "--select", "unknown-argument", "--output-format", "concise", "--no-cache", "train.py"])
    output = capsys.readouterr()
    assert "acme" not in output.out + output.err
    assert asked == []


def test_a_package_that_does_not_build_on_a_library_of_training_is_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    make_project(folder, WRONG)
    optional = "Name: {0}\nVersion: {1}\nRequires-Dist: torch-like\nRequires-Dist: torch>=2; extra == 'train'\n"
    install(folder, "acme_train", "1.2.0", {}, optional)
    assert check(capsys) == []
    assert asked == []


def test_an_editable_installation_is_found_by_its_path(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_project(folder, WRONG)
    elsewhere = folder.parent / "checkout"
    elsewhere.mkdir()
    (folder / SITE / "acme_train").rename(elsewhere / "acme_train")
    (folder / SITE / "acme.pth").write_text(f"import os; os.mkdir('ran')\n{elsewhere}\n")
    assert check(capsys) == ONE
    assert not (folder / "ran").exists()


def test_one_run_reads_few_packages(
    folder: Path, capsys: pytest.CaptureFixture[str], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lintrain.installed.packages.MOST_PACKAGES", 1)
    make_project(folder, "from aaa import A\n" + WRONG)
    install(folder, "aaa", "1.0", {"__init__.py": "A = 1\n"})
    assert check(capsys) == []
    assert asked == ["aaa"]


def test_a_reading_that_hangs_is_given_up_and_asked_again_another_time(
    folder: Path, capsys: pytest.CaptureFixture[str], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(folder, WRONG)
    monkeypatch.setattr(process, "SECONDS", 0.5)
    with monkeypatch.context() as hanging:
        hanging.setattr(process, "PROGRAM", "import time; time.sleep(100)")
        began = time.monotonic()
        assert check(capsys) == []
        assert time.monotonic() - began < 20
    monkeypatch.setattr(process, "SECONDS", 60)
    assert check(capsys) == ONE
    assert asked == ["acme_train", "acme_train"]


def test_the_process_that_checks_never_imports_astroid(folder: Path) -> None:
    make_project(folder, WRONG)
    program = (
        "import sys; from lintrain.cli import run; run(['check', '--no-cache', '--quiet', 'train.py']);"
        "print([name for name in sys.modules if name.startswith(('astroid', 'acme'))])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    assert "has no argument `sise`" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("required", "is_read"),
    [("acme-train==1.2.0", True), ("acme-train>=2", False), ("acme_train==0.9", False), ("other==0.9", True)],
)
def test_a_package_that_is_installed_for_lintrain_is_read_if_the_project_allows_its_version(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    required: str,
    is_read: bool,
) -> None:
    make_project(folder, WRONG)
    (folder / ".venv").rename(folder.parent / "tools")
    (folder / "requirements.txt").write_text(f"{required}\n")
    site = folder.parent / "tools/lib/python3.11/site-packages"
    monkeypatch.setattr("lintrain.installed.packages.running_environment", lambda: Environment((str(site),), RUNNING))
    check(capsys)
    assert asked == ["acme_train"] * is_read
