"""The static half of a judgement: the findings of a script's text, and the rules that apply to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from lintrain.cache.folder import store_folder
from lintrain.check.check_run import CheckRun
from lintrain.check.files import Targets
from lintrain.check.own_rules import own_rules
from lintrain.check.packages import Packages
from lintrain.check.result import Crash, Reported, Unjudged
from lintrain.check.selection import CheckRequest, Selection, asked, chosen_for
from lintrain.model.finding import Finding
from lintrain.rulebook import RuleFile, load_rules
from lintrain.runtime.parent.record import Record
from lintrain.settings.loading import load_settings
from lintrain.settings.settings import Settings
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StaticFindings:
    """The findings of a script's text, and the rules that the project's selection enables for it."""

    reported: tuple[Reported, ...]
    sources: dict[str, Source]
    rules: tuple[RuleFile, ...]
    selection: Selection
    documentation: str | None = None
    crashes: tuple[Crash, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()

    def is_suppressed(self, finding: Finding) -> bool:
        """Whether a comment suppresses a finding."""
        source = self.sources.get(finding.location.path)
        return source is not None and any(one.covers(finding.rule, finding.location) for one in source.suppressions)


def check_script(
    script: str, select: Sequence[str] = (), ignore: Sequence[str] = (), config: Path | None = None
) -> StaticFindings:
    """Check one script as `lintrain check` does; raises UsageError, MissingPathError and RuleFileError."""
    return _checked(script, *_chosen(script, select, ignore, config))


def start_check(
    script: str, select: Sequence[str], ignore: Sequence[str], config: Path | None
) -> Callable[[], StaticFindings]:
    """Check one script in a thread; the returned function waits for the findings.

    Raises immediately what `check_script` raises.
    """
    chosen = _chosen(script, select, ignore, config)
    future: Future[StaticFindings] = Future()

    def work() -> None:
        try:
            future.set_result(_checked(script, *chosen))
        except BaseException as error:  # noqa: BLE001 - raised again when the findings are requested
            future.set_exception(error)

    # A daemon thread, so that Ctrl-C does not wait for it.
    threading.Thread(target=work, name="lintrain-check", daemon=True).start()
    return future.result


def recorded_findings(
    record: Record, select: Sequence[str] = (), ignore: Sequence[str] = (), config: Path | None = None
) -> StaticFindings:
    """The findings in a record; its script is not read. Raises as `check_script` does."""
    rules, settings, selection = _chosen(".", select, ignore, config)
    names = selection.of(record.script)
    kept = tuple(Reported(finding) for finding in record.findings if finding.rule in names)
    return StaticFindings(kept, {}, _in_force(rules, selection, record.script), selection, settings.documentation)


def _checked(script: str, rules: tuple[RuleFile, ...], settings: Settings, selection: Selection) -> StaticFindings:
    packages = Packages(store_folder("packages"))
    request = CheckRequest([script], rules, selection, Targets(settings), packages=packages)
    outcome = CheckRun(request).check()
    return StaticFindings(
        tuple(outcome.reported),
        {**_own_source(script), **outcome.sources},
        _in_force(rules, selection, script),
        selection,
        settings.documentation,
        tuple(outcome.crashes),
        tuple(outcome.unjudged),
    )


def _own_source(script: str) -> dict[str, Source]:
    """The script itself, which a check stores only if it finds something; empty if it cannot be read."""
    try:
        return {script: read_bytes(script, load_bytes(script))}
    except UnreadableError:
        return {}


def _chosen(
    path: str, select: Sequence[str], ignore: Sequence[str], config: Path | None
) -> tuple[tuple[RuleFile, ...], Settings, Selection]:
    settings = load_settings((path,), config)
    shipped = load_rules()
    own = own_rules(settings, shipped)
    rules = *shipped, *own.rules
    return rules, settings, chosen_for(settings, rules, asked(select, ignore), own.not_trusted)


def _in_force(rules: Sequence[RuleFile], selection: Selection, path: str) -> tuple[RuleFile, ...]:
    names = selection.of(path)
    return tuple(rule for rule in rules if rule.name in names)
