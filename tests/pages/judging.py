"""What is demanded of a rule's examples when they are run: each function gives the complaints, none for a good page."""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from lintrain.evidence.run import Evidence
from lintrain.model.finding import Finding
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.rule import Rule
from lintrain.rulebook import RuleFile
from lintrain.verdicts.judging import judge
from tests.pages.assembly import Script, assemble
from tests.pages.demands import BAD, FINE, GOOD, differences, findings_of, text_complaints
from tests.pages.running import PageRun, PageRunner

UNJUDGED = Path(__file__).with_name("unjudged.toml")
NOT_RUN = "not run:"
ON_REQUEST = "on request:"
ON_GPU = "on a GPU:"


@cache
def unjudged_reasons() -> dict[str, str]:
    """Why the examples of some rules are judged by no probe, by the rule's name."""
    return {str(rule): str(reason) for rule, reason in tomllib.loads(UNJUDGED.read_text(encoding="utf-8")).items()}


def is_judged(rule: RuleFile, script: Script) -> bool:
    """Whether a probe can say something of an example: the rule listens, and there is a training to follow."""
    if unjudged_reasons().get(rule.name, "").startswith((ON_REQUEST, ON_GPU, NOT_RUN)):
        return False
    is_keras = "keras." in script.example and re.search(r"^\w+\.fit\(", script.example, re.MULTILINE) is not None
    return rule.reads_evidence and (is_keras or has_trainer(script) or has_loop(script) or asks_for_probe(script))


def asks_to_overfit(rule: RuleFile) -> bool:
    """Whether a rule looks at the stage that takes longest; for all others it is left out."""
    return ".overfit" in rule.path.read_text(encoding="utf-8")


def has_trainer(script: Script) -> bool:
    """Whether an example makes a Trainer, of transformers or of Lightning."""
    return re.search(r"Trainer\(", script.text) is not None


def asks_for_probe(script: Script) -> bool:
    """Whether an example says itself that a probe judges it, although it trains nothing."""
    return re.search(r"^# lintrain probe ", script.example, re.MULTILINE) is not None


def has_loop(script: Script) -> bool:
    """Whether an optimizer is at work in a loop of an example's own."""
    return "optim" in script.text and re.search(r"\.backward\(|\.step\(", script.text) is not None


def unlisted(rule: RuleFile) -> list[str]:
    """A rule with examples that no probe judges and no listed reason, or the other way round."""
    examples = rule.manual.examples(BAD) + rule.manual.examples(GOOD)
    has_unjudged = not all(is_judged(rule, assemble(example)) for example in examples)
    if has_unjudged and rule.name not in unjudged_reasons():
        return ["no probe judges its examples and unjudged.toml does not say why"]
    if not has_unjudged and rule.name in unjudged_reasons():
        return ["unjudged.toml lists it, but a probe judges all of its examples"]
    return []


def unconfirmed(rule: RuleFile, runner: PageRunner) -> list[str]:
    """What a run of the Bad examples does not show as the page says."""
    complaints: list[str] = []
    alone = 0
    for script in _scripts(rule, BAD):
        if not is_judged(rule, script):
            complaints += _ends_otherwise(script, runner.run(script))
            continue
        outcome = runner.probe(script, overfit=asks_to_overfit(rule))
        if outcome.evidence is None:
            complaints.append(f"no training call was reached: {outcome.error}\n{outcome.output}")
            continue
        judged = _judged(rule, script, outcome.evidence)
        confirmed = [finding.location.line for finding, verdict in judged if verdict.outcome is Outcome.CONFIRMED]
        complaints += differences(Counter(confirmed), script.marked_lines(rule.name), script)
        complaints += [_told(verdict) for _, verdict in judged if verdict.outcome is not Outcome.CONFIRMED]
        found = found_alone(rule, script, outcome.evidence)
        alone += bool(found)
        complaints += [] if all(found) else ["without the text it is found at another statement"]
        complaints += [complaint for _, verdict in judged for complaint in _verdict_complaints(verdict)]
        otherwise = _fails_otherwise(script, outcome.evidence)
        is_ended_early = otherwise and outcome.evidence.loop is not None and outcome.evidence.failure is None
        complaints += _ends_otherwise(script, runner.run(script)) if is_ended_early else otherwise
    if type(rule.rule).suspects is not Rule.suspects and not alone and rule.name not in unjudged_reasons():
        complaints.append("a run of the Bad examples does not find the mistake without the text")
    return complaints


def found_alone(rule: RuleFile, script: Script, evidence: Evidence) -> list[bool]:
    """For each finding of a run that knows nothing of the text, whether it is at a marked statement.

    What is about the run as a whole may be at the construction of its trainer, or at its training call; what is about
    the inputs of a loss at the call of that, what is about the result of a metric function where it returns, what mixes
    rows at the call of the layer that does, and what ends the run at the line that raises.
    """
    marked = script.marked_lines(rule.name)
    findings = [finding for finding, _ in judge([evidence], [], [rule])]
    for finding in findings:
        rule.rule.fix(rule.rule.restored(finding))  # it lacks what the text gives, which is no error
    found = [finding.location for finding in findings]
    losses = evidence.loop.losses if evidence.loop else ()
    known = {evidence.location, *(loss.location for loss in losses)}
    known |= {evidence.failure.location} if evidence.failure else set()
    known |= {evidence.evaluation.returned_at} if evidence.evaluation else set()
    mixed = evidence.responses.mixed if evidence.responses else None
    known |= {mixed.at} if mixed else set()
    return [any(place.line <= line <= place.end_line for line in marked) or place in known for place in found]


