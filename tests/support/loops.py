"""What tests of plain loops share: the pipeline of a script, and the lines on which one rule reports."""

from __future__ import annotations

from textwrap import dedent

from lintrain.knowledge.versions import TargetVersions
from lintrain.model.fixes import Fix, Replace
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.read import read_pipeline
from lintrain.rule import Rule
from lintrain.rulebook import load_rules
from lintrain.source.source import Source

PRELUDE = """\
import torch
import torch.nn.functional as F
from torch import nn, optim
"""

MADE = """
net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters())
"""
"""A model with layers that differ between the modes, and its optimizer."""

TRAINS = "        optimizer.zero_grad()\n        F.cross_entropy(net(x), y).backward()\n        optimizer.step()\n"
"""The body of a loop over batches that trains it."""

OWN_MODULE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 3))

    def forward(self, x):
        return self.layers(x)

net = Net()
optimizer = optim.Adam(net.parameters())
for epoch in range(3):
    for x, y in loader:
        net.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
"""
"""A model of the script's own class, trained for some epochs."""


def pipeline_of(code: str) -> Pipeline:
    return read_pipeline(Source("train.py", dedent(code)), TargetVersions())


def lines_of(rule: str, code: str) -> list[int]:
    """The lines that a rule reports, counted from the first of the code below the usual imports."""
    findings = _rule(rule).check(_read(code))
    return [finding.location.line - PRELUDE.count("\n") for finding in findings]


def fixes_of(rule: str, code: str, *, prelude: str = PRELUDE) -> list[Fix]:
    """The fixes that a rule offers for code below the usual imports, or other ones."""
    checked = _rule(rule)
    return [fix for finding in checked.check(_read(code, prelude)) if (fix := checked.fix(finding))]


def codes_of(rule: str, code: str) -> list[str]:
    """The code that a rule's fixes put in the stead of other code."""
    return [edit.code for fix in fixes_of(rule, code) for edit in fix.edits if isinstance(edit, Replace)]


def related_of(rule: str, code: str) -> list[tuple[int, str]]:
    """The lines below the usual imports that explain a rule's findings, each with what it says there."""
    reasons = [reason for finding in _rule(rule).check(_read(code)) for reason in finding.related]
    return [(reason.location.line - PRELUDE.count("\n"), reason.note) for reason in reasons]


def helps_of(rule: str, code: str) -> list[str]:
    """What a rule advises for code below the usual imports."""
    return [finding.help for finding in _rule(rule).check(_read(code))]


def _rule(name: str) -> Rule:
    return next(each.rule for each in load_rules() if each.name == name)


def _read(code: str, prelude: str = PRELUDE) -> Pipeline:
    return pipeline_of(prelude + dedent(code).lstrip("\n"))


def acts_of(code: str, *acts: Act) -> list[Event]:
    return list(_read(code).acts(*acts))
