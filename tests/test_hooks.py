"""The hooks of `.pre-commit-hooks.yaml` under the real pre-commit and the real prek.

The normal run starts them with this Python (`language: system`). With `LINTRAIN_HOOKS=1` they are installed as users
get them, into an environment of their own from the package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from tests.support.notebooks import notebook

ROOT = Path(__file__).parent.parent
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
HOOKS: list[dict[str, Any]] = yaml.safe_load(MANIFEST.read_text())  # Any: whatever YAML holds
FILES = {
    "clean.py": "import torch\n",
    "broken.py": "import torch\nprint(undefined)\n",
    "n.ipynb": notebook("import torch\nprint(undefined)"),
    "third_party/broken.py": "import torch\nprint(undefined)\n",
    "README.md": "words\n",
    "lintrain.toml": 'extend-exclude = ["third_party"]\n',
    "main.py": "from pieces import corpus\n"
    "from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments\n"
    "model = AutoModelForSequenceClassification.from_pretrained('bert-base-cased', num_labels=3)\n"
    "trainer = Trainer(model, TrainingArguments('out'), train_dataset=corpus['train'])\n"
    "trainer.train()\n",
    "pieces.py": "from datasets import load_dataset\ncorpus = load_dataset('glue', 'mnli')\n",
    "settings.py": "from transformers import TrainingArguments\n"
    "args = TrainingArguments('out', evaluation_strategy='epoch')\n",
}


@pytest.fixture(params=["pre-commit", "prek"])
def runner(request: pytest.FixtureRequest) -> str:
    program = Path(sys.executable).parent / request.param
    found = str(program) if program.is_file() else shutil.which(request.param)
    assert found, f"{request.param} is not installed; the extra `test` brings it"
    return found


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    hooks = [{**hook, "language": "system", "entry": f"{sys.executable} -m {hook['entry']}"} for hook in HOOKS]
    write(
        tmp_path, {**FILES, ".pre-commit-config.yaml": yaml.safe_dump({"repos": [{"repo": "local", "hooks": hooks}]})}
    )
    return tmp_path


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def ran(runner: str, folder: Path, *words: str, name: str = "lintrain") -> tuple[int, str]:
    locations = {"PRE_COMMIT_HOME": str(folder.parent / "pc"), "PREK_HOME": str(folder.parent / "prek")}
    environment = {**os.environ, **locations, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    command = [runner, "run", name, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_manifest_is_one_that_pre_commit_takes(runner: str) -> None:
    command = [runner, "validate-manifest", str(MANIFEST)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert [hook["id"] for hook in HOOKS] == ["lintrain", "lintrain-fix", "lintrain-probe"]


LOOP = """\
import torch

net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 3, (8,)))
CLEAR    loss.backward()
    optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.libraries
def test_the_probe_runs_on_request_only_and_fails_on_a_confirmed_mistake(runner: str, tmp_path: Path) -> None:
    (hook,) = [each for each in HOOKS if each["id"] == "lintrain-probe"]
    mine = {**hook, "language": "system", "entry": f"{sys.executable} -m {hook['entry']}", "args": ["train.py"]}
    files = {
        "train.py": LOOP.replace("CLEAR", ""),
        ".pre-commit-config.yaml": yaml.safe_dump({"repos": [{"repo": "local", "hooks": [mine]}]}),
    }
    write(tmp_path, files)
    assert "Failed" not in ran(runner, tmp_path)[1]
    manual = ("--hook-stage", "manual", "--all-files")
    code, text = ran(runner, tmp_path, *manual, name="lintrain-probe")
    assert (code, "missing-zero-grad" in text) == (1, True), text
    (tmp_path / "train.py").write_text(LOOP.replace("CLEAR", "    optimizer.zero_grad()\n"))
    code, text = ran(runner, tmp_path, *manual, name="lintrain-probe")
    assert code == 0, text


@pytest.mark.slow
def test_scripts_and_notebooks_that_are_passed_are_checked(runner: str, repository: Path) -> None:
    code, said = ran(runner, repository, "--files", "broken.py", "n.ipynb", "clean.py")
    assert code == 1
    assert "broken.py:2:7: error[undefined-name]" in said
    assert "n.ipynb:cell 1:2:7: error[undefined-name]" in said
    assert "main.py" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "shown"),
    [(["README.md"], "Skipped"), (["third_party/broken.py"], "Passed"), (["clean.py"], "Passed")],
)
def test_a_commit_without_scripts_or_with_excluded_ones_passes(
    runner: str, repository: Path, files: list[str], shown: str
) -> None:
    code, said = ran(runner, repository, "--files", *files)
    assert (code, shown in said) == (0, True)


@pytest.mark.slow
def test_modules_that_are_not_passed_are_read_all_the_same(runner: str, repository: Path) -> None:
    code, said = ran(runner, repository, "--files", "main.py")
    assert code == 1
    assert "error[raw-dataset] `corpus['train']` is passed to Trainer without token ids" in said


@pytest.mark.slow
def test_the_fixing_hook_writes_safe_fixes_and_fails(runner: str, repository: Path) -> None:
    code, said = ran(runner, repository, "--files", "settings.py", name="lintrain-fix")
    assert code == 1
    assert "1 finding fixed" in said
    assert "eval_strategy='epoch'" in (repository / "settings.py").read_text()
    code, said = ran(runner, repository, "--files", "settings.py", name="lintrain-fix")
    assert (code, "Passed" in said) == (0, True)


@pytest.mark.slow
@pytest.mark.skipif("LINTRAIN_HOOKS" not in os.environ, reason="LINTRAIN_HOOKS=1 installs the hooks from the index")
@pytest.mark.timeout(600)
def test_the_hooks_install_and_run_as_users_get_them(runner: str, tmp_path: Path) -> None:
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    hooks = [{"id": hook["id"]} for hook in HOOKS]
    config = {"repos": [{"repo": str(ROOT), "rev": revision.stdout.strip(), "hooks": hooks}]}
    write(tmp_path, {**FILES, ".pre-commit-config.yaml": yaml.safe_dump(config)})
    code, said = ran(runner, tmp_path, "--all-files")
    assert code == 1
    assert "n.ipynb:cell 1:2:7: error[undefined-name]" in said
    assert "third_party" not in said
    code, said = ran(runner, tmp_path, "--files", "clean.py")
    assert (code, "Passed" in said) == (0, True)
