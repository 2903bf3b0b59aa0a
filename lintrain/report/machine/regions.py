"""The code of the regions that a report points at."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from lintrain.report.machine.document import LocationEntry
from lintrain.source.written_places import FindSource

FindCode = Callable[[LocationEntry], str | None]
"""The code at a location; None if the file is not available."""


def code_finder(find_source: FindSource) -> FindCode:
    """Find the code at locations; each file is split into lines once."""

    @cache
    def lines_of(path: str) -> list[str]:
        source = find_source(path)
        return source.file_text.split("\n") if source else []

    def code_at(at: LocationEntry) -> str | None:
        lines = lines_of(at.path)[at.file_line - 1 : at.file_end_line]
        if len(lines) != at.file_end_line - at.file_line + 1:
            return None
        lines[-1] = lines[-1][: at.file_end_column - 1]
        lines[0] = lines[0][at.file_column - 1 :]
        return "\n".join(lines)

    return code_at
