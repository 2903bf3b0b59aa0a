"""A run over scripts and the modules that they import: whose findings are whose, which scripts are worth a style."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lintrain.check.check_run import CheckRun
from lintrain.check.result import CheckResult
from lintrain.check.selection import CheckRequest, Choice, choose, known_names
from lintrain.check.tiers import rules_concerned
from lintrain.knowledge.versions import TargetVersions
from lintrain.report.text.findings import full
from lintrain.report.text.style import Style
from lintrain.rulebook import load_rules
from lintrain.source import project_search
from lintrain.source.project import Project
from lintrain.source.source import Source

FIT = """\
def fit(model, optimizer, batches):
    for batch in batches:
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
"""
"""Clears no gradients; what it is given tells that this is a training loop of torch."""

MAIN = """\
from tools import fit
from parts import model, optimizer

if __name__ == "__main__":
    fit(model, optimizer, [1, 2])
"""

PARTS = """\
import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"main.py": MAIN, "parts.py": PARTS, "tools.py": FIT}.items():
        Path(name).write_text(text, encoding="utf-8")
    return tmp_path


def request_of(*names: str, select: str = "missing-zero-grad") -> CheckRequest:
    rules = load_rules()
    selection = choose(
        known_names(rules), Choice("c", str(Path.cwd()), [select, "unused-suppression"]), Choice("l", "/")
    )
    return CheckRequest(names, rules, selection, lambda _: TargetVersions())


def found(outcome: CheckResult) -> list[str]:
    return [f"{one.finding.location} {one.finding.rule}" for one in outcome.reported]


def test_a_script_shows_what_is_wrong_in_its_module() -> None:
    outcome = CheckRun(request_of("main.py")).check()
    assert found(outcome) == ["tools.py:4:9 missing-zero-grad"]
    assert [file.path for file in outcome.files] == ["main.py", "tools.py"]


def test_the_texts_are_kept_that_findings_and_their_reasons_lie_in_but_no_tree() -> None:
    Path("apart.py").write_text(PARTS, encoding="utf-8")
    outcome = CheckRun(request_of("apart.py", "main.py", "parts.py", "tools.py")).check()
    assert outcome.sources.keys() == {"main.py", "parts.py", "tools.py"}
    assert outcome.files[3].source is outcome.sources["tools.py"]
    assert not any("tree" in vars(source) for source in outcome.sources.values())


def test_two_scripts_and_the_module_itself_say_it_once() -> None:
    Path("again.py").write_text(MAIN, encoding="utf-8")
    outcome = CheckRun(request_of("again.py", "main.py", "tools.py")).check()
    assert found(outcome) == ["tools.py:4:9 missing-zero-grad"]
    assert len(outcome.files) == 3


def test_a_module_under_another_spelling_of_its_path_is_the_same_file(files: Path) -> None:
    outcome = CheckRun(request_of("main.py", str(files / "tools.py"))).check()
    assert found(outcome) == [f"{files / 'tools.py'}:4:9 missing-zero-grad"]
    assert len(outcome.files) == 2


SCHEDULED = """\
import torch
from tools import fit

def main():
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    fit(model, optimizer, [1, 2], schedule=scheduler)

main()
"""


@pytest.mark.parametrize(("stepped", "said"), [("", ["main.py:7:17"]), ("        schedule.step()\n", [])])
def test_a_schedule_that_a_module_gets_and_does_not_step(stepped: str, said: list[str]) -> None:
    Path("main.py").write_text(SCHEDULED, encoding="utf-8")
    Path("tools.py").write_text(FIT.replace("batches):", "batches, schedule=None):") + stepped, encoding="utf-8")
    outcome = CheckRun(request_of("main.py", select="unstepped-scheduler")).check()
    assert found(outcome) == [f"{place} unstepped-scheduler" for place in said]


STAYS = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x) + torch.randn(8, 8)

def run(x, device):
    return Net().to(device)(x.to(device))
