"""What every rule file imports: the class `Rule`, and the plain data that it takes and gives.

A rule file holds one mistake: how its text looks, what a batch shows of it, and what fixes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Generic

from lintrain.knowledge.target import Target, Targets
from lintrain.model import fixes
from lintrain.model.claims import restored_claim
from lintrain.model.finding import ClaimT, Finding, Related, one_per_location
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

__all__ = [
    "ArgumentsRule",
    "Evidence",
    "EvidenceRule",
    "Finding",
    "Level",
    "Location",
    "OddCallRule",
    "OptimizerRule",
    "Outcome",
    "Pipeline",
    "Related",
    "RowsRule",
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


if TYPE_CHECKING:
    from lintrain.evidence.run import Evidence, RowFault, SplitEvidence, StepEvidence

    class _HasClaims(Generic[ClaimT]):
        claim_type: ClassVar[type | None]

else:
    Evidence = object
    """Rules name it in annotations alone: a check does not load the measurements, which takes 3 ms."""

    class _HasClaims:
        """What `Generic` is to type checkers: for each rule that a check loads, the real one takes too long."""

        claim_type = None

        def __class_getitem__(cls, argument: object) -> type:
            """The class itself for a type variable, and for a claim's class one that knows it."""
            return type(cls)(cls.__name__, (cls,), {"claim_type": argument}) if isinstance(argument, type) else cls


class Rule(_HasClaims[ClaimT]):
    """One mistake, named after its file; the loader fills in `name` and `stage` from the file's path.

    `check` reads the text, `verify` judges one finding on evidence, `inspect` finds what only a run shows, and `fix`
    returns an edit. `class MissingNumLabels(Rule[Claim])` sets `claim_type`, the class of its claims; a rule without
    values has none.
    """

    level: ClassVar[Level]
    needs_training: ClassVar[bool] = True
    """False for a rule that also applies to files without training; `prescreen` is asked before such a file is read."""
    judges_networks: ClassVar[bool] = False
    """True for one of these rules that also applies to files that only define networks, or only use scikit-learn."""
    matters_in_tests: ClassVar[bool] = False
    """True for a rule that also applies to unit tests, which keep no model and fail by themselves on most errors."""
    is_preview: ClassVar[bool] = False
    """True for a new rule, which runs only with `--preview`."""
    judges_whole_script: ClassVar[bool] = False
    """True for a rule about what a script nowhere does: of a piece of a script, the rest may do it."""
    judges_configurations: ClassVar[bool] = False
    """True for a rule that also applies to configuration files, read as what their tool runs."""
    keywords: ClassVar[str] = ""
    """What a script, or a module read for it, must contain for the rule to run; parts of longer words count.

    `"clip|norm & backward"` asks for `clip` or `norm`, and for `backward`.
    """
    name: ClassVar[str] = ""
    stage: ClassVar[str] = ""

    def prescreen(self, source: Source, targets: Targets) -> bool:
        """Whether a file that trains nothing may hold the mistake, as far as its text and its syntax show."""
        return True

    def check(self, pipeline: Pipeline) -> Iterator[Finding[ClaimT]]:
        """The findings that the text of a script shows."""
        yield from ()

    def verify(self, finding: Finding[ClaimT], evidence: Evidence) -> Verdict:
        """What one real batch shows about the finding."""
        return Verdict.inconclusive("one batch cannot show it")

    def suspects(self, evidence: Evidence) -> Iterator[Finding[ClaimT]]:
        """What a run may show without any text: findings at the script's own lines, which `verify` then judges.

        Only where the numbers speak for this mistake and against similar ones: here no finding of the text precedes
        `verify`.
        """
        yield from ()

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[ClaimT], Verdict]]:
        """The findings that only a run shows, each with its confirming verdict."""
        for finding in self.suspects(evidence):
            yield from self.if_confirmed(finding, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        """Whether a finding of `inspect` is only a consequence of another rule's confirmed finding.

        What a rule suspects is the same mistake as the one that it has found in the text: counts of a run do not tell
        two of them apart.
        """
        return cause.rule == self.name and type(self).inspect is Rule.inspect

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
        )

    def restored(self, finding: Finding) -> Finding[ClaimT]:
        """The finding with a claim of this rule's type; raises ClaimError for other values."""
        claim = restored_claim(self.claim_type, finding.claim)
        return finding if claim is finding.claim else replace(finding, claim=claim)


class ArgumentsRule(Rule[ClaimT]):
    """A rule about training arguments: `judge` gets each `TrainingArguments` or configuration of the script."""

    def check(self, pipeline: Pipeline) -> Iterator[Finding[ClaimT]]:
        """What `judge` finds in each of the script's objects."""
        for arguments in pipeline.arguments:
            yield from self.judge(arguments, pipeline)

    def judge(self, arguments: TrainingArguments, pipeline: Pipeline) -> Iterator[Finding[ClaimT]]:
        """The findings about one object of training arguments."""
        yield from ()


