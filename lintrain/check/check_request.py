"""What a run should do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.source.reading import load_bytes
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.cache.store import Store
    from lintrain.check.baseline import Baseline
    from lintrain.check.selection import Selection
    from lintrain.knowledge.versions import TargetVersions
    from lintrain.rulebook import RuleFile


def _none(_path: str) -> bool:
    return False


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What to check: the files (in order), every rule there is, the names in force, and the libraries' versions.

    `find_targets` returns the versions that scripts of a folder use: a repository may hold several projects.
    `given` are the contents of files that are not read from the disk: standard input, or files with fixes in them.
    With `knows_verdicts`, findings carry what the last probe said of them. What the `baseline` knows is hidden.
    `go_on` is called now and then; what it raises ends the run, and must be no Exception (a fault of one file or rule).
    Findings may lie in modules that the files import: `leaves_out` tells of which nobody wants to hear, and without
    `speaks_of_modules` only those are reported that lie in the files themselves. At most `jobs` processes read at once.
    What files show is taken from the `store` while nothing has changed for them, and kept in it.
    """

    files: Sequence[str]
    rules: Sequence[RuleFile]
    selection: Selection
    find_targets: Callable[[Path], TargetVersions]
    given: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    leaves_out: Callable[[str], bool] = _none
    speaks_of_modules: bool = True
    knows_verdicts: bool = False
    baseline: Baseline | None = None
    go_on: Callable[[], None] = _nothing
    jobs: int = 1
    store: Store | None = None

    def load(self, path: str) -> bytes:
        """The bytes of a file; raises UnreadableError where it may not be read."""
        return self.given[path] if path in self.given else load_bytes(path)
