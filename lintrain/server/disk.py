"""What the disk has of an open document."""

from __future__ import annotations

from lintrain.source.reading import UnreadableError, load_bytes, read_bytes
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False)
class Disk:
    """What the disk has of an open document: read when it is opened, saved, or changed by somebody else."""

    path: str
    _held: tuple[bytes, str] | None = None
    _is_read: bool = False

    def if_same(self, text: str) -> bytes | None:
        """The bytes of the file where they hold just this code."""
        if not self._is_read:
            self._held, self._is_read = _read(self.path), True
        return self._held[0] if self._held and self._held[1] == text else None

    def holds(self, raw: bytes) -> bool:
        """Whether the file has these bytes."""
        return self._held is not None and self._held[0] == raw

    def forget(self) -> None:
        """Read it again when it is asked for."""
        self._is_read = False


def _read(path: str) -> tuple[bytes, str] | None:
    try:
        raw = load_bytes(path)
        return raw, read_bytes(path, raw).text
    except (UnreadableError, ValueError):
        return None
