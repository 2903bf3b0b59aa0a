"""A probe's record judged: the findings of the script's text, the verdicts, and both as a report."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lintrain import __version__
from lintrain.check.one_file import first_paragraph
from lintrain.check.outcome import Crash, Reported, Unjudged
from lintrain.check.probed import probed_fix
from lintrain.check.request import Request
from lintrain.check.run import Run
from lintrain.check.selection import Selection
from lintrain.cli._options import CheckOptions, selection_of, settings_of
from lintrain.cli._output import Refusal, say, write_document, write_for_people
from lintrain.cli._request import Targets
from lintrain.core.finding import Finding
from lintrain.core.lazy_dataclass import dataclass
from lintrain.core.verdict import Ruling
from lintrain.probe.conclusion import Conclusion, conclude
from lintrain.probe.judge import Judged, judge
from lintrain.probe.record import Record, plain
from lintrain.report.full import line_of
from lintrain.report.look import Look, look_of
from lintrain.rulebook import RuleFile, RuleFileError, load_rules
from lintrain.settings.formats import FOR_PEOPLE
from lintrain.settings.settings import Settings, UsageError
from lintrain.source.discovery import MissingPathError
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes
from lintrain.source.source import Source

if TYPE_CHECKING:
    from lintrain.report.document import CheckReport

ORDER = {Ruling.CONFIRMED: 0, Ruling.UNSETTLED: 1, Ruling.REFUTED: 2}


@dataclass(frozen=True, slots=True)
class Text:
    """What a script's text shows, and the rules that are in force for it, by the project's selection."""

    reported: tuple[Reported, ...]
    sources: dict[str, Source]
    rules: tuple[RuleFile, ...]
    selection: Selection
    documentation: str | None = None
    crashes: tuple[Crash, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()

    def silences(self, finding: Finding) -> bool:
        """Whether a comment of the author silences a finding."""
        source = self.sources.get(finding.place.path)
        return source is not None and any(one.covers(finding.rule, finding.place) for one in source.suppressions)


def read_text(script: str, select: Sequence[str], ignore: Sequence[str], config: Path | None) -> Text:
    """Check one script as `lintrain check` does; raises Refusal."""
    return _read(script, *_chosen(script, select, ignore, config))


def start_reading(script: str, select: Sequence[str], ignore: Sequence[str], config: Path | None) -> Callable[[], Text]:
    """Check one script in a thread, while something else goes on: what comes back waits for it.

    Raises Refusal at once.
    """
    chosen = _chosen(script, select, ignore, config)
    read: Future[Text] = Future()

    def work() -> None:
        try:
            read.set_result(_read(script, *chosen))
        except BaseException as error:  # noqa: BLE001 - raised again where the text is asked for
            read.set_exception(error)

    # A daemon, so that Ctrl-C does not wait for it.
    threading.Thread(target=work, name="lintrain-check", daemon=True).start()
    return read.result


def _read(script: str, rules: tuple[RuleFile, ...], settings: Settings, selection: Selection) -> Text:
    outcome = Run(Request([script], rules, selection, Targets(settings))).check()
    in_force = _in_force(rules, selection, script)
    sources = {**_own_source(script), **outcome.sources}
    return Text(
        tuple(outcome.reported),
        sources,
        in_force,
        selection,
        settings.documentation,
        tuple(outcome.crashes),
        tuple(outcome.unjudged),
    )


def _own_source(script: str) -> dict[str, Source]:
    """The script itself, which a check keeps only where it finds something; nothing where it cannot be read."""
    try:
        return {script: read_bytes(script, load_bytes(script))}
    except UnreadableError:
        return {}


def stored_text(record: Record, select: Sequence[str], ignore: Sequence[str], config: Path | None) -> Text:
    """The findings that a record holds; their script is not read."""
    rules, settings, selection = _chosen(".", select, ignore, config)
    names = selection.of(record.script)
    kept = tuple(Reported(finding) for finding in record.findings if finding.rule in names)
    return Text(kept, {}, _in_force(rules, selection, record.script), selection, settings.documentation)


def _chosen(
    path: str, select: Sequence[str], ignore: Sequence[str], config: Path | None
) -> tuple[tuple[RuleFile, ...], Settings, Selection]:
    try:
        options = CheckOptions(paths=(path,), select=tuple(select), ignore=tuple(ignore), config=config)
        rules, settings = load_rules(), settings_of(options)
        return rules, settings, selection_of(options, settings, rules)
    except (UsageError, MissingPathError, RuleFileError) as error:
        raise Refusal(str(error)) from error


def _in_force(rules: Sequence[RuleFile], selection: Selection, path: str) -> tuple[RuleFile, ...]:
    names = selection.of(path)
    return tuple(rule for rule in rules if rule.name in names)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A record with the verdict of every finding, and what it comes to."""

    record: Record
    judged: tuple[Reported, ...]
    conclusion: Conclusion
    sources: dict[str, Source]
    documentation: str | None = None

    @property
    def pairs(self) -> Iterator[Judged]:
        """Every finding with its verdict."""
        return ((one.finding, one.verdict) for one in self.judged if one.verdict)

    def as_form(self, name: str, look: Look) -> str:
        """The report in one of the forms that a check has, too."""
        match name:
            case "full":
                return self.as_text(look)
            case "json":
                return self.as_json()
            case "html":
                return self.as_html()
            case name if name in FOR_PEOPLE:
                return self._as_list(name, look)
            case _:
                from lintrain.report.forms.choice import program_text

                return program_text(name, self.report(), self.sources.get, load_rules(), self.documentation)

    def _as_list(self, name: str, look: Look) -> str:
        from lintrain.report.columns import printable
        from lintrain.report.people import people_blocks

        blocks, between = people_blocks(name, self.judged, self.sources.get, look)
        return between.join([*blocks, printable(self.conclusion.reason)]) + "\n"

    def report(self) -> CheckReport:
        """The findings and their verdicts as the report for programs."""
        from lintrain.report.document import ProbeEntry
        from lintrain.report.entries import finding_entries, report_of

        probe = ProbeEntry(self.record.script, self.conclusion.exit_code, self.conclusion.reason)
        entries = finding_entries(self.judged, self.sources.get)
        report = report_of(entries, self.sources.get, 1, probes=[probe])
        texts = {self.record.script: self.record.script_sha256, **(report.sources or {})}
        return dataclasses.replace(report, sources=texts)

    def as_text(self, look: Look) -> str:
        """The report for a person."""
        from lintrain.report.columns import printable
        from lintrain.report.devices import device_lines
        from lintrain.report.full import full
        from lintrain.report.stages import failure_lines, note_lines, run_lines

        runs, find_source = self.record.runs, self.sources.get
        blocks = ["\n".join(run_lines(run, look, find_source)) for run in runs]
        if devices := list(device_lines(runs)):
            blocks.append("\n".join(f"  {line}" for line in devices))
        if notes := list(note_lines(self.record.ending.notes, look)):
            blocks.append("\n".join(notes))
        blocks += ["\n".join(failure_lines(run, look, find_source)) for run in runs if run.failure]
        blocks += full(self.judged, find_source, look)
        return look.writable("\n\n".join([*blocks, printable(self.conclusion.reason)])) + "\n"

    def as_html(self) -> str:
        """The report as a page of its own."""
        from lintrain.report.page.document import page

        return page(self.record, self.judged, self.conclusion, self.sources.get)

    def as_json(self) -> str:
        """The report for programs."""
        report = self.report()
        document: dict[str, Any] = {  # Any: whatever JSON holds
            "format": 1,
            "lintrain": __version__,
            "exit_code": self.conclusion.exit_code,
            "reason": self.conclusion.reason,
            "findings": [dataclasses.asdict(entry) for entry in report.findings],
            "sources": report.sources,
            "probe": {**dataclasses.asdict(self.record), "findings": []},
        }
        return json.dumps(plain(document), indent=2, ensure_ascii=False) + "\n"


