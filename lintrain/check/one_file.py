"""The check of one source: it depends on nothing but its arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from lintrain.builtin import SYNTAX_ERROR, UNREADABLE_FILE, Builtin
from lintrain.check.outcome import Crash, Reported
from lintrain.check.tiers import rules_concerned
from lintrain.core.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.core.finding import Finding
    from lintrain.core.fix import Fix
    from lintrain.core.place import Place
    from lintrain.knowledge.versions import TargetVersions
    from lintrain.pipeline.pipeline import Pipeline
    from lintrain.rulebook import RuleFile
    from lintrain.source.project import Project
    from lintrain.source.source import Source

READER = "reader"

GRAMMAR = f"nothing can run or be read here, says the grammar of Python {sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What the rules say of one source, before the author's suppressions are heard.

    `modules` are the other files that were read for it, by their paths; findings may lie in them. `training` are the
    places where training starts, in whichever file.
    """

    reported: tuple[Reported, ...] = ()
    crashes: tuple[Crash, ...] = ()
    is_exhausted: bool = False
    is_broken: bool = False
    modules: Mapping[str, Source] = field(default_factory=dict[str, "Source"])
    training: tuple[Place, ...] = ()

    @property
    def rules_were_heard(self) -> bool:
        """Whether the rules could say something of the source."""
        return not self.is_exhausted and all(crash.rule != READER for crash in self.crashes)


def check_source(
    source: Source,
    rules: Sequence[RuleFile],
    find_targets: Callable[[], TargetVersions],
    project: Project | None = None,
    go_on: Callable[[], None] = lambda: None,
) -> Reading:
    """What the rules say of one source and of the modules read for it; one that does not parse gives its syntax error.

    Without a project its imports are not followed. `go_on` is called now and then, and may raise to end the check:
    no Exception, for those are taken for faults of the reader or of a rule.
    """
    if source.is_too_large:
        return Reading(is_exhausted=True)
    broken = parse_problem(source)
    if broken:
        return Reading((Reported(broken),), is_broken=True)
    heard = rules_concerned([rule for rule in rules if rule.reads_text], source, project, find_targets)
    if not heard:
        return Reading()
    from lintrain.pipeline.reader import read_pipeline

    targets = find_targets()
    try:
        pipeline = read_pipeline(source, targets, project, go_on)
    except Exception as error:  # noqa: BLE001 - a file that the reader fails on is named, and the others are still read
        return Reading(crashes=(Crash(source.path, READER, f"{type(error).__name__}: {error}"),))
    try:
        if pipeline.is_exhausted:
            return Reading(is_exhausted=True)
        return _heard(pipeline, heard, go_on)
    finally:
        pipeline.circles.end()


def _heard(pipeline: Pipeline, rules: Sequence[RuleFile], go_on: Callable[[], None]) -> Reading:
    """What the rules say of a script that was read."""
    reported: list[Reported] = []
    crashes: list[Crash] = []
    for rule in _concerned(pipeline, rules):
        go_on()
        try:
            reported.extend(_ask(rule, pipeline))
        except Exception as error:  # noqa: BLE001 - a rule that fails is named, and the others are still heard
            crashes.append(Crash(pipeline.source.path, rule.name, f"{type(error).__name__}: {error}"))
    training = tuple(training_places(pipeline))
    return Reading(tuple(reported), tuple(crashes), modules=_modules(pipeline), training=training)


def _concerned(pipeline: Pipeline, rules: Sequence[RuleFile]) -> Iterator[RuleFile]:
    """The rules whose words the script says, or one of the modules that were read for it."""
    texts = [source.text for source in pipeline.sources.values()]
    said: dict[tuple[str, ...], bool] = {}
    for rule in rules:
        for group in rule.words:
            if group not in said:
                said[group] = any(word in text for text in texts for word in group)
            if not said[group]:
                break
        else:
            yield rule


def training_places(pipeline: Pipeline) -> Iterator[Place]:
    """Where training starts: the calls that a framework trains in, and the outermost loops with a backward pass."""
    from lintrain.pipeline.events import Act

    found = [place for run in pipeline.runs for place in run.train_calls]
    found += [place for run in pipeline.keras_runs for place, _ in run.fits]
    found += [fit.place for fit in pipeline.lightning_fits]
    found += [event.loops[0].place for event in pipeline.acts(Act.BACKWARD) if event.loops]
    yield from sorted(dict.fromkeys(found))


def _modules(pipeline: Pipeline) -> Mapping[str, Source]:
    return {path: source for path, source in pipeline.sources.items() if source is not pipeline.source}


def _ask(rule: RuleFile, pipeline: Pipeline) -> Iterator[Reported]:
    for finding in rule.rule.check(pipeline):
        fix: Fix | None = rule.rule.fix(finding)
        yield Reported(finding if finding.why else replace(finding, why=first_paragraph(rule.manual.why)), fix)


def first_paragraph(text: str) -> str:
    """The first paragraph of a page, on one line."""
    return " ".join(text.split("\n\n", 1)[0].split())


def parse_problem(source: Source) -> Finding | None:
    """The finding of a source that does not parse, or None."""
    try:
        _ = source.tree
    except SyntaxError as error:
        return _syntax_error(source, error)
    except (RecursionError, MemoryError):
        return unreadable(source.path, "nested too deeply to be parsed")
    except ValueError as error:
        return unreadable(source.path, str(error))
    return None


def unreadable(path: str, reason: str, line: int = 1) -> Finding:
    """The finding of a file that cannot be read."""
    return _finding(UNREADABLE_FILE, path, (line, 1, line, 1), reason)


def _syntax_error(source: Source, error: SyntaxError) -> Finding:
    line = min(max(error.lineno or 1, 1), len(source.lines))
    column = max(error.offset or 1, 1)
    same_line = error.end_lineno == line and (error.end_offset or 0) > column
    end_column = (error.end_offset or 0) if same_line else column + 1
    message = error.msg or "cannot be parsed"
    span = (line, column, line, end_column)
    return _finding(SYNTAX_ERROR, source.path, span, message[:1].lower() + message[1:], GRAMMAR)


def _finding(builtin: Builtin, path: str, span: tuple[int, int, int, int], message: str, why: str = "") -> Finding:
    from lintrain.core.finding import Finding
    from lintrain.core.place import Place

    return Finding(builtin.name, builtin.level, Place(path, *span), message, why)
