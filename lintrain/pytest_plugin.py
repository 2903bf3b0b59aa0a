"""A plugin for pytest: the fixture `lintrain_probe`, which fails a test with the report of a probe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lintrain.api.report import Report


@pytest.fixture
def lintrain_probe() -> ProbeFixture:
    """Probe a script or objects, and fail the test with the report if a mistake is confirmed."""
    return ProbeFixture()


class ProbeFixture:
    """Called with the path of a script or a notebook, or with what `lintrain.probe` takes.

    A path is probed in its own process, like `lintrain probe`; `arguments` are those of the script, `timeout` is in
    seconds. Other objects are measured in the process of the test and restored. The test fails with the report if a
    mistake is confirmed, a stage failed, or nothing could be judged. Otherwise returns the `lintrain.Report`.
    """

    def __call__(self, target: Any = None, *more: Any, **given: Any) -> Report:
        """Return the report; fails the test unless everything could be judged and nothing is confirmed."""
        from lintrain.api.probing import probe, probe_path

        is_path = isinstance(target, str | Path)
        report = probe_path(target, *more, **given) if is_path else probe(target, *more, **given)
        if not report.ok:
            pytest.fail(f"lintrain: {report.reason}\n\n{report.text()}", pytrace=False)
        return report
