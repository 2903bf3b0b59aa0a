"""Evidence judged: the best verdict of several runs, rules that fail, exit codes, and evidence files read again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lintrain.check.selection import Choice, choose
from lintrain.evidence.run import Evidence, Failure, ForwardEvidence, Stage, StageName
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.rule import Rule
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.record import SCHEMA, EvidenceFileError, Record, read_record, write_record
from lintrain.verdicts.conclusion import conclude
from lintrain.verdicts.judgement import judge_record
from lintrain.verdicts.judging import judge, without_consequences
from lintrain.verdicts.static_findings import StaticFindings
from tests.support.planted import rule_file
from tests.support.probing import command, path_for_lintrain

HERE = Location("train.py", 3, 1, 3, 5)
CLAIM = Finding("claimed", Level.ERROR, HERE, "`x` is claimed")


class Claimed(Rule):
    level = Level.ERROR
    name = "claimed"
    stage = "garden"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        match evidence.trainer:
            case "Right":
                return Verdict.confirmed("1 of 1 is so")
            case "Wrong":
                return Verdict.refuted("0 of 1 are so")
            case "Broken":
                raise ZeroDivisionError("no luck")
            case _:
                return Verdict.inconclusive("not looked at")

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        if evidence.trainer == "Seen":
            yield self.finding(HERE, "`x` is seen"), Verdict.confirmed("1 is seen")


def run(trainer: str, *stages: Stage, forward: ForwardEvidence | None = None) -> Evidence:
    return Evidence("train.py", "transformers", trainer, HERE, HERE, "cpu", {}, stages, forward=forward)


def record(*runs: Evidence, kind: EndingKind = EndingKind.MEASURED, findings: tuple[Finding, ...] = ()) -> Record:
    return Record(SCHEMA, "0.1.0", "train.py", "", "python", Ending(kind, "why"), runs, findings)


@pytest.mark.parametrize(
    ("trainers", "outcome"),
    [
        (["Right"], Outcome.CONFIRMED),
        (["Wrong"], Outcome.REFUTED),
        (["Wrong", "Right"], Outcome.CONFIRMED),
        (["Other", "Wrong"], Outcome.REFUTED),
        (["Broken"], Outcome.INCONCLUSIVE),
        ([], Outcome.INCONCLUSIVE),
    ],
)
def test_the_best_verdict_of_all_runs_counts(trainers: list[str], outcome: Outcome) -> None:
    [(finding, verdict)] = judge([run(trainer) for trainer in trainers], [CLAIM], [rule_file(Claimed)])
    assert (finding, verdict.outcome) == (CLAIM, outcome)


@pytest.mark.parametrize(
    ("last", "outcome"), [(2, Outcome.INCONCLUSIVE), (3, Outcome.REFUTED), (None, Outcome.REFUTED)]
)
def test_a_run_refutes_nothing_of_lines_that_it_did_not_come_to(last: int | None, outcome: Outcome) -> None:
    claim = Finding("claimed", Level.ERROR, Location("train.py", 3, 1, 3, 5), "`x` is claimed")
    stopped = replace(run("Wrong"), ended_in=Location("train.py", last, 1, last, 9) if last else None)
    [(_, verdict)] = judge([stopped], [claim], [rule_file(Claimed)])
    assert verdict.outcome is outcome


def test_a_rule_that_fails_is_named_in_its_verdict() -> None:
    [(_, verdict)] = judge([run("Broken")], [CLAIM], [rule_file(Claimed)])
    assert verdict.reason == (
        "the rule failed on this evidence: ZeroDivisionError: no luck; this is a bug in lintrain: report it as an "
        "issue, with the evidence (`--evidence FILE`); `--ignore claimed` skips it"
    )


def test_what_only_the_probe_saw_is_added_once() -> None:
    judged = judge([run("Seen"), run("Seen")], [], [rule_file(Claimed)])
    assert [(finding.message, verdict.outcome) for finding, verdict in judged] == [("`x` is seen", Outcome.CONFIRMED)]


class Suspicious(Claimed):
    """A rule whose numbers show the mistake without the text."""

    name = "suspicious"
    inspect = Rule.inspect

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        yield self.finding(Location("train.py", 8, 1, 8, 5), "`x` is suspected")

    def fix(self, finding: Finding) -> None:
        raise IndexError("no role")


@pytest.mark.parametrize(("trainer", "found"), [("Right", 1), ("Wrong", 0), ("Other", 0)])
def test_a_suspicion_is_told_only_where_the_verdict_confirms_it(trainer: str, found: int) -> None:
    assert len(judge([run(trainer)], [], [rule_file(Suspicious)])) == found


def test_a_suspicion_is_the_mistake_that_the_text_shows_at_another_line() -> None:
    claim = replace(CLAIM, rule="suspicious")
    assert [finding for finding, _ in judge([run("Right")], [claim], [rule_file(Suspicious)])] == [claim]


@pytest.mark.parametrize(("line", "outcome"), [(3, Outcome.CONFIRMED), (4, Outcome.INCONCLUSIVE)])
def test_an_undefined_name_is_confirmed_by_the_error_on_its_own_line(line: int, outcome: Outcome) -> None:
    failure = Failure("NameError", "name 'x' is not defined", Location("train.py", line, 1, line, 2))
    evidence = run("", Stage.failed(StageName.SCRIPT, failure))
    [(_, verdict)] = judge([evidence], [Finding("undefined-name", Level.ERROR, HERE, "`x`")], [])
    assert verdict.outcome is outcome


@pytest.mark.parametrize(
    ("made", "judged", "code", "reason"),
    [
        (record(run("T")), [], 0, "nothing confirmed"),
        (record(run("T")), [(CLAIM, Verdict.refuted("0 of 1"))], 0, "nothing confirmed"),
        (record(run("T", Stage.passed(StageName.FORWARD))), [], 0, "the forward stage ran, nothing confirmed"),
        (
            record(run("T", Stage.passed(StageName.STEP), Stage.passed(StageName.EVALUATION))),
            [],
            0,
            "1 step and 1 evaluation ran, nothing confirmed",
        ),
        (record(run("T")), [(CLAIM, Verdict.confirmed("1 of 1"))], 1, "1 mistake confirmed"),
        (
            record(run("T"), kind=EndingKind.TIME),
            [(CLAIM, Verdict.confirmed("1"))],
            1,
            "1 mistake confirmed; then a limit was reached",
        ),
        (record(kind=EndingKind.TIME), [], 3, "could not judge: a limit was reached before any training call: why"),
        (record(run("T", Stage.failed(StageName.FORWARD, None))), [], 1, "training fails in its forward stage"),
        (
            record(run("T", Stage.failed(StageName.SCRIPT, None)), kind=EndingKind.CRASHED),
            [],
            3,
            "could not judge: the script fails",
        ),
        (record(run("T", Stage.not_reached(StageName.STEP, "lintrain's own x"))), [], 3, "could not judge the step"),
    ],
)
def test_exit_codes_and_their_reasons(
    made: Record, judged: list[tuple[Finding, Verdict]], code: int, reason: str
) -> None:
    conclusion = conclude(made, judged)
    assert conclusion.exit_code == code
    assert conclusion.reason.startswith(reason)


def test_a_confirmed_note_does_not_fail_a_probe() -> None:
    note = Finding("claimed", Level.NOTE, HERE, "`x` wastes time")
    assert conclude(record(run("T")), [(note, Verdict.confirmed("1 s"))]).exit_code == 0


def test_evidence_is_read_as_it_was_written(tmp_path: Path) -> None:
    forward = ForwardEvidence((math.nan, math.inf, 1.5), 1.1, finite=False, logits_shape=(8, 3))
    written = record(run("T", Stage.passed(StageName.FORWARD, 0.5), forward=forward), findings=(CLAIM,))
    write_record(written, tmp_path / "evidence.json")
    json.loads((tmp_path / "evidence.json").read_text(), parse_constant=pytest.fail)
    read = read_record(tmp_path / "evidence.json")
    assert repr(read) == repr(written)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read as evidence"),
        ("[]", "has no `schema` number"),
        ("{}", "has no `schema` number"),
        ('{"schema": 99}', "comes from a newer lintrain"),
        ('{"schema": 0}', "comes from an older lintrain"),
        ('{"schema": 3, "lintrain": 3}', "`lintrain`: "),
    ],
)
def test_a_file_that_is_no_evidence_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "evidence.json"
    file.write_text(text)
    with pytest.raises(EvidenceFileError) as raised:
        read_record(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert said in str(raised.value)


def test_judging_a_broken_file_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    (tmp_path / "evidence.json").write_text("{")
    judged = command(tmp_path, "judge", "evidence.json")
    assert judged.code == 2
    assert judged.err.startswith("lintrain: evidence.json: cannot be read as evidence")


def test_evidence_of_a_script_that_changed_is_judged_with_its_findings_of_that_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    finding = Finding("undefined-name", Level.ERROR, HERE, "`x` is never defined or imported")
    failure = Failure("NameError", "name 'x' is not defined", HERE)
    crashed = run("", Stage.failed(StageName.SCRIPT, failure))
    write_record(record(crashed, kind=EndingKind.CRASHED, findings=(finding,)), tmp_path / "evidence.json")
    (tmp_path / "train.py").write_text("x = 1\n")
    judged = command(tmp_path, "judge", "evidence.json", "--json")
    assert judged.code == 1
    assert judged.verdicts == [("undefined-name", 3, "confirmed")]
    assert "changed since the probe" in judged.err


@pytest.mark.slow
def test_a_probe_and_its_evidence_file_come_to_the_same_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    (tmp_path / "train.py").write_text("from transformers import Trainer\nprint(x)\n")
    probed = command(tmp_path, "probe", "-q", "--evidence", "evidence.json", "train.py")
    judged = command(tmp_path, "judge", "evidence.json")
    assert (judged.code, judged.out) == (probed.code, probed.out)
    assert "1 mistake confirmed" in judged.out


class Following(Claimed):
    """Its finding only shows what a confirmed claim is the cause of."""

    name = "following"

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "claimed"

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        yield self.finding(HERE, "`x` follows"), Verdict.confirmed("1 follows")


@pytest.mark.parametrize(("trainer", "rules"), [("Right", ["claimed"]), ("Wrong", ["claimed", "following"])])
def test_what_follows_from_a_confirmed_finding_is_not_told_again(trainer: str, rules: list[str]) -> None:
    judged = judge([run(trainer)], [CLAIM], [rule_file(Claimed), rule_file(Following)])
    assert [finding.rule for finding, _ in judged] == rules


def test_a_finding_of_a_run_is_as_bad_as_the_project_says() -> None:
    known = {"claimed": "garden"}
    levels = {"garden": Level.NOTE}
    selection = choose(known, Choice("c", "/", ["ALL"], levels=levels), Choice("l", "/"))
    text = StaticFindings((), {}, (rule_file(Claimed),), selection)
    judged = judge_record(record(run("Seen")), text).judged
    assert [(one.finding.message, one.finding.level) for one in judged] == [("`x` is seen", Level.NOTE)]


class Effect(Rule):
    """Follows from `Cause`."""

    level = Level.WARNING
    name = "effect"

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "cause"


class Cause(Rule):
    """Follows from nothing but, with `is_mutual`, from `Effect`."""

    level = Level.WARNING
    name = "cause"
    is_mutual = False

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return self.is_mutual and cause.rule == "effect"


@pytest.mark.parametrize(
    ("order", "is_mutual", "kept"),
    [
        (("cause", "effect"), False, ["cause"]),
        (("effect", "cause"), False, ["cause"]),
        (("effect", "cause"), True, ["effect"]),
    ],
)
def test_a_consequence_is_left_out_wherever_its_cause_comes(
    order: tuple[str, ...], is_mutual: bool, kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cause, "is_mutual", is_mutual)
    here = Location("train.py", 1, 1, 1, 9)
    seen = [(Finding(name, Level.WARNING, here, name), Verdict.confirmed("1 run shows it")) for name in order]
    found = without_consequences({"cause": Cause(), "effect": Effect()}, seen, [])
    assert [finding.rule for finding, _ in found] == kept


@pytest.mark.parametrize(("level", "follows"), [(Level.WARNING, True), (Level.ERROR, False)])
def test_a_few_rows_without_labels_follow_from_rows_without_a_text(level: Level, follows: bool) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "fully-masked-labels")
    here = Location("train.py", 1, 1, 1, 9)
    masked, broken = (Finding(name, level, here, name) for name in ("fully-masked-labels", "broken-texts"))
    assert rule.follows_from(masked, Verdict.confirmed("2 of 60 rows"), broken) is follows


NETWORK_ERROR = Failure("AttributeError", "cannot assign module before Module.__init__() call", HERE)


@pytest.mark.parametrize(
    ("lines", "confirmed"), [([3], [3]), ([7], [7]), ([3, 7], [3]), ([7, 9], [3]), ([], [3])], ids=str
)
def test_what_ends_a_run_confirms_the_finding_of_the_text(lines: list[int], confirmed: list[int]) -> None:
    failed = replace(run(""), stages=(Stage.failed(StageName.SCRIPT, NETWORK_ERROR),))
    found = [replace(CLAIM, rule="late-super-init", location=Location("train.py", line, 1, line, 5)) for line in lines]
    judged = judge([failed], found, load_rules())
    assert [each.location.line for each, verdict in judged if verdict.outcome is Outcome.CONFIRMED] == confirmed
    assert len(judged) == max(len(lines), 1) + (lines == [7, 9])


HYDRA = """
In 'hydra/config': Could not find 'hydra/job_logging/colorlog'

Available options in 'hydra/job_logging':
	default
Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
"""


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (HYDRA, "Could not find 'hydra/job_logging/colorlog'; `pip install hydra-colorlog`"),
        (HYDRA.replace("hydra/job_logging/colorlog", "model/bert"), "Could not find 'model/bert'"),
    ],
)
def test_what_hydra_refuses_is_the_reason(output: str, reason: str) -> None:
    ended = replace(record(), ending=Ending(EndingKind.NO_TRAINING, "exit status 1", output=output))
    assert conclude(ended, []).reason == f"could not judge: Hydra does not accept the configuration: {reason}"


def test_what_another_program_writes_is_not_hydras() -> None:
    ended = replace(record(), ending=Ending(EndingKind.NO_TRAINING, "", output="Could not find a newer version"))
    assert "ended without training" in conclude(ended, []).reason
