"""What tests of plain loops share: the pipeline of a script, and the lines on which one rule reports."""

from __future__ import annotations

from textwrap import dedent

from lintrain.core.fix import Fix
from lintrain.core.rule import Rule
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.pipeline import Pipeline
from lintrain.pipeline.reader import read_pipeline
from lintrain.rulebook import load_rules
from lintrain.source.source import Source

PRELUDE = """\
import torch
import torch.nn.functional as F
from torch import nn, optim
"""


def pipeline_of(code: str) -> Pipeline:
    return read_pipeline(Source("train.py", dedent(code)), TargetVersions())


def lines_of(rule: str, code: str) -> list[int]:
    """The lines that a rule reports, counted from the first of the code below the usual imports."""
    findings = _rule(rule).check(_read(code))
    return [finding.place.line - PRELUDE.count("\n") for finding in findings]


def fixes_of(rule: str, code: str) -> list[Fix]:
    """The fixes that a rule offers for code below the usual imports."""
    checked = _rule(rule)
    return [fix for finding in checked.check(_read(code)) if (fix := checked.fix(finding))]


def _rule(name: str) -> Rule:
    return next(each.rule for each in load_rules() if each.name == name)


def _read(code: str) -> Pipeline:
    return pipeline_of(PRELUDE + dedent(code).lstrip("\n"))


def acts_of(code: str, *acts: Act) -> list[Event]:
    return _read(code).acts(*acts)
