"""What is known of a data set by its name or its folder, in the reader's words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lintrain.pipeline.values.data import Column

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader


@dataclass(slots=True)
class Facts:
    """Columns and splits of a data set; `rows` by split."""

    columns: dict[str, Column]
    is_complete: bool = True
    splits: tuple[str, ...] = ()
    rows: dict[str, int] = field(default_factory=dict[str, int])


def facts_of_name(reader: Reader, name: str, config: str | None, *, is_plain: bool) -> Facts | None:
    """What a data set of this name has, or None where that is not known."""
    return None


def facts_of_folder(reader: Reader, path: str) -> Facts | None:
    """What a folder written by `save_to_disk` holds, or None where it is not there."""
    return None