def judge_record(record: Record, text: Text) -> Judgement:
    """Judge a record with today's rules: what is confirmed comes first."""
    known = {id(one.finding): one for one in text.reported}
    pages = {rule.name: first_paragraph(rule.manual.why) for rule in text.rules}
    judged = judge(record.runs, [one.finding for one in text.reported], text.rules)
    heard = [(finding, verdict) for finding, verdict in judged if not text.silences(finding)]
    sources = _sources(record, text)
    rules = {rule.name: rule.rule for rule in text.rules}
    reported: list[Reported] = []
    for finding, verdict in _ordered(heard):
        own, told = known.get(id(finding)), text.selection.leveled(_with_why(finding, pages))
        is_seen = own is None and verdict.ruling is Ruling.CONFIRMED
        seen = probed_fix(rules[finding.rule], finding, sources.get(finding.place.path)) if is_seen else None
        fix = own.fix if own else seen
        reported.append(Reported(told, fix, verdict, is_measured=own is None))
    failed = [crash.rule for crash in text.crashes]
    conclusion = conclude(record, heard, lambda place: line_of(place, sources.get), failed)
    return Judgement(record, tuple(reported), conclusion, sources, text.documentation)


def _ordered(judged: Sequence[Judged]) -> list[Judged]:
    return sorted(judged, key=lambda one: (ORDER[one[1].ruling], one[0].place, one[0].rule))


def _with_why(finding: Finding, pages: dict[str, str]) -> Finding:
    return finding if finding.why else dataclasses.replace(finding, why=pages.get(finding.rule, ""))


def _sources(record: Record, text: Text) -> dict[str, Source]:
    """The sources to show code of: the script under the name that the evidence gives it too."""
    sources = dict(text.sources)
    script = sources.get(record.script)
    for run in record.runs:
        for place in (run.call, run.construction, run.failure.place if run.failure else None):
            if (
                place is not None
                and script is not None
                and Path(place.path).absolute() == Path(record.script).absolute()
            ):
                sources.setdefault(place.path, script)
    return sources


def tell_of_crashes(text: Text) -> None:
    """Say on stderr which rules failed on the script, and which have not judged its text."""
    for fault in Crash.told_together(text.crashes):
        say(f"lintrain: {fault}")
    for _, line in Unjudged.told_together(text.unjudged):
        say(f"lintrain: {line}")


def form_of(*, as_json: bool, output_format: str | None) -> str:
    """The form of the report: the full one unless another is asked for; raises Refusal for two of them."""
    if as_json and output_format not in (None, "json"):
        raise Refusal(f"--json and --output-format {output_format} are two forms of the report; name one of them")
    return "json" if as_json else output_format or "full"


def write_judgement(judgement: Judgement, name: str, file: Path | None) -> None:
    """Write the report in a form to a file or to standard output; raises Refusal where it cannot be written."""
    text = judgement.as_form(name, look_of(sys.stdout) if file is None else Look())
    write = write_for_people if name in FOR_PEOPLE else write_document
    write(text, file)
