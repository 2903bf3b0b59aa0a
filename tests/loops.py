"""What tests of plain loops share: the pipeline of a script, and the lines on which one rule reports."""

from __future__ import annotations

from textwrap import dedent

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
    checked = next(each.rule for each in load_rules() if each.name == rule)
    findings = checked.check(pipeline_of(PRELUDE + dedent(code).lstrip("\n")))
    return [finding.place.line - PRELUDE.count("\n") for finding in findings]


def acts_of(code: str, *acts: Act) -> list[Event]:
    return pipeline_of(PRELUDE + dedent(code).lstrip("\n")).acts(*acts)