def unrefuted(rule: RuleFile, runner: PageRunner) -> list[str]:
    """What keeps Good examples from running through, or a claim planted on them from being refuted."""
    complaints: list[str] = []
    for number, script in enumerate(_scripts(rule, GOOD)):
        if not is_judged(rule, script):
            complaints += _ends_otherwise(script, runner.run(script))
            continue
        outcome = runner.probe(script, overfit=asks_to_overfit(rule))
        complaints += _fails(outcome)
        if outcome.evidence is not None:
            complaints += _accused(rule, script, outcome.evidence)
            for claim in _claims(rule, number, script, runner):
                verdict = rule.rule.verify(rule.rule.restored(claim), outcome.evidence)
                complaints += [] if verdict.outcome is Outcome.REFUTED else [f"planted claim: {_told(verdict)}"]
                complaints += _verdict_complaints(verdict)
    return complaints


def wrongly_confirmed(rule: RuleFile, runner: PageRunner) -> list[str]:
    """What a run holds against the examples of "When it is fine"."""
    complaints: list[str] = []
    for script in _scripts(rule, FINE):
        if _is_incomplete(script):
            continue
        if not is_judged(rule, script):
            complaints += _ends_otherwise(script, runner.run(script))
            continue
        outcome = runner.probe(script, overfit=asks_to_overfit(rule))
        if outcome.evidence is not None:
            complaints += _fails(outcome) + _accused(rule, script, outcome.evidence)
        elif outcome.error is not None:  # a function that nobody calls trains nothing
            complaints.append(f"ends with {outcome.error}\n{outcome.output[-1500:]}")
    return complaints


def _scripts(rule: RuleFile, heading: str) -> list[Script]:
    if unjudged_reasons().get(rule.name, "").startswith(NOT_RUN):
        return []
    return [assemble(example) for example in rule.manual.examples(heading)]


def _judged(rule: RuleFile, script: Script, evidence: Evidence) -> list[tuple[Finding, Verdict]]:
    return judge([evidence], findings_of([rule], script) if rule.reads_text else [], [rule])


def _accused(rule: RuleFile, script: Script, evidence: Evidence) -> list[str]:
    seen = judge([evidence], [], [rule])
    return [
        f"line {finding.location.line - script.prelude_lines}: {finding.message}: {_told(verdict)}"
        for finding, verdict in seen
    ]


def _claims(rule: RuleFile, number: int, good: Script, runner: PageRunner) -> Iterator[Finding]:
    """The findings of the Bad example of the same number (the last, where there are fewer), as if made of Good."""
    bads = _scripts(rule, BAD)
    bad = bads[min(number, len(bads) - 1)]
    if type(rule.rule).verify is Rule.verify or not is_judged(rule, bad):
        return
    evidence = runner.probe(bad, overfit=asks_to_overfit(rule)).evidence
    for finding, _ in _judged(rule, bad, evidence) if evidence is not None else []:
        yield moved(finding, bad, good, finding.location.path)


def moved(finding: Finding, before: Script, after: Script, path: str) -> Finding:
    """A finding of one script as a claim about another: at the line that stands in place of its own."""
    old, new = before.text.splitlines(), after.text.splitlines()
    location = finding.location
    line = min(location.line, len(new))
    for _, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if start <= location.line - 1 < end and new_end > new_start:
            line = min(new_start + location.line - start, new_end)
            if end - start != new_end - new_start:
                line = new_start + 1 + _most_alike(old[location.line - 1], new[new_start:new_end])
    return dataclasses.replace(finding, location=Location(path, line, location.column, line, location.end_column))


def _most_alike(line: str, others: list[str]) -> int:
    """The number of the line, counted from 0, that has most in common with one."""
    return max(range(len(others)), key=lambda number: SequenceMatcher(None, line, others[number]).ratio())


def _is_incomplete(script: Script) -> bool:
    """Whether an example imports modules that are not installed: code that only its author has."""
    imported = [
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(ast.parse(script.example))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    return any(find_spec(name.split(".")[0]) is None for name in imported)


def _fails(outcome: PageRun) -> list[str]:
    if outcome.evidence is None:
        return [f"no training call was reached: {outcome.error}\n{outcome.output[-1500:]}"]
    return [
        f"the {stage.name} stage failed: {stage.failure.type}: {stage.failure.message}"
        for stage in outcome.evidence.stages
        if stage.failure is not None
    ]


def _fails_otherwise(script: Script, evidence: Evidence) -> list[str]:
    failures = [f"{stage.failure.type}: {stage.failure.message}" for stage in evidence.stages if stage.failure]
    said = script.raises
    if said is None or any(_plain(said) in _plain(failure) for failure in failures):
        return []
    return [f"the page says that it raises {said!r}; what failed: {failures}"]


def _ends_otherwise(script: Script, outcome: PageRun) -> list[str]:
    said = script.raises
    if said is None:
        return [] if outcome.error is None else [f"ends with {outcome.error}\n{script.text}"]
    if outcome.error is not None and _plain(said) in _plain(outcome.error):
        return []
    return [f"the page says that it raises {said!r}; it ended with {outcome.error!r}"]


def _verdict_complaints(verdict: Verdict) -> list[str]:
    complaints = [f"verdict {complaint}: {verdict.reason}" for complaint in text_complaints(verdict.reason)]
    says_what = verdict.measured or re.search(r"\d|`", verdict.reason)
    return complaints if says_what else [*complaints, f"verdict says nothing that was measured: {verdict.reason}"]


def _told(verdict: Verdict) -> str:
    return f"{verdict.outcome}: {verdict.reason}"


def _plain(text: str) -> str:
    return " ".join(text.split())
