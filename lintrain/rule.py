"""What a rule file gives: one mistake, how its text looks, what a batch says of it, and what mends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from lintrain.evidence.run import Evidence
from lintrain.model.finding import Finding, Related
from lintrain.model.fixes import Fix
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict, inconclusive

if TYPE_CHECKING:
    from lintrain.knowledge.target import Targets
    from lintrain.pipeline.record import Pipeline
    from lintrain.source.source import Source


class Rule:
    """One mistake, named after its file; the loader fills in `name` and `stage` from where the file lies.

    `check` reads the text, `verify` judges one finding on evidence, `inspect` finds what only a run shows, `fix` mends.
    `needs_training` is false where a file that trains nothing suffers too: `glance` is asked of it before it is read.
    `matters_in_tests` is true where unit tests suffer, which keep no model and tell of most errors by themselves.
    `is_preview` is true of a young rule, which is only heard where somebody asks for such rules (`--preview`).
    `keywords` are those without which the rule has nothing to report, parts of longer ones too: with `"clip|norm & backward"`
    it is asked of scripts that say `clip` or `norm`, and `backward`, in themselves or in the modules read for them.
    """

    level: ClassVar[Level]
    needs_training: ClassVar[bool] = True
    matters_in_tests: ClassVar[bool] = False
    is_preview: ClassVar[bool] = False
    keywords: ClassVar[str] = ""
    name: ClassVar[str] = ""
    stage: ClassVar[str] = ""

    def prescreen(self, source: Source, targets: Targets) -> bool:
        """Whether a file that trains nothing may hold the mistake, as far as its text and its syntax tell."""
        return True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        """The findings that the text of a script shows."""
        yield from ()

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        """What one real batch says of the finding."""
        return inconclusive("a batch cannot tell")

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        """The findings that only a run shows, each with its confirming verdict."""
        yield from ()

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        """Whether a finding of `inspect` only shows what another rule's confirmed finding is the cause of."""
        return False

    def if_confirmed(self, finding: Finding, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        """The finding with its verdict where `verify` confirms it: what most rules' `inspect` ends with."""
        verdict = self.verify(finding, evidence)
        if verdict.outcome == "confirmed":
            yield finding, verdict

    def fix(self, finding: Finding) -> Fix | None:
        """The edit that mends the finding, or None where no single cure is right.

        Of what `inspect` found, `callee_in` and `argument_in` tell the call that it stands at.
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
        facts: Mapping[str, str | int | float | bool | None] | None = None,
    ) -> Finding:
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
            facts=dict(facts or {}),
        )