"""


@pytest.mark.parametrize(
    ("runner", "said"),
    [
        ("from net import run\nwith torch.device(device):\n    run(x, device)\n", []),
        ("import other\nwith torch.device(device):\n    run(x, device)\n", ["net.py:10:32 mixed-devices"]),
        ("from net import run\nrun(x, device)\n", ["net.py:10:32 mixed-devices"]),
    ],
)
def test_a_script_may_make_the_tensors_of_a_module_on_a_device(runner: str, said: list[str]) -> None:
    Path("net.py").write_text(STAYS, encoding="utf-8")
    Path("runs.py").write_text(f"import torch\n{runner}", encoding="utf-8")
    assert found(CheckRun(request_of("net.py", select="mixed-devices")).check()) == said


ON_THE_CPU = STAYS.partition("def run")[0]
TRAINS = "from net import Net\nnet = Net()\nnet(x).sum().backward()\ndevice = torch.device('cpu')\nprint(device)\n"


@pytest.mark.parametrize(
    ("trains", "said"), [(TRAINS, []), (f"{TRAINS}net.to(device)\n", ["net.py:10:32 mixed-devices"])]
)
def test_scripts_that_move_nothing_have_no_second_device(trains: str, said: list[str]) -> None:
    Path("net.py").write_text(ON_THE_CPU, encoding="utf-8")
    Path("runs.py").write_text(f"import torch\n{trains}", encoding="utf-8")
    assert found(CheckRun(request_of("net.py", select="mixed-devices")).check()) == said


KEEPS = ON_THE_CPU.replace("torch.randn(8, 8)", "self.shift").replace("(8, 8)\n", "(8, 8)\n        {shift}\n", 1)
PLAIN, TRAINED = "self.shift = torch.zeros(8)", "self.shift = torch.zeros(8, requires_grad=True)"


@pytest.mark.parametrize(
    ("shift", "trains", "is_said"),
    [(PLAIN, TRAINS, False), (PLAIN, f"{TRAINS}net.cuda()\n", True), (TRAINED, TRAINS, True)],
)
def test_a_tensor_of_a_network_that_scripts_never_move(shift: str, trains: str, *, is_said: bool) -> None:
    Path("net.py").write_text(KEEPS.format(shift=shift), encoding="utf-8")
    Path("runs.py").write_text(f"import torch\n{trains}torch.rand(2, device='cpu')\n", encoding="utf-8")
    said = ["net.py:8:9 unregistered-tensor"] if is_said else []
    assert found(CheckRun(request_of("net.py", select="unregistered-tensor")).check()) == said


@pytest.mark.parametrize(
    ("script", "said"),
    [("model = cfg['base_model']", []), ("print('base_model')", ["config.yaml:3:1 contradictory-settings"])],
)
def test_settings_of_a_script_are_not_those_of_a_tool(script: str, said: list[str]) -> None:
    text = "base_model: gpt2\nsequence_len: 512\nbatch_size: 4\ngradient_accumulation_steps: 4\nlora_r: 8\n"
    Path("config.yaml").write_text(text, encoding="utf-8")
    Path("train.py").write_text(f"{script}\n", encoding="utf-8")
    assert found(CheckRun(request_of("config.yaml", select="contradictory-settings")).check()) == said


SCALED = """import torch
from torch import nn

class Scaled(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1)).to(device)

    def forward(self, x):
        return x * self.scale
