"""A mistake at one location of a script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic

from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import TypeVar

    ClaimT = TypeVar("ClaimT", default=Any)
else:
    from typing import TypeVar

    ClaimT = TypeVar("ClaimT")


@dataclass(frozen=True, slots=True)
class Related:
    """A location that explains a finding, with a short note on what happens there.

    `role` says what it is to the finding ("origin", "tokenized copy"), and `text` is the code there, for fixes.
    """

    location: Location
    note: str
    role: str = "origin"
    text: str = ""


@dataclass(frozen=True, slots=True)
class Finding(Generic[ClaimT]):
    """One mistake at one location.

    `message` says in one line what is wrong here; `why` what it does to training; `help` what to write instead.
    `subject` is the part of the run that the claim is about, by its name there (`train_dataset`, `lr`).
    `claim` holds the values that it rests on, for `verify` and `fix`: a frozen dataclass of its rule, or plain values
    where it was read from a file (`lintrain.model.claims`).
    """

    rule: str
    level: Level
    location: Location
    message: str
    why: str = ""
    help: str = ""
    related: tuple[Related, ...] = ()
    subject: str | None = None
    code: str = ""
    """The code at the location of what a run showed, set while its fix is requested (`lintrain.source.nodes`)."""
    claim: ClaimT | None = None

    def with_role(self, role: str) -> tuple[Related, ...]:
        """The related locations of one role."""
        return tuple(reason for reason in self.related if reason.role == role)


def one_per_location(findings: Iterable[Finding | None]) -> Iterator[Finding]:
    """The first finding at each location: code that is read several times shows one mistake."""
    found: dict[Location, Finding] = {}
    for finding in findings:
        if finding is not None:
            found.setdefault(finding.location, finding)
    yield from found.values()
