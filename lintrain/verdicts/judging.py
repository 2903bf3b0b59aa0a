"""The verdict of the evidence on every finding, and the findings that only the evidence shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lintrain.builtin import UndefinedName
from lintrain.evidence.run import Evidence, Failure, Repair
from lintrain.evidence.stages import STAND_IN
from lintrain.model.claims import restored_claim
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.rule import Rule
from lintrain.rulebook import RuleFile
from lintrain.verdicts.endings.explaining import Explanation, explain
from lintrain.verdicts.resting import may_come_from_stand_in, rested

Judged = tuple[Finding, Verdict]
RULE_FAILED = "the rule failed on this evidence"
"""How the reason of such a verdict begins."""
STRENGTH = {Outcome.CONFIRMED: 2, Outcome.REFUTED: 1, Outcome.INCONCLUSIVE: 0}


def judge(runs: Sequence[Evidence], findings: Iterable[Finding], rules: Iterable[RuleFile]) -> list[Judged]:
    """Every finding with the best verdict of all runs (confirmed, then refuted), then those that only the probe
    found.
    """
    by_name = {rule.name: rule.rule for rule in rules}
    judged = [(finding, _verdict(finding, by_name.get(finding.rule), runs)) for finding in findings]
    known = {
        (finding.rule, finding.location.line) for finding, verdict in judged if verdict.outcome is Outcome.CONFIRMED
    }
    causes = [finding for finding, verdict in judged if verdict.outcome is Outcome.CONFIRMED]
    for finding, verdict in without_consequences(by_name, list(_seen(by_name.values(), runs)), causes):
        if (finding.rule, finding.location.line) not in known:
            known.add((finding.rule, finding.location.line))
            judged.append((finding, verdict))
    for finding, verdict in _causes_of_errors(by_name, runs, judged):
        known_at = _known_at(finding, judged)
        if known_at is None:
            judged.append((finding, verdict))
        else:
            judged[known_at] = judged[known_at][0], verdict
    return judged


def _known_at(cause: Finding, judged: Sequence[Judged]) -> int | None:
    """The finding of the text that ended a run: the one at its line, else the only one of the rule in the file."""
    open_ones = [
        number
        for number, (finding, verdict) in enumerate(judged)
        if finding.rule == cause.rule and verdict.outcome is Outcome.INCONCLUSIVE
        if finding.location.path == cause.location.path
    ]
    here = [number for number in open_ones if judged[number][0].location.meets(cause.location)]
    return next(iter(here or (open_ones if len(open_ones) == 1 else [])), None)


def without_consequences(
    rules: Mapping[str, Rule], seen: Sequence[Judged], causes: Sequence[Finding]
) -> Iterator[Judged]:
    """What runs show, but for what follows from some causes or from something else that they show.

    Of two that follow from each other, the first one is kept.
    """
    kept = list(causes)
    for number, (finding, verdict) in enumerate(seen):
        rule = rules[finding.rule]
        later = [
            other
            for other, of_other in seen[number + 1 :]
            if of_other.outcome is Outcome.CONFIRMED and not rules[other.rule].follows_from(other, of_other, finding)
        ]
        others = (cause for cause in (*kept[len(causes) :], *later) if cause.rule != finding.rule)
        if any(rule.follows_from(finding, verdict, cause) for cause in (*causes, *others)):
            continue
        kept += [finding] if verdict.outcome is Outcome.CONFIRMED else []
        yield finding, verdict


def _causes_of_errors(
    rules: Mapping[str, Rule], runs: Sequence[Evidence], judged: Sequence[Judged]
) -> Iterator[Judged]:
    """What ends a run is a finding of the rule that explains the error, unless a confirmed one has said so already."""
    confirmed = [finding for finding, verdict in judged if verdict.outcome is Outcome.CONFIRMED]
    if any(finding.level is Level.ERROR for finding in confirmed):
        return
    known = {finding.rule for finding in confirmed}
    for evidence in runs:
        stage = evidence.failed_stage
        cause = explain(stage.failure) if stage is not None and stage.failure is not None else Explanation()
        if stage is None or stage.failure is None or may_come_from_stand_in(stage.failure, evidence):
            continue
        if not cause.is_certain or cause.page not in rules.keys() - known:
            continue
        finding = rules[cause.page].finding(evidence.location_of_failure(), cause.causes[0], help=cause.fix)
        reason = f"the {stage.name} stage failed: {stage.failure.type}: {_said(cause, stage.failure)}"
        verdict, rule = Verdict.confirmed(reason), rules[cause.page]
        if any(rule.follows_from(finding, verdict, other) for other in confirmed):
            continue
        if _guarded(rule, finding, evidence).outcome is not Outcome.REFUTED:
            yield finding, verdict
            return


def _said(cause: Explanation, failure: Failure) -> str:
    """What was measured of an error, or else its message."""
    return cause.fact or next(iter(failure.message.splitlines()), "")


def _verdict(finding: Finding, rule: Rule | None, runs: Sequence[Evidence]) -> Verdict:
    """The best verdict of all runs in which the finding was not repaired; of undecided ones that of the last run."""
    about = [run for run in runs if not run.is_repaired(finding.rule, finding.location)]
    if not about:
        return Verdict.inconclusive("no training call was reached")
    found = zip(_verdicts(finding, rule, about), about, strict=True)
    verdicts = [rested(_with_repairs(one, run), finding.rule, run, finding.message) for one, run in found]
    best = max(verdicts, key=lambda verdict: STRENGTH[verdict.outcome])
    return verdicts[-1] if best.outcome is Outcome.INCONCLUSIVE and about[-1].repairs else best


def _with_repairs(verdict: Verdict, run: Evidence) -> Verdict:
    """A verdict that says in which training call it was measured, and with what the script was repaired."""
    if verdict.outcome is Outcome.INCONCLUSIVE or not (run.repairs or run.call_number > 1):
        return verdict
    if verdict.outcome is Outcome.REFUTED and any(repair.rule == STAND_IN for repair in run.repairs):
        return Verdict.inconclusive(f"it was measured only {repaired_with(run)}")
    call = f"in training call {run.call_number}" if run.call_number > 1 else ""
    under = ", ".join(filter(None, (call, repaired_with(run) if run.repairs else "")))
    return replace(verdict, reason=f"{verdict.reason} ({under})")


def repaired_with(run: Evidence) -> str:
    """The repairs of a run in a few words: "with `num_labels=3` in line 20"."""
    stand_ins = [repair.text for repair in run.repairs if repair.rule == STAND_IN]
    fixes = [repair for repair in run.repairs if repair.rule != STAND_IN]
    parts = [*([_fixed_lines(fixes)] if fixes else []), *stand_ins]
    return f"with {' and '.join(parts)}"


def _fixed_lines(fixes: Sequence[Repair]) -> str:
    lines = sorted({fix.location.line for fix in fixes})
    if len(fixes) == 1:
        return f"{fixes[0].code} in line {lines[0]}"
    *others, last = map(str, lines)
    return f"lines {', '.join(others)} and {last} repaired" if others else f"line {last} repaired"


def _verdicts(finding: Finding, rule: Rule | None, runs: Sequence[Evidence]) -> list[Verdict]:
    if rule is not None and rule.stage == "loop" and all(each.never_came_to(finding.location) for each in runs):
        return [Verdict.inconclusive("the probe ended in a loop above this line") for _ in runs]
    if rule is not None:
        return [_guarded(rule, finding, evidence) for evidence in runs]
    verify = BUILTIN_VERDICTS.get(finding.rule)
    unknown = Verdict.inconclusive("one batch cannot show it")
    return [verify(finding, evidence) if verify else unknown for evidence in runs]


def _guarded(rule: Rule, finding: Finding, evidence: Evidence) -> Verdict:
    try:
        verdict = rule.verify(rule.restored(finding), evidence)
    except Exception as error:  # noqa: BLE001 - a rule that fails is reported, and the others still run
        return Verdict.inconclusive(failed_rule(rule, error))
    if verdict.outcome is Outcome.REFUTED and evidence.skipped(finding.location):
        reason = f"the followed steps did not run this line; what they show: {verdict.reason}"
        return Verdict.inconclusive(reason, **verdict.measured)
    is_driven = evidence.loop is None  # an extra pass may have measured more of a loop
    is_out_of_reach = evidence.never_came_to(finding.location) and evidence.split(finding.subject or "") is None
    if verdict.outcome is Outcome.REFUTED and is_driven and is_out_of_reach:
        reason = f"the probe ended before this line; the code before it shows: {verdict.reason}"
        return Verdict.inconclusive(reason, **verdict.measured)
    return verdict


def failed_rule(rule: Rule, error: Exception) -> str:
    """Why a rule that failed gives no verdict, and what can be done."""
    what = f"{RULE_FAILED}: {type(error).__name__}: {error}; this is a bug in lintrain"
    return f"{what}: report it as an issue, with the evidence (`--evidence FILE`); `--ignore {rule.name}` skips it"


def _seen(rules: Iterable[Rule], runs: Sequence[Evidence]) -> Iterator[Judged]:
    for rule in rules:
        for evidence in runs:
            try:
                for finding, verdict in rule.inspect(evidence):
                    # What only a stand-in shows is no finding.
                    if rested(verdict, rule.name, evidence, finding.message) is verdict:
                        yield finding, _with_repairs(verdict, evidence)
            except Exception as error:  # noqa: BLE001 - as above
                failed = rule.finding(evidence.location, f"`{rule.name}` could not be judged")
                yield failed, Verdict.inconclusive(failed_rule(rule, error))


def _undefined_name(finding: Finding, evidence: Evidence) -> Verdict:
    """A NameError on the finding's own line confirms it; a script that certainly ran past the line refutes it."""
    for stage in evidence.stages:
        failure = stage.failure
        if (
            failure
            and failure.contains("NameError", "UnboundLocalError")
            and _same_line(finding.location, failure.location)
        ):
            return Verdict.confirmed(f"{failure.type}: {failure.message}", stage=stage.name)
    claim: UndefinedName = restored_claim(UndefinedName, finding.claim or {})
    if claim.is_certain and evidence.ran(finding.location):
        return Verdict.refuted("the script ran past this line")
    return Verdict.inconclusive("the probe ended before this line or took another branch")


def _same_line(claimed: Location, failure: Location | None) -> bool:
    return failure is not None and claimed.line <= failure.line <= claimed.end_line


def _syntax_error(finding: Finding, evidence: Evidence) -> Verdict:
    failure = evidence.failure
    if failure and failure.contains("SyntaxError", "IndentationError", "TabError"):
        return Verdict.confirmed(f"{failure.type}: {failure.message}")
    if finding.location.path.endswith(".ipynb") and not evidence.ran(finding.location):
        return Verdict.inconclusive("the probe ended before this cell")
    return (
        Verdict.refuted("this Python parses the file")
        if evidence.passed("script")
        else Verdict.inconclusive("the script did not run")
    )


BUILTIN_VERDICTS: dict[str, Callable[[Finding, Evidence], Verdict]] = {
    "syntax-error": _syntax_error,
    "undefined-name": _undefined_name,
    "unreadable-file": _syntax_error,
}