"""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('Scaled("cpu")', []),
        ('Scaled(device=torch.device("cpu"))', []),
        ('Scaled("cuda")', ["net.py:7:9 unregistered-tensor"]),
        ('Scaled("cuda" if torch.cuda.is_available() else "cpu")', ["net.py:7:9 unregistered-tensor"]),
        ('Other("cpu")', ["net.py:7:9 unregistered-tensor"]),
    ],
)
def test_a_parameter_that_a_script_leaves_on_the_cpu_is_registered(call: str, said: list[str]) -> None:
    Path("net.py").write_text(SCALED, encoding="utf-8")
    Path("runs.py").write_text(f"import torch\nfrom net import *\nnet = {call}\n", encoding="utf-8")
    assert found(CheckRun(request_of("net.py", select="unregistered-tensor")).check()) == said


def test_comments_in_the_module_silence_it() -> None:
    Path("tools.py").write_text(FIT.replace("backward()", "backward()  # lintrain: ignore"), encoding="utf-8")
    outcome = CheckRun(request_of("main.py")).check()
    assert found(outcome) == []
    assert sum(file.suppressed for file in outcome.files) == 1


def test_no_word_on_the_other_comments_of_a_module_that_was_not_asked_for() -> None:
    Path("tools.py").write_text(f"{FIT}x = 1  # lintrain: ignore[missing-step]\n", encoding="utf-8")
    assert found(CheckRun(request_of("main.py")).check()) == ["tools.py:4:9 missing-zero-grad"]


def test_a_module_that_was_not_asked_for_is_not_mended() -> None:
    (alone,) = CheckRun(request_of("main.py")).check().reported
    (both,) = CheckRun(request_of("main.py", "tools.py")).check().reported
    assert alone.fix is None
    assert both.fix is not None


def test_files_that_are_left_out_are_left_out_as_modules_too() -> None:
    request = replace(request_of("main.py"), excludes="tools.py".__eq__)
    assert found(CheckRun(request).check()) == []


def test_an_editor_hears_of_its_own_file_only() -> None:
    outcome = CheckRun(replace(request_of("main.py"), reports_modules=False)).check()
    assert found(outcome) == []
    assert [file.path for file in outcome.files] == ["main.py"]


def test_reasons_in_other_files_are_drawn_with_their_path() -> None:
    outcome = CheckRun(request_of("main.py")).check()
    text = "\n".join(full(outcome.reported, outcome.sources.get, Style(width=100)))
    lines = [line.strip() for line in text.splitlines()]
    above = next(index for index, line in enumerate(lines) if line.endswith("parts.py"))
    assert "optimizer = torch.optim.SGD" in lines[above + 1]


def worth(text: str) -> bool:
    return bool(rules_concerned(load_rules(), Source("main.py", text), Project(), TargetVersions))


def test_a_script_is_read_for_the_modules_that_it_imports() -> None:
    Path("trains.py").write_text("import torch\ndef f(loss): loss.backward()", encoding="utf-8")
    assert worth("from trains import f\nf(1)")
    assert worth("import trains\nif __name__ == '__main__':\n    trains.f(1)")


REFIT = """\
from sklearn.{module} import {learner}
from sklearn.neighbors import KNeighborsClassifier

learner = {learner}()
x_train = learner.fit_transform(x_train)
x_test = learner.{method}(x_test)
print(KNeighborsClassifier().fit(x_train, y_train).predict(x_test))
"""


@pytest.mark.parametrize(("module", "learner"), [("preprocessing", "StandardScaler"), ("decomposition", "PCA")])
def test_a_file_that_only_uses_scikit_learn_is_judged(module: str, learner: str) -> None:
    for method, expected in (("fit_transform", ["alone.py:6:10 refitted-preprocessor"]), ("transform", [])):
        text = REFIT.format(module=module, learner=learner, method=method)
        Path("alone.py").write_text(text, encoding="utf-8")
        assert found(CheckRun(request_of("alone.py", select="refitted-preprocessor")).check()) == expected


SCORED = """\
import numpy as np
from sklearn.{module} import {name}{alias}
from sklearn.svm import SVC

