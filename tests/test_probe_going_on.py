"""A probe goes on after a failing stage: with the fix of what it confirmed, in memory, at the lines of the file."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lintrain.api.probing import probe_path
from lintrain.evidence.run import Evidence, Failure, Repair, Stage, StageName
from lintrain.model.location import Location
from lintrain.runtime.child.going_on import (
    Repaired,
    _as_at_first,  # pyright: ignore[reportPrivateUsage]
    compiled,
    forget_own_modules,
    let_go,
)
from lintrain.runtime.measure.objects.objects import Objects
from lintrain.runtime.parent.going_on import comes_further
from lintrain.verdicts.repairs import original_lines
from tests.support.probing import HEAD, REST, Probed, probe

LOOP = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rows, labels = torch.randn(64, 4), torch.randint(0, 2, (64,))
loader = DataLoader(TensorDataset(rows, labels), batch_size=8)
for epoch in range(2):
    for batch, target in loader:
        loss = nn.functional.cross_entropy(model(batch), target)
        loss.backward()
        optimizer.step()
"""
LIGHTNING = """
import lightning
import torch
from torch import nn
from torch.utils.data import TensorDataset

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def training_step(self, batch, index):
        rows, labels = batch
        return nn.functional.cross_entropy(self.layer(rows), labels)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

data = TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
trainer = lightning.Trainer(max_epochs=1)
trainer.fit(Net(), DataLoader(data, batch_size=8))
"""
KERAS = """
import keras
import numpy as np

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
model.compile(optimizer=keras.optimizers.Adam(lr=1e-3), loss="sparse_categorical_crossentropy")
model.fit(np.random.rand(64, 4), np.random.randint(0, 3, 64), batch_size=8, epochs=2)
"""
MODEL = 'AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)'
NO_FIX_KNOWN = (
    HEAD
    + "from sklearn.metrics import accuracy_score\nfrom transformers import default_data_collator\n"
    + "collate = [default_data_collator][0]\n"
    + REST.replace(MODEL, f"eval({MODEL.replace(', num_labels=3', '')!r})")
    .replace("DataCollatorWithPadding(tokenizer)", "collate")
    .replace(
        "float((np.argmax(prediction.predictions, axis=-1) == prediction.label_ids).mean())",
        "accuracy_score(prediction.label_ids, prediction.predictions)",
    )
    + "trainer.train()\n"
)


def runs_of(probed: Probed) -> list[dict[str, Any]]:
    return list(probed.document["probe"]["runs"])


def stages_of(run: dict[str, Any]) -> dict[str, str]:
    return {stage["name"]: stage["status"] for stage in run["stages"]}


def lines_of(run: dict[str, Any]) -> list[tuple[str, int]]:
    return [(repair["rule"], repair["location"]["line"]) for repair in run["repairs"]]


