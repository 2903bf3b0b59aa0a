"""The check of one source: it depends on nothing but its arguments."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import field, replace
from typing import TYPE_CHECKING

from lintrain.builtin import SYNTAX_ERROR, UNREADABLE_FILE, Builtin
from lintrain.check.clock import Clock, TimeSpentError
from lintrain.check.result import Crash, Reported, Unjudged
from lintrain.check.tiers import Words, rules_concerned
from lintrain.model.claims import plain_claim
from lintrain.model.level import Level
from lintrain.source.configuration import Configuration
from lintrain.source.newer_grammar import NOT_READ, NewerGrammarError
from lintrain.source.pasted import is_pasted
from lintrain.source.project_search import scripts_take
from lintrain.source.source import LARGEST_CODE
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.knowledge.versions import TargetVersions
    from lintrain.model.finding import Finding
    from lintrain.model.fixes import Fix
    from lintrain.model.location import Location
    from lintrain.pipeline.record import Pipeline
    from lintrain.rulebook import RuleFile
    from lintrain.source.project import Project
    from lintrain.source.source import Source

READER = "reader"
PARSER, CHOICE = "parser", "choice of rules"
"""What takes time besides the reader and the rules."""

SECONDS = 6.0
"""CPU time that the interpreter, the rules and their fixes share on one file."""

RULE_SECONDS = 2.0
"""CPU time of one rule on one file: after it the rule is stopped, and the others go on."""

NO_RULE_TIME = f"the rule's {RULE_SECONDS:g} seconds of CPU time are spent"
NO_STEPS = "it exceeds the number of steps that a file may take"
NO_TIME = f"its {SECONDS:g} seconds of CPU time are spent"
TOO_LARGE = f"it has more than {LARGEST_CODE // 2**20} million characters of code"

OLD_GRAMMAR = f"Python {sys.version_info[0]}.{sys.version_info[1]} cannot run this; it is checked as what it means"
GRAMMAR = f"cannot run or be checked: this is not the grammar of Python {sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True, slots=True)
class Reading:
    """The findings of one source, before suppressions are applied.

    `modules` are the other files that were read for it, by path; findings may be in them. `training` are the
    places where training starts, in whichever file. `seconds` are the CPU seconds of each part, if they are measured.
    """

    reported: tuple[Reported, ...] = ()
    crashes: tuple[Crash, ...] = ()
    is_exhausted: bool = False
    is_broken: bool = False
    modules: Mapping[str, Source] = field(default_factory=dict[str, "Source"])
    training: tuple[Location, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def rules_ran(self) -> bool:
        """Whether the rules ran on the source."""
        return not self.is_exhausted and all(crash.rule != READER for crash in self.crashes)


def check_source(
    source: Source,
    rules: Sequence[RuleFile],
    find_targets: Callable[[], TargetVersions],
    project: Project | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
    *,
    is_timed: bool = False,
) -> Reading:
    """The findings of one source and of the modules read for it; one that does not parse gives its syntax error.

    Without a project its imports are not followed. With `is_timed` the time of each rule is measured.
    `check_cancelled` is called regularly, and may raise to end the check; not an Exception, because those count as
    faults of the reader or of a rule.
    """
    if source.is_too_large:
        return _unjudged(source, rules, TOO_LARGE)
    sofar = _SoFar(source, {} if is_timed else None)
    with suppress(TimeSpentError), Clock(SECONDS) as sofar.clock:
        sofar.check(rules, find_targets, project, check_cancelled)
    return sofar.reading()


@dataclass(eq=False)
class _SoFar:
    """The findings of a source so far, and the rules that have not yet judged it."""

    source: Source
    seconds: dict[str, float] | None = None
    """The CPU seconds of each part; None if they are not measured."""
    reported: list[Reported] = field(default_factory=list[Reported])
    crashes: list[Crash] = field(default_factory=list[Crash])
    left: list[RuleFile] = field(default_factory=list["RuleFile"])
    """The rules that have not judged the source, the next one last."""
    modules: Mapping[str, Source] = field(default_factory=dict[str, "Source"])
    training: tuple[Location, ...] = ()
    spent: str = NO_TIME
    is_broken: bool = False
    was_read: bool = False
    clock: Clock | None = None
    stopped: list[RuleFile] = field(default_factory=list["RuleFile"])
    """The rules that took too long, each for itself."""

    def check(
        self,
        rules: Sequence[RuleFile],
        find_targets: Callable[[], TargetVersions],
        project: Project | None,
        check_cancelled: Callable[[], None],
    ) -> None:
        """Run every rule; TimeSpentError may be raised at any moment."""
        self.left = [rule for rule in rules if rule.reads_text][::-1]
        try:
            with self._timed(PARSER):
                broken = parse_problem(self.source)
        except NewerGrammarError:
            self.spent, self.is_broken = NOT_READ, True
            return
        if broken:
            self.reported, self.is_broken, self.left = [Reported(broken)], True, []
            return
        self.reported.extend(Reported(flaw) for flaw in flaws_of(self.source))
        with self._timed(CHOICE):
            self.left = list(rules_concerned(self.left[::-1], self.source, project, find_targets))[::-1]
        if not self.left:
            return
        with self._timed(READER):
            pipeline = self._read(find_targets(), project, check_cancelled)
        if pipeline is None:
            return
        try:
            self._ask(pipeline, check_cancelled)
        finally:
            pipeline.circles.end()

    def _read(
        self, targets: TargetVersions, project: Project | None, check_cancelled: Callable[[], None]
    ) -> Pipeline | None:
        """The pipeline of the script; None if it cannot be followed."""
        from lintrain.read import read_pipeline

        try:
            # What a configuration names is the library's, not a module of the project of that name.
            known = None if isinstance(self.source, Configuration) else project
            pipeline = read_pipeline(self.source, targets, known, check_cancelled)
        except Exception as error:  # noqa: BLE001 - a file that the reader fails on is reported, and the others are still read
            self.crashes, self.left = [Crash(self.source.path, READER, f"{type(error).__name__}: {error}")], []
            return None
        if pipeline.is_exhausted:
            self.spent = NO_STEPS
            return None
        self.was_read, self.modules = True, _modules(pipeline)
        self.training = tuple(map(replace, training_locations(pipeline)))  # copies, as in `_reported`
        return pipeline

    def _ask(self, pipeline: Pipeline, check_cancelled: Callable[[], None]) -> None:
        from lintrain.pipeline.record import StepsSpentError

        self.left = list(_concerned(pipeline, self.left[::-1]))[::-1]
        while self.left:
            check_cancelled()
            rule = self.left[-1]
            try:
                if self.seconds is None:  # as nearly always: a block for each of 200 rules takes a millisecond
                    self._ask_one(rule, pipeline)
                else:
                    with self._timed(rule.name):
                        self._ask_one(rule, pipeline)
            except StepsSpentError:
                self.spent = NO_STEPS
                return
            except Exception as error:  # noqa: BLE001 - a rule that fails is reported, and the others still run
                text = f"{type(error).__name__}: {error}"
                self.crashes.append(Crash(self.source.path, rule.name, text, str(rule.path) if rule.digest else ""))
            self.left.pop()

    def _ask_one(self, rule: RuleFile, pipeline: Pipeline) -> None:
        """The findings of one rule; none if its own time is spent before."""
        if (clock := self.clock) is None:
            self.reported.extend(_ask(rule, pipeline))
            return
        try:
            clock.begin_part(RULE_SECONDS)
            self.reported.extend(_ask(rule, pipeline))
            clock.begin_part()
        except TimeSpentError:
            if clock.is_over:
                raise
            clock.begin_part()
            self.stopped.append(rule)

    @contextmanager
    def _timed(self, part: str) -> Generator[None]:
        """Count the CPU time of the block as that of a part."""
        if self.seconds is None:
            yield
            return
        started = time.thread_time()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.thread_time() - started

    def reading(self) -> Reading:
        """The result so far."""
        return Reading(
            tuple(self.reported),
            tuple(self.crashes),
            is_exhausted=bool(self.left) and not self.was_read,
            is_broken=self.is_broken,
            modules=self.modules,
            training=self.training,
            unjudged=(
                *(Unjudged(self.source.path, rule.name, NO_RULE_TIME) for rule in self.stopped),
                *(Unjudged(self.source.path, rule.name, self.spent) for rule in reversed(self.left)),
            ),
            seconds=dict(self.seconds or {}),
        )


def _unjudged(source: Source, rules: Sequence[RuleFile], spent: str) -> Reading:
    """The result of a source on which no rule ran."""
    names = (rule.name for rule in rules if rule.reads_text)
    return Reading(is_exhausted=True, unjudged=tuple(Unjudged(source.path, name, spent) for name in names))


def _concerned(pipeline: Pipeline, rules: Sequence[RuleFile]) -> Iterator[RuleFile]:
    """The rules whose keywords the script contains, or one of the modules that were read for it."""
    if isinstance(pipeline.source, Configuration):
        # The words of a configuration are not those of Python.
        yield from () if _is_of_a_script(pipeline.source) else rules
        return
    words = Words(pipeline.sources.values(), pipeline.named_in_settings)
    is_partial = pipeline.source.is_partial
    yield from (rule for rule in rules if not (is_partial and rule.judges_whole_script) and words.hold(rule))


OWN_KEY = "base_model"
"""The key of the model in the settings of axolotl, by which scripts take theirs too."""


def _is_of_a_script(source: Configuration) -> bool:
    """Whether a script takes the settings of a file that names its entries like a tool."""
    return any(OWN_KEY in part.section.keys for part in source.parts) and scripts_take(source.path, OWN_KEY)


def training_locations(pipeline: Pipeline) -> Iterator[Location]:
    """Where training starts: the calls that a framework trains in, and the outermost loops with a backward pass."""
    from lintrain.pipeline.events import Act

    found = [location for run in pipeline.runs for location in run.train_calls]
    found += [location for run in pipeline.keras_runs for location, _ in run.fits]
    found += [fit.location for fit in pipeline.lightning_fits]
    found += [event.loops[0].location for event in pipeline.acts(Act.BACKWARD) if event.loops]
    yield from sorted(dict.fromkeys(found))


def _modules(pipeline: Pipeline) -> Mapping[str, Source]:
    return {path: source for path, source in pipeline.sources.items() if source is not pipeline.source}


def _ask(rule: RuleFile, pipeline: Pipeline) -> list[Reported]:
    """The findings of a rule, all of them or an error: those of one that fails or is stopped do not count."""
    from lintrain.check import assumptions  # a file without a run is answered without it

    found = assumptions.findings(rule.rule, pipeline)
    return [_reported(rule, pipeline, finding) for finding in found] if found else []


def _reported(rule: RuleFile, pipeline: Pipeline, finding: Finding) -> Reported:
    from lintrain.check import assumptions

    source = pipeline.source
    # The places of a fix are looked up in a text that parses.
    fix: Fix | None = None if source.is_repaired else rule.rule.fix(finding)
    if fix is not None and isinstance(source, Configuration) and not source.takes(fix):
        fix = None
    if fix is not None and finding.with_role(assumptions.ROLE):
        # With another value of the option a correct run could come out different.
        fix = replace(fix, safe=False)
    why = finding.why or first_paragraph(rule.manual.why)
    if source.is_partial:
        why = _with_assumption(why, pipeline, finding)
    # Plain from here on: another process, which has not loaded the rule, has no class for its claim. And with locations
    # of its own: those of nodes move with the next edit (`LatestTree`), while this result may still be shown.
    return deepcopy(Reported(replace(finding, why=why, claim=plain_claim(finding.claim) or None), fix))


def _with_assumption(why: str, pipeline: Pipeline, finding: Finding) -> str:
    """A reason that says what the names at a finding are taken for, which have no import."""
    from lintrain.source.fragments import meanings

    code = pipeline.code(finding.location)
    taken = [f"`{name}` is taken for `{path}`" for name, path in meanings(pipeline.source).items() if _says(code, name)]
    if not taken:
        return why
    return f"{why}{' Here' if why.endswith('.') else '; here'} {' and '.join(taken)}{'.' if why.endswith('.') else ''}"


def _says(code: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}\b", code) is not None


def first_paragraph(text: str) -> str:
    """The first paragraph of a page, on one line."""
    return " ".join(text.split("\n\n", 1)[0].split())


def parse_problem(source: Source) -> Finding | None:
    """The finding of a source that does not parse, or None; raises NewerGrammarError if a newer Python reads it."""
    try:
        _ = source.tree
    except NewerGrammarError:
        raise
    except SyntaxError as error:
        return _syntax_error(source, error)
    except (RecursionError, MemoryError):
        return unreadable(source.path, "nested too deeply to be parsed")
    except ValueError as error:
        return unreadable(source.path, str(error))
    return None


def flaws_of(source: Source) -> Iterator[Finding]:
    """The findings of a text that is read without the parts that do not parse: each message of Python's once.

    Of a piece of a script nothing is left out, and who pasted it does not run it: what it says is a note.
    """
    messages = set[str]()
    for flaw in source.flaws:
        finding = _syntax_error(source, flaw)
        if finding.message not in messages:
            messages.add(finding.message)
            is_piece = source.notebook is None and is_pasted(source.text)
            if is_piece:
                finding = replace(finding, level=Level.NOTE)
            is_read = source.notebook is None and not source.is_partial
            yield replace(finding, why=OLD_GRAMMAR) if is_piece or is_read else finding


def unreadable(path: str, reason: str, line: int = 1) -> Finding:
    """The finding of a file that cannot be read."""
    return _finding(UNREADABLE_FILE, path, (line, 1, line, 1), reason)


def _syntax_error(source: Source, error: SyntaxError) -> Finding:
    line = min(max(error.lineno or 1, 1), len(source.lines))
    column = max(error.offset or 1, 1)
    same_line = error.end_lineno == line and (error.end_offset or 0) > column
    end_column = (error.end_offset or 0) if same_line else column + 1
    message = error.msg or "cannot be parsed"
    if source.notebook is None and re.match(r"\s*[!%]\w", source.lines[line - 1]):
        # What Colab saves as a script keeps them, and "invalid syntax" would not say what to take out.
        message = "a command of a notebook, which Python cannot read"
    span = (line, column, line, end_column)
    return _finding(SYNTAX_ERROR, source.path, span, message[:1].lower() + message[1:], GRAMMAR)


def _finding(builtin: Builtin, path: str, span: tuple[int, int, int, int], message: str, why: str = "") -> Finding:
    from lintrain.model.finding import Finding
    from lintrain.model.location import Location

    return Finding(builtin.name, builtin.level, Location(path, *span), message, why)
