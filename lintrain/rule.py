"""What every rule file imports: the class `Rule`, and the plain data that it takes and gives.

A rule file holds one mistake: how its text looks, what a batch shows of it, and what fixes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, cast, get_args

from lintrain.evidence.run import Evidence
from lintrain.knowledge.target import Target, Targets
from lintrain.model import fixes
from lintrain.model.claims import restored_claim
from lintrain.model.finding import ClaimT, Finding, Related, one_per_location
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

__all__ = [
    "Evidence",
    "Finding",
    "Level",
    "Location",
    "Outcome",
    "Pipeline",
    "Related",
    "Rule",
    "Source",
    "Target",
    "Targets",
    "Verdict",
    "dataclass",
    "fixes",
    "lazy_pattern",
    "one_per_location",
]


class Rule(Generic[ClaimT]):
    """One mistake, named after its file; the loader fills in `name` and `stage` from the file's path.

    `check` reads the text, `verify` judges one finding on evidence, `inspect` finds what only a run shows, and `fix`
    returns an edit.
    """

    level: ClassVar[Level]
    needs_training: ClassVar[bool] = True
    """False for a rule that also applies to files without training; `prescreen` is asked before such a file is read."""
    matters_in_tests: ClassVar[bool] = False
    """True for a rule that also applies to unit tests, which keep no model and fail by themselves on most errors."""
    is_preview: ClassVar[bool] = False
    """True for a new rule, which runs only with `--preview`."""
    keywords: ClassVar[str] = ""
    """What a script, or a module read for it, must contain for the rule to run; parts of longer words count.

    `"clip|norm & backward"` asks for `clip` or `norm`, and for `backward`.
    """
    claim_type: ClassVar[type | None] = None
    """The class of its claims: `class MissingNumLabels(Rule[Claim])` sets it; None for a rule without values."""
    name: ClassVar[str] = ""
    stage: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        bases: tuple[Any, ...] = getattr(cls, "__orig_bases__", ())
        for argument in (each for base in bases for each in get_args(base)):
            if isinstance(argument, type):
                cls.claim_type = argument

    def prescreen(self, source: Source, targets: Targets) -> bool:
        """Whether a file that trains nothing may hold the mistake, as far as its text and its syntax show."""
        return True

    def check(self, pipeline: Pipeline) -> Iterator[Finding[ClaimT]]:
        """The findings that the text of a script shows."""
        yield from ()

    def verify(self, finding: Finding[ClaimT], evidence: Evidence) -> Verdict:
        """What one real batch shows about the finding."""
        return Verdict.inconclusive("one batch cannot show it")

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[ClaimT], Verdict]]:
        """The findings that only a run shows, each with its confirming verdict."""
        yield from ()

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        """Whether a finding of `inspect` is only a consequence of another rule's confirmed finding."""
        return False

    def if_confirmed(self, finding: Finding[ClaimT], evidence: Evidence) -> Iterator[tuple[Finding[ClaimT], Verdict]]:
        """The finding with its verdict if `verify` confirms it: what most rules' `inspect` ends with."""
        verdict = self.verify(finding, evidence)
        if verdict.outcome == "confirmed":
            yield finding, verdict

    def fix(self, finding: Finding[ClaimT]) -> fixes.Fix | None:
        """The edit that fixes the finding, or None if no single edit is right.

        For findings of `inspect`, `callee_in` and `argument_in` parse the call at the location.
        """
        return None

    def finding(
        self,
        location: Location,
        message: str,
        *,
        related: Iterable[Related] = (),
        why: str = "",
        help: str = "",  # noqa: A002 - the word that a person reads in the report
        subject: str | None = None,
        level: Level | None = None,
        claim: ClaimT | None = None,
        facts: Mapping[str, str | int | float | bool | None] | None = None,
    ) -> Finding[ClaimT]:
        """A finding of this rule; `why` falls back to the second paragraph of the manual page in reports."""
        return Finding(
            rule=self.name,
            level=level or self.level,
            location=location,
            message=message,
            why=why,
            help=help,
            related=tuple(related),
            subject=subject,
            claim=claim,
            facts=dict(facts or {}),
        )

    def restored(self, finding: Finding) -> Finding[ClaimT]:
        """The finding with a claim of this rule's type; raises ClaimError for other values."""
        plain: object = finding.claim
        if self.claim_type is None and isinstance(plain, Mapping):
            return replace(finding, facts={**finding.facts, **cast("Mapping[str, Any]", plain)}, claim=None)
        claim = restored_claim(self.claim_type, finding.claim)
        return finding if claim is finding.claim else replace(finding, claim=claim)
