"""Probe a script from Python, in a process of its own, as `lintrain probe` does."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lintrain.api.report import Report
from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.events import Event
from lintrain.runtime.parent.launcher import Bounds
from lintrain.runtime.parent.prober import Wanted, probe_script
from lintrain.verdicts.judgement import judge_record
from lintrain.verdicts.static_findings import check_script


def probe_path(
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    timeout: float = 300.0,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    offline: bool = False,
) -> Report:
    """Run a script or a notebook up to its training call, by this Python, and judge its findings there.

    `timeout` is in seconds; `offline` lets the script reach no other machine. Raises FileNotFoundError if there is no
    such file.
    """
    path = Path(script)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such script")
    static = check_script(str(path), select, ignore)
    wanted = Wanted(Entry(path, tuple(arguments)), sys.executable, Bounds(timeout, None), offline=offline)
    record = probe_script(wanted, _ignore)
    record = dataclasses.replace(record, findings=tuple(one.finding for one in static.reported))
    return Report(judge_record(record, static))


def _ignore(_event: Event) -> None:
    """The stages are not shown while they run."""