@pytest.fixture
def folder(tmp_path: Path, warm: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    return tmp_path


@pytest.mark.turns(one_in=3, of="file")
def test_a_loop_is_measured_after_a_name_that_is_missing_was_imported(folder: Path) -> None:
    probed = probe(folder, LOOP)
    first, *_, last = runs_of(probed)
    assert stages_of(first)["script"] == "failed"
    assert lines_of(first) == []
    assert {rule for rule, _ in lines_of(last)} == {"undefined-name"}
    assert stages_of(last)["step"] == "passed"
    confirmed = {rule: line for rule, line, outcome in probed.verdicts if outcome == "confirmed"}
    assert confirmed == {"undefined-name": 8, "missing-zero-grad": 12}
    assert probed.code == 1


def test_an_empty_dictionary_stays_one_for_the_processes_of_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    dill = pytest.importorskip("dill")
    main = ModuleType("__main__")
    main.__dict__["model"] = object()
    let_go(main)
    assert "model" not in vars(main)
    monkeypatch.setattr(dill._dill, "_main_module", main)  # as where it was imported in the run before
    assert dill.loads(dill.dumps({})) == {}
    assert dill.loads(dill.dumps({})) is not vars(main)
    assert b"__main__" not in dill.dumps({})


@pytest.mark.turns(one_in=3, of="file")
def test_a_verdict_that_rests_on_a_repaired_run_says_so_and_the_file_is_unchanged(folder: Path) -> None:
    probed = probe(folder, LOOP)
    reasons = {one["rule"]: one["verdict"]["reason"] for one in probed.document["findings"]}
    assert reasons["missing-zero-grad"].endswith("(with `from torch.utils.data import DataLoader` in line 8)")
    assert reasons["undefined-name"] == "NameError: name 'DataLoader' is not defined"
    assert (folder / "train.py").read_text() == LOOP


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.parametrize("script", [LIGHTNING, KERAS], ids=["lightning", "keras"])
def test_other_frameworks_are_measured_after_a_repair(folder: Path, script: str) -> None:
    first, *_, last = runs_of(probe(folder, script))
    assert stages_of(first)["step"] == "not reached"
    assert stages_of(last)["step"] == "passed", last["stages"]


def test_no_fix_of_a_line_behind_the_error_is_tried(folder: Path) -> None:
    script = "rows = open('no-such-file.json')\nfrom transformers import TrainingArguments\n"
    probed = probe(folder, script + "arguments = TrainingArguments('out', evaluation_strategy='epoch')\n")
    assert [rule for rule, _, outcome in probed.verdicts if outcome == "confirmed"] == ["removed-argument"]
    assert len(runs_of(probed)) == 1


@pytest.mark.turns(one_in=3, of="file")
def test_the_report_shows_what_was_tried_between_the_stages(folder: Path) -> None:
    text = probe(folder, LOOP, "--text").out
    assert "\n    tried   train.py:8: add `from torch.utils.data import " in text
    assert text.index("NameError") < text.index("tried") < text.index("✓ step")
    assert "the script's file is unchanged: fixes are tried in memory" in text


@pytest.mark.turns(one_in=3, of="file")
def test_a_stand_in_takes_the_place_of_what_fails_where_no_fix_is_known(folder: Path, assets: Path) -> None:
    probed = probe(folder, NO_FIX_KNOWN)
    *_, last = runs = runs_of(probed)
    tried = [repair["text"] for repair in last["repairs"] if repair["rule"] == "stand-in"]
    assert tried == ["a collator that pads", "a head of 3 outputs", "the class with the highest score for the metric"]
    assert set(stages_of(last).values()) == {"passed"}
    outcomes = {rule: outcome for rule, _, outcome in probed.verdicts}
    assert outcomes["unpadded-batch"] == "confirmed"
    failing = [next((name for name, status in stages_of(run).items() if status == "failed"), "") for run in runs]
    assert failing == ["batch", "forward", "evaluation", ""]
    assert "refuted" not in outcomes.values()


@pytest.mark.turns(one_in=3, of="file")
def test_a_program_gets_the_mistakes_behind_the_first_one_too(folder: Path) -> None:
    (folder / "train.py").write_text(LOOP)
    report = probe_path(folder / "train.py")
    assert [finding.rule for finding in report.findings] == ["undefined-name", "missing-zero-grad"]


def test_fix_writes_the_fixes_that_a_run_was_made_with(folder: Path) -> None:
    probed = probe(folder, LOOP, "--fix")
    written = (folder / "train.py").read_text()
    assert "from torch.utils.data import TensorDataset, DataLoader" in written
    assert "        optimizer.zero_grad()\n        loss.backward()" in written
    assert "lintrain: fixed 2 confirmed findings in train.py" in probed.err
    assert [lines_of(run) for run in runs_of(probed)][-1] == [("undefined-name", 8), ("missing-zero-grad", 12)]


def test_diff_shows_the_same_and_changes_nothing(folder: Path) -> None:
    probed = probe(folder, LOOP, "--text", "--diff")
    assert "+        optimizer.zero_grad()\n" in probed.out
    assert "lintrain: `--fix` would fix 2 confirmed findings" in probed.err
    assert (folder / "train.py").read_text() == LOOP


@pytest.mark.turns(one_in=3, of="file")
def test_a_fix_with_which_the_script_fails_sooner_is_not_written(folder: Path) -> None:
    checks = "import inspect, sys\nassert not hasattr(sys, 'ran'), 'ran twice'\nsys.ran = True\n"
    probed = probe(folder, checks + LOOP, "--fix")
    assert (folder / "train.py").read_text() == checks + LOOP
    assert "lintrain: no fix was tried and held; nothing is changed" in probed.err


def test_a_script_that_cannot_run_twice_in_a_process_keeps_the_verdicts_of_its_first_run(folder: Path) -> None:
    once = "import sys\nassert not hasattr(sys, 'ran'), 'ran twice'\nsys.ran = True\n"
    probed = probe(folder, once + LOOP)
    assert len(runs_of(probed)) == 1
    assert ("undefined-name", 11, "confirmed") in probed.verdicts
    assert "ran twice" not in probed.out


def test_an_answer_that_the_script_wrote_itself_is_not_taken(folder: Path) -> None:
    forged = """
import json, os
folder = os.path.dirname(os.environ["LINTRAIN_PROBE_REQUEST"])
with open(os.path.join(folder, "answer-1.json"), "w") as opened:
    json.dump({"path": "train.py", "text": "", "lines": [1], "argv": ["train.py"], "folder": "."}, opened)
    opened.write("\\n")
"""
    probed = probe(folder, forged + LOOP)
    assert all(not run["repairs"] for run in runs_of(probed))


def test_each_line_of_a_repaired_text_has_the_number_of_the_line_that_it_comes_from() -> None:
    assert original_lines("a\nb\nc\n", "new\na\nb2\nmore\nc\n") == (1, 1, 2, 2, 3, 4)


def test_an_error_of_the_repaired_text_is_at_the_line_of_the_file() -> None:
    text = "import os\nx = 1\ny = (\n    missing\n)\n"
    code = compiled(Repaired("train.py", text, (1, 1, 2, 3, 4, 5), (), "."))
    with pytest.raises(NameError) as caught:
        exec(code, {})
    assert caught.tb.tb_next is not None
    assert caught.tb.tb_next.tb_lineno == 3


FOUND = Evidence("train.py", "torch", "", None, None, "cpu", {})


def failing(name: StageName, line: int, message: str = "") -> Evidence:
    at = Location("train.py", line, 1, line, 2)
    failure = Failure("ValueError", message or f"in line {line}", at, reached=at)
    return replace(FOUND, stages=(Stage.failed(name, failure),))


@pytest.mark.parametrize(
    ("run", "before", "further"),
    [
        (FOUND, failing(StageName.SCRIPT, 5), True),
        (failing(StageName.SCRIPT, 6), failing(StageName.SCRIPT, 5), True),
        (failing(StageName.SCRIPT, 4), failing(StageName.SCRIPT, 5), False),
        (failing(StageName.SCRIPT, 5, "same"), failing(StageName.SCRIPT, 5, "same"), False),
        (failing(StageName.BATCH, 9), failing(StageName.SCRIPT, 5), True),
        (failing(StageName.SCRIPT, 6), failing(StageName.BATCH, 9), False),
        (failing(StageName.BATCH, 9, "one"), failing(StageName.FORWARD, 9, "other"), True),
    ],
)
def test_a_run_counts_if_it_comes_further_than_the_one_before(run: Evidence, before: Evidence, further: bool) -> None:
    assert comes_further(run, before) is further


def test_a_run_shows_nothing_about_a_finding_that_was_repaired() -> None:
    place = Location("train.py", 3, 1, 3, 9)
    run = replace(FOUND, repairs=(Repair("unpadded-batch", "pass `padding=True`", place),))
    assert run.is_repaired("unpadded-batch", place)
    assert not run.is_repaired("raw-dataset", place)
    assert run.repairs[0].code == "`padding=True`"


def test_objects_of_an_earlier_run_are_not_those_of_the_next() -> None:
    made, forgotten = ["earlier"], list[str]()
    objects = Objects()
    objects.add("splits", lambda _: list(made))
    objects.add("moved", lambda _: list(made), lambda: forgotten.append("moved"))
    objects.start_over()
    made.append("later")
    assert [str(each) for each in objects.evidence(forgotten.append, is_measured=True).splits] == ["later"]
    assert forgotten == ["moved"]


def test_what_libraries_begin_only_once_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    cleared: list[str] = []
    instance = SimpleNamespace(clear=lambda: cleared.append("hydra"))
    module = SimpleNamespace(GlobalHydra=SimpleNamespace(instance=lambda: instance))
    monkeypatch.setitem(sys.modules, "hydra.core.global_hydra", module)
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    with torch.no_grad():
        _as_at_first()
        assert torch.is_grad_enabled()
    assert not torch.distributed.is_initialized()
    assert cleared == ["hydra"]


def test_modules_of_the_project_begin_again_and_libraries_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept_groups.py").write_text("GROUPS = []\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    known = {**sys.modules}
    sys.modules.pop("kept_groups", None)
    importlib.import_module("kept_groups").GROUPS.append("a group")
    try:
        forget_own_modules()
        assert importlib.import_module("kept_groups").GROUPS == []
        assert {name for name in ("torch", "json", "lintrain.model.location") if name in sys.modules} == {
            name for name in ("torch", "json", "lintrain.model.location") if name in known
        }
    finally:
        sys.modules.update(known)
        sys.modules.pop("kept_groups", None)
