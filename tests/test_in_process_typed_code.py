"""`lintrain.probe(…)` from code that was typed: its findings stand in the cell, or say that there is no line."""

from __future__ import annotations

import linecache
import subprocess
import sys
from typing import Any

import pytest

import lintrain
from lintrain.model.location import NOWHERE
from lintrain.runtime.child.frames import cell_name, is_typed
from tests.support.probing import path_for_lintrain

PARTS = """
import torch
import lintrain
from torch.utils.data import DataLoader, TensorDataset

net = torch.nn.Sequential(torch.nn.Linear(8, 3), torch.nn.Softmax(dim=1))
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(3, (64,))), batch_size=8)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

def loss(output, target):
    return torch.nn.functional.cross_entropy(output, target)

report = lintrain.probe(model=net, loader=loader, optimizer=optimizer, loss=loss)
"""


def typed(code: str, name: str) -> lintrain.Report:
    """What a prompt does with code: it compiles it under a name of its own, and keeps its lines."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "typed"}
    exec(compile(code, name, "exec"), names)
    report: lintrain.Report = names["report"]
    return report


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
def test_a_finding_stands_in_the_cell_that_it_is_about() -> None:
    report = typed(PARTS, "<ipython-input-7-0a1b2c3d4e5f>")
    assert [(str(finding.location), finding.rule) for finding in report.findings] == [
        ("In[7]:11:12", "softmax-before-cross-entropy")
    ]
    assert "return torch.nn.functional.cross_entropy(output, target)" in report.text()
    assert report.evidence is not None
    assert (report.evidence.script, report.evidence.notes[:1]) == ("In[7]", report.evidence.notes)
    broken = typed(PARTS.replace("target)\n", "target + 9)\n", 1), "<ipython-input-8-0a1b2c3d4e5f>")
    assert broken.evidence is not None
    assert broken.evidence.failure is not None
    assert broken.evidence.failure.code == "return torch.nn.functional.cross_entropy(output, target + 9)"


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
def test_a_finding_of_code_that_nobody_keeps_says_that_it_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    done = subprocess.run([sys.executable, "-c", PARTS + "print(report)"], capture_output=True, text=True, check=True)
    assert f"{NOWHERE}: error[softmax-before-cross-entropy]" in done.stdout
    assert f"{NOWHERE}:" not in done.stdout.replace(f"{NOWHERE}: ", "")
    said = " ".join(done.stdout.split())
    assert "note the calling code is in no file, so its findings have no line" in said


@pytest.mark.parametrize(
    ("path", "is_so", "name"),
    [
        ("<ipython-input-12-abcdef123456>", True, "In[12]"),
        ("<python-input-4>", True, None),
        ("/tmp/ipykernel_4321/99887766.py", True, None),
        ("<stdin>", False, None),
        ("<string>", False, None),
        ("/data/ipykernel_notes/train.py", False, None),
        ("train.py", False, None),
    ],
)
def test_what_was_typed_is_known_by_what_python_calls_it(path: str, is_so: bool, name: str | None) -> None:
    assert (is_typed(path), cell_name(path)) == (is_so, name)
