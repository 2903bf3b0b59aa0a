"""The findings in a form for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lintrain.check.result import Reported
    from lintrain.report.text.look import Look
    from lintrain.source.written_places import FindSource


def people_blocks(
    name: str, reported: Sequence[Reported], find_source: FindSource, look: Look
) -> tuple[Iterator[str], str]:
    """The blocks of a form, and what stands between them."""
    if not reported:
        return iter(()), ""
    match name:
        case "full":
            from lintrain.report.text.full import full

            return full(reported, find_source, look), "\n\n"
        case "grouped":
            from lintrain.report.text.grouped import grouped

            return grouped(reported, find_source, look), "\n\n"
        case _:
            from lintrain.report.text.concise import concise

            return concise(reported, find_source, look), "\n"
