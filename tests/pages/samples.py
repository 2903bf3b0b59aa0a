"""The samples of a rule beside its page: code close to its mistake, each with what the rule must say of it.

`tests/samples/<rule>.md` holds blocks of code that start with a line of three backticks and `python`; the text between
them tells what they show. An example may use the names that a page's may. A line that ends in `# <-` is reported, with
the words behind the arrow in its message, its help or a reason; every other line is not. A block of `python mended`
is what the fixes make of the block before it; `python torch==2.4.0` reads for versions that are not the installed ones.
The words may start with the line of a reason (`3 made here`, counted in the block). Samples are read and never run.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

from lintrain.check.assumptions import findings
from lintrain.check.result import Reported
from lintrain.fix import apply
from lintrain.knowledge.versions import TargetVersions, exactly
from lintrain.model.finding import Finding
from lintrain.read import read_pipeline
from lintrain.rulebook import RuleFile
from lintrain.source.source import Source
from tests.pages.assembly import Script, assemble
from tests.pages.demands import PAGE, differences, imports_of, installed_versions, same_code

FOLDER = Path(__file__).parent.parent / "samples"
BLOCK = re.compile(r"^```python(?P<words>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"# <-(?: (?P<words>.+?))?\s*$")

NOTHING_DOWNLOADED = dict.fromkeys(("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE"), str(FOLDER / "downloads"))


@dataclass(frozen=True, slots=True)
class Sample:
    """One block of code, the line of its file that it starts on, the versions that it is for, and what it becomes."""

    line: int
    code: str
    versions: tuple[tuple[str, str], ...] = ()
    mended: str | None = None

    @property
    def targets(self) -> TargetVersions:
        """The versions that it is read for: those that it names, else what is installed."""
        return exactly(**dict(self.versions)) if self.versions else installed_versions()


def path_of(rule: RuleFile) -> Path:
    """Where a rule's samples are, if it has any."""
    return FOLDER / f"{rule.name}.md"


def misreads_samples(rule: RuleFile) -> list[str]:
    """What the rule says otherwise of its samples than they demand."""
    return [
        f"{path_of(rule).name}:{sample.line}: {complaint}"
        for sample in samples_of(path_of(rule))
        for complaint in _complaints(rule, sample)
    ]


def findings_of(rule: RuleFile) -> list[Finding]:
    """What the rule reports in its samples, with its own reason, or with none."""
    read = (
        (assemble(sample.code, sharing=sample.mended or ""), sample.targets) for sample in samples_of(path_of(rule))
    )
    return [one.finding for script, targets in read for one in _reported(rule, script, targets)]


@cache
def samples_of(path: Path) -> tuple[Sample, ...]:
    """The samples of a file; none where there is no such file."""
    found: list[Sample] = []
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for block in BLOCK.finditer(text):
        words, code = block["words"].split(), block["code"]
        if words == ["mended"]:
            last = found.pop()
            found.append(Sample(last.line, last.code, last.versions, code))
        else:
            versions = tuple(_version(word) for word in words)
            found.append(Sample(text.count("\n", 0, block.start()) + 1, code, versions))
    return tuple(found)


def _version(word: str) -> tuple[str, str]:
    package, found, version = word.partition("==")
    if not found:
        raise ValueError(f"`{word}` behind `python`: neither `mended` nor a version as in `torch==2.4.0`")
    return package, version


def _complaints(rule: RuleFile, sample: Sample) -> Iterator[str]:
    script = assemble(sample.code, sharing=sample.mended or "")
    reported = _reported(rule, script, sample.targets)
    wanted = {number: match["words"] or "" for number, match in _marks(script)}
    yield from differences(Counter(one.finding.location.line for one in reported), list(wanted), script)
    for one in reported:
        words = wanted.get(one.finding.location.line, "")
        said = _said(one, script)
        if not any(words in each for each in said):
            yield f"`{words}` is not said: {' | '.join(said)}"
    if sample.mended is not None:
        fixed = apply(script.text, [one.fix for one in reported if one.fix])
        mended = assemble(sample.mended, sharing=sample.code).text
        if not same_code(fixed, mended, unused=imports_of(script.text)):
            yield f"its fixes give other code:\n{fixed}"


@mock.patch.dict(os.environ, NOTHING_DOWNLOADED)
def _reported(rule: RuleFile, script: Script, targets: TargetVersions) -> list[Reported]:
    """What the rule says where nothing was downloaded: else a data set or a model of that name would be looked at."""
    pipeline = read_pipeline(Source(PAGE, script.text), targets)
    if pipeline.is_exhausted:
        raise AssertionError("not read: out of steps")
    return [Reported(finding, rule.rule.fix(finding)) for finding in findings(rule.rule, pipeline)]


def _marks(script: Script) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in enumerate(script.text.splitlines(), start=1):
        if match := MARK.search(line):
            yield number, match


def _said(one: Reported, script: Script) -> list[str]:
    """Message, help, and reasons with their lines in the sample."""
    reasons = [f"{reason.location.line - script.prelude_lines} {reason.note}" for reason in one.finding.related]
    return [one.finding.message, one.finding.help, *reasons]