class EvidenceRule(Rule):
    """A rule that only evidence shows: `verify` decides, and what the finding says is declared.

    The finding is at the training call, unless `location_of` returns another location.
    """

    message: ClassVar[str]
    help_text: ClassVar[str] = ""
    """What to write instead: the `help` of the finding."""
    subject: ClassVar[str | None] = None

    def location_of(self, evidence: Evidence) -> Location:
        """Where the finding is."""
        return evidence.location

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        """The declared finding, if `verify` confirms it."""
        finding = self.finding(self.location_of(evidence), self.message, help=self.help_text, subject=self.subject)
        yield from self.if_confirmed(finding, evidence)


class OddCallRule(Rule[ClaimT]):
    """A rule about calls that a run sees in the script's own code: `odd` is their kind (`OddCallKind`).

    `odd_message` and `odd_help` are those of a finding that only a run shows.
    """

    odd: ClassVar[str]
    odd_message: ClassVar[str]
    odd_help: ClassVar[str] = ""
    fewest_odd: ClassVar[int] = 1
    """So often such a call is made, or with so many shapes, where the text does not show it."""

    def suspects(self, evidence: Evidence) -> Iterator[Finding[ClaimT]]:
        """Each place of such a call."""
        for call in evidence.odd_calls:
            if call.kind == self.odd and call.times >= self.fewest_odd:
                yield self.finding(call.location, self.odd_message, help=self.odd_help)

    def verify(self, finding: Finding[ClaimT], evidence: Evidence) -> Verdict:
        """Confirmed by a call at the finding, or at what it is related to."""
        loop = evidence.loop
        locations = (finding.location, *(each.location for each in finding.related))
        for call in evidence.odd_calls:
            if call.kind == self.odd and any(call.location.meets(each) for each in locations):
                return Verdict.confirmed(call.text, times=call.times)
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if loop.steps > 1:
            return Verdict.refuted(f"in {loop.steps} steps, 0 calls did so", times=0)
        return Verdict.inconclusive(f"{loop.steps} steps ran, at least 2 are needed")


class OptimizerRule(EvidenceRule):
    """A rule about the parameter groups of an optimizer: `judge` gets the measured step, which has them."""

    def location_of(self, evidence: Evidence) -> Location:
        """Where the script makes the optimizer."""
        return evidence.optimizer_location

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        """What `judge` says, if a step was measured."""
        if evidence.step is None:
            return Verdict.inconclusive(evidence.not_reached("step"))
        return self.judge(evidence.step, evidence)

    def judge(self, step: StepEvidence, evidence: Evidence) -> Verdict:
        """The verdict on the groups of a step."""
        raise NotImplementedError


class RowsRule(EvidenceRule):
    """A rule about rows with one of some `faults`, which reading all rows shows.

    Fewer than `fewest_rows`, or less than `smallest_share` of the rows that were read, are no finding.
    """

    faults: ClassVar[tuple[RowFault, ...]]
    fewest_rows: ClassVar[int] = 1
    smallest_share: ClassVar[float] = 0.0

    def location_of(self, evidence: Evidence) -> Location:
        """The loader that is trained on."""
        return evidence.data_location

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        """Confirmed by rows with such a fault; refuted if all rows were read."""
        splits = [split for split in evidence.splits if split.sweep and finding.subject in (None, split.argument)]
        for split in splits:
            verdict = self._judged(split, self.faults_in(evidence))
            if verdict is not None:
                return verdict
        rows = sum(split.sweep.rows for split in splits if split.sweep)
        text = f"{rows} rows were read, and no such row, or too few, was among them"
        if splits and all(split.sweep and split.sweep.is_whole for split in splits):
            return Verdict.refuted(f"all {text}", rows=rows)
        return Verdict.inconclusive(text if splits else evidence.not_reached("dataset"))

    def faults_in(self, evidence: Evidence) -> tuple[RowFault, ...]:
        """Those of the faults that are wrong for what is trained here."""
        del evidence
        return self.faults

    def _judged(self, split: SplitEvidence, faults: tuple[RowFault, ...]) -> Verdict | None:
        sweep = split.sweep
        if sweep is None:
            return None
        shares = {wrong: wrong.count / max(1, sweep.rows) for wrong in sweep.with_fault(*faults)}
        found = [wrong for wrong in shares if wrong.count >= self.fewest_rows and shares[wrong] >= self.smallest_share]
        if not found:
            return None
        # Each fault is named: a run that is repaired after one of them ends at the next.
        text = "; ".join(wrong.in_words(numbered=sweep.numbered) for wrong in found)
        share = shares[found[0]]
        of = f"{split.argument}, {share:.0%} of its rows" if self.smallest_share else split.argument
        worst = found[0]
        return Verdict.confirmed(f"{text} ({of})", rows=list(worst.first), count=worst.count, share=share)