y_pred = SVC().fit(x_train, y_train).predict(x_test)
answer = np.max(y_pred)
print({call}(y_pred, y_test))
"""


@pytest.mark.parametrize("alias", ["", " as auc"])
def test_a_file_without_training_is_read_for_a_metric_that_it_names(alias: str) -> None:
    call = alias.rpartition(" ")[2] or "roc_auc_score"
    text = SCORED.format(module="metrics", name="roc_auc_score", alias=alias, call=call)
    Path("alone.py").write_text(text, encoding="utf-8")
    swapped = CheckRun(request_of("alone.py", select="swapped-metric-arguments")).check()
    assert found(swapped) == ["alone.py:7:7 swapped-metric-arguments"]
    other = SCORED.format(module="base", name="clone", alias="", call="print")
    names = {rule.name for rule in rules_concerned(load_rules(), Source("alone.py", other), None, TargetVersions)}
    assert not names & {"swapped-metric-arguments", "argmax-without-axis"}


def test_a_file_that_runs_nothing_is_not_read_for_its_imports() -> None:
    Path("trains.py").write_text("import torch\ndef f(loss): loss.backward()", encoding="utf-8")
    assert not worth("from trains import f\n\ndef g():\n    f(1)")


@pytest.mark.parametrize("module", ["x = 1", "import torch\nx = torch.ones(2)", "x = ("])
def test_a_script_is_not_read_for_modules_that_do_not_train(module: str) -> None:
    Path("other.py").write_text(module, encoding="utf-8")
    assert not worth("from other import x\nprint(x)")


def test_nothing_is_looked_for_beside_a_script_without_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("main.py", "print('hello')")
    assert not rules_concerned(load_rules(), source, Project(), TargetVersions)
    assert "tree" not in vars(source)


def test_a_package_that_imports_everything_from_itself_is_read(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from .loop import fit\nfrom . import *\n", encoding="utf-8")
    (package / "loop.py").write_text(f"import torch\nimport package\n\n{FIT}", encoding="utf-8")
    imports = "import package\nfrom package import fit\nfrom parts import model, optimizer\n\n"
    main = f"{imports}fit(model, optimizer, package.absent)\n"
    (tmp_path / "main.py").write_text(main, encoding="utf-8")
    outcome = CheckRun(request_of("main.py")).check()
    assert found(outcome) == ["package/loop.py:7:9 missing-zero-grad"]


OPTIONS = """\
import argparse

import torch
from engine import Engine, weights

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
Engine(weights(options), settings=options).run()
"""
"""What reads `lr` and `dropout` gets them as an argument, and `epochs` is read of what an object has kept."""

ENGINE = """\
import torch
from steps import every_epoch


class Engine:
    def __init__(self, model, settings):
        self.model, self.batches = model, [torch.zeros(1, 2)]
        self.settings = settings
        self.optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr)

    def run(self):
        every_epoch(self)


def weights(given):
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(given.dropout))
"""

STEPS = """\
def every_epoch(engine):
    for epoch in range(engine.settings.epochs):
        for batch in engine.batches:
            engine.optimizer.zero_grad()
            engine.model(batch).sum().backward()
            engine.optimizer.step()
"""


@pytest.mark.parametrize(
    ("engine", "unread"),
    [
        (ENGINE, ["--momentum", "--seed"]),
        (ENGINE.replace("given.dropout", "0.5"), ["--dropout", "--momentum", "--seed"]),
        (ENGINE.replace("self.settings = settings", "self.settings = settings\n        prepare(settings)"), []),
        (ENGINE.replace("self.settings = settings", "self.__dict__.update(vars(settings))"), []),
        (ENGINE.replace("class Engine:", "class Engine(Base):"), ["--momentum", "--seed"]),
        (ENGINE.replace("def __init__(self, model, settings)", "def __init__(self, model, **settings)"), []),
        (None, []),
    ],
)
def test_options_are_followed_into_the_files_that_get_them(engine: str | None, unread: list[str]) -> None:
    for name, text in {"main.py": OPTIONS, "engine.py": engine, "steps.py": STEPS}.items():
        if text is not None:
            Path(name).write_text(text, encoding="utf-8")
    outcome = CheckRun(request_of("main.py", select="stuck-option")).check()
    assert [one.finding.subject for one in outcome.reported] == unread


def test_one_of_too_many_scripts_may_give_an_object_an_attribute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text("import torch\n", encoding="utf-8")
    script = str(tmp_path / "a.py")
    assert not project_search.scripts_give(script, "Network", "scale")
    monkeypatch.setattr(project_search, "MOST_ASKED", 1)
    assert project_search.scripts_give(script, "Network", "scale")


BUILDS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(x)

def build():
    return {made}
"""
MOVES_BATCHES = """
import torch
from nets import build
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = build()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in rows:
    loss = torch.nn.functional.cross_entropy(net(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "said"), [("Net()", ["train.py:8:46 mixed-devices"]), ("Net().cuda()", []), ("Net().to('cuda')", [])]
)
def test_a_function_of_another_file_may_move_the_network_that_it_makes(made: str, said: list[str]) -> None:
    Path("nets.py").write_text(BUILDS.format(made=made), encoding="utf-8")
    Path("train.py").write_text(MOVES_BATCHES, encoding="utf-8")
    assert found(CheckRun(request_of("train.py", select="mixed-devices")).check()) == said
