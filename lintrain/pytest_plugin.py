"""A plugin for pytest: the fixture `lintrain_probe`, which fails a test with the report of a probe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lintrain.api.report import Report


@pytest.fixture
def lintrain_probe() -> ProbeFixture:
    """Probe what a test names, and fail it with the report where something is not right."""
    return ProbeFixture()


class ProbeFixture:
    """Called with the path of a script or a notebook, or with what `lintrain.probe` takes.

    A path is probed as `lintrain probe` does, in a process of its own; `arguments` are those of the script, `timeout`
    is in seconds. Anything else is measured in the process of the test and restored. The test fails with the report
    where a mistake is confirmed, a stage fails, or nothing could be judged. Gives the `lintrain.Report` otherwise.
    """

    def __call__(self, target: Any = None, *more: Any, **given: Any) -> Report:
        """The report; fails the test unless everything could be judged and nothing is confirmed."""
        from lintrain.api.probing import probe
        from lintrain.api.scripts import probe_path

        is_path = isinstance(target, str | Path)
        report = probe_path(target, *more, **given) if is_path else probe(target, *more, **given)
        if not report.ok:
            pytest.fail(f"lintrain: {report.reason}\n\n{report.text()}", pytrace=False)
        return report
