"""What is shipped: the wheel, the words that rules import, and what the static half must never load."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import lintrain
import lintrain.rule
from lintrain.rulebook import RuleFile, rule_paths
from tests.support.stages import EVERY_STAGE

ROOT = Path(__file__).parent.parent
HEAVY = {"torch", "transformers", "datasets", "keras", "lightning", "accelerate", "numpy", "libcst", "rich", "pydantic"}


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_rule_file(wheel_files: set[str]) -> None:
    shipped = {name.removeprefix("lintrain/rules/") for name in wheel_files if name.startswith("lintrain/rules/")}
    wanted = {path.relative_to(ROOT / "rules").as_posix() for path in rule_paths(ROOT / "rules")}
    assert len(wanted) > 0
    assert wanted <= shipped


def test_the_wheel_holds_every_file_of_the_package(wheel_files: set[str]) -> None:
    tracked = subprocess.run(["git", "ls-files", "lintrain"], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = {name for name in tracked.stdout.splitlines() if (ROOT / name).is_file()}
    assert any(name.startswith("lintrain/knowledge/") and not name.endswith(".py") for name in wanted)
    assert wanted - wheel_files == set()


def test_the_wheel_holds_its_licence_and_no_tests(wheel_files: set[str]) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in wheel_files)
    assert not [name for name in wheel_files if name.startswith(("tests/", "tools/", "fixtures/", "benchmarks/"))]


def test_a_plain_install_brings_no_library_of_training() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = " ".join(project["dependencies"])
    assert not [name for name in ("torch", "transformers", "datasets", "keras", "numpy") if name in wanted]


def test_every_public_word_can_be_imported() -> None:
    assert {"probe", "training_run"} <= set(lintrain._MODULES)
    assert [name for name in lintrain._MODULES if getattr(lintrain, name, None) is None] == []
    assert len(lintrain._MODULES) + len(lintrain.rule.__all__) <= 60


def test_type_checkers_see_the_same_words_as_programs() -> None:
    seen = {
        alias.asname
        for node in ast.walk(ast.parse(Path(lintrain.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lintrain.")
        for alias in node.names
    }
    assert seen == {"__version__", *lintrain._MODULES}


def test_a_word_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Helper'"):
        lintrain.Helper  # noqa: B018 - looking it up is the test


@EVERY_STAGE
def test_a_rule_imports_only_public_words_and_the_standard_library(rules: list[RuleFile]) -> None:
    imported = [(rule.name, name) for rule in rules for name in _imported(ast.parse(rule.path.read_text()))]
    assert imported
    assert [(rule, name) for rule, name in imported if not _is_open_to_rules(name)] == []


def _imported(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.append(f"{'.' * node.level}{node.module or ''}")
    return names


def _is_open_to_rules(module: str) -> bool:
    rooms = ("rule", "analysis", "pipeline", "interpreter", "knowledge", "evidence", "source", "text")
    is_open = any(module == f"lintrain.{room}" or module.startswith(f"lintrain.{room}.") for room in rooms)
    return is_open or module.partition(".")[0] in sys.stdlib_module_names


def test_the_words_of_a_rule_load_nothing_heavy() -> None:
    code = "import sys; from lintrain.rule import Rule, Finding, Verdict, Evidence; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert HEAVY & set(loaded.split()) == set()


def test_a_check_without_findings_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n\nmodel = torch.nn.Linear(2, 2)\n")
    code = (
        "import sys\nfrom lintrain.cli import main\nsys.argv = ['lintrain', 'check', '--isolated', 'train.py']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code in (0, None), end.code\n"
        "print('loaded:', *sys.modules)"
    )
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert HEAVY & set(done.stdout.partition("loaded:")[2].split()) == set()


OBSERVED = """
import sys
opened = []
sys.addaudithook(lambda event, given: event == "open" and isinstance(given[0], str) and opened.append(given[0]))
from lintrain.cli import main
sys.argv = ["lintrain", "check", "--isolated", "train.py"]
try:
    main()
except SystemExit as end:
    assert end.code == 1, end.code
print("opened:", *opened, sep="\\n")
print("loaded:", *sys.modules, sep="\\n")
"""

SETS_ATTRIBUTES = """
import datasets
import torch
from transformers import Trainer, TrainingArguments, AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased")
model.config.use_cache = False
args = TrainingArguments("out", evaluation_strategy="epoch")
args.seed = torch.initial_seed()
trainer = Trainer(model, args)
trainer.state.epoch = 0
"""


def test_a_check_opens_no_file_of_an_installed_library_and_imports_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SETS_ATTRIBUTES)
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", OBSERVED], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    opened, _, loaded = done.stdout.partition("opened:\n")[2].partition("loaded:\n")
    libraries = {"torch", "transformers", "datasets", "numpy"}
    read = [path for path in opened.split("\n") if libraries & set(Path(path).parts) and "site-packages" in path]
    assert read == []
    assert "train.py" in {Path(path).name for path in opened.split("\n")}
    assert libraries & set(loaded.split()) == set()
