"""What only a run showed is mended where the text at its place is what the fix is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lintrain._version import __version__
from lintrain.evidence.run import Evidence
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.fix import apply
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.report.text.findings import fix_text_of
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.record import SCHEMA, Record
from lintrain.server.probes import measured_findings
from lintrain.source.source import Source
from lintrain.verdicts.judgement import judge_record, probed_fix
from lintrain.verdicts.static_findings import check_script
from tests.support.mending import location_of
from tests.support.probing import probe

Claim = Mapping[str, str | int | float | bool | None]

RULES = {each.name: each.rule for each in load_rules()}
PREDICTION = {"argument": "prediction"}
F1 = {"function": "f1_score"}
LOGITS = {"are_logits": True}

SPREAD = """
import torch
import torch.nn.functional as F

(build,) = (kind for name, kind in vars(torch.nn).items() if name == "Linear")
net = build(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
prices = torch.randn(64)
rows = torch.randn(64, 8)
for start in range(0, 64, 16):
    optimizer.zero_grad()
    loss = F.mse_loss(net(rows[start : start + 16]), prices[start : start + 16])
    loss.backward()
    optimizer.step()
"""


def mended(rule: str, code: str, claim: Claim, at: str = "") -> str | None:
    """The code with the fix of a finding that a run showed at all of it, or at a part."""
    text = f"pass\nloss = {code} + 1\n"
    finding = Finding(rule, Level.ERROR, location_of(text, at or code), "it was seen", claim=claim or None)
    fix = probed_fix(RULES[rule], finding, Source("train.py", text))
    if fix is None:
        return None
    assert not fix.safe
    return apply(text, [fix]).removeprefix("pass\nloss = ").removesuffix(" + 1\n")


@pytest.mark.parametrize(
    ("rule", "code", "claim", "after"),
    [
        ("broadcast-loss", "F.mse_loss(net(x), y)", PREDICTION, "F.mse_loss(net(x).squeeze(-1), y)"),
        ("broadcast-loss", "F.mse_loss(net(x), y)", {"argument": "target"}, "F.mse_loss(net(x), y.squeeze(-1))"),
        ("broadcast-loss", "self.criterion(net(x), y)", PREDICTION, "self.criterion(net(x).squeeze(-1), y)"),
        (
            "broadcast-loss",
            "loss_fn(target=y,\n  input=ü(x))",
            PREDICTION,
            "loss_fn(target=y,\n  input=ü(x).squeeze(-1))",
        ),
        ("broadcast-loss", 'mse("ü", target=y)', {"argument": "target"}, 'mse("ü", target=y.squeeze(-1))'),
        ("raw-logits-in-nll-loss", "F.nll_loss(net(x), y)", LOGITS, "F.cross_entropy(net(x), y)"),
        ("binary-average", "f1_score(y, z)", F1, 'f1_score(y, z, average="macro")'),
        ("binary-average", "f1.compute(predictions=z)", F1, 'f1.compute(predictions=z, average="macro")'),
    ],
)
def test_the_call_that_a_run_stopped_at_is_mended(rule: str, code: str, claim: Claim, after: str) -> None:
    assert mended(rule, code, claim) == after


@pytest.mark.parametrize(
    ("rule", "code", "claim"),
    [
        ("broadcast-loss", "model(x, labels=y)", PREDICTION),
        ("broadcast-loss", "F.mse_loss(*pair)", PREDICTION),
        ("broadcast-loss", "F.mse_loss(a + b, y)", PREDICTION),
        ("broadcast-loss", "F.mse_loss(net(x), y)", {}),
        ("raw-logits-in-nll-loss", "criterion(net(x), y)", LOGITS),
        ("raw-logits-in-nll-loss", "F.nll_loss(F.softmax(x), y)", {"are_logits": False}),
        ("binary-average", "evaluate_all(y, z)", F1),
        ("binary-average", "metric.compute(predictions=z)", {"function": ""}),
    ],
)
def test_another_call_is_left_alone(rule: str, code: str, claim: Claim) -> None:
    assert mended(rule, code, claim) is None


def test_a_place_that_is_no_call_is_left_alone() -> None:
    assert mended("binary-average", "f1_score(y, z)", F1, at="f1_score(y") is None
    beyond = Finding("binary-average", Level.ERROR, location_of("\n\nf1(y)", "f1(y)"), "it was seen", claim=F1)
    assert probed_fix(RULES["binary-average"], beyond, Source("train.py", "f1(y)")) is None
    assert probed_fix(RULES["binary-average"], beyond, None) is None


@pytest.mark.usefixtures("warm")
def test_a_probe_says_how_to_mend_what_the_text_does_not_show(tmp_path: Path) -> None:
    probed = probe(tmp_path, SPREAD)
    (found,) = [one for one in probed.document["findings"] if one["rule"] == "broadcast-loss"]
    line = SPREAD.split("\n").index("    loss = F.mse_loss(net(rows[start : start + 16]), prices[start : start + 16])")
    assert (found["location"]["line"], found["verdict"]["outcome"]) == (line + 1, "confirmed")
    assert (found["fix"]["title"], found["fix"]["safe"]) == ("squeeze the prediction", False)
    (edit,) = found["fix"]["edits"]
    assert (edit["line"], edit["text"]) == (line + 1, ".squeeze(-1)")
    before = SPREAD.split("\n")[line]
    assert before[: edit["column"] - 1].endswith("net(rows[start : start + 16])")


def entry_of(line: int, outcome: str) -> dict[str, object]:
    location = {"path": "train.py", "cell": None, "line": line, "column": 8, "end_line": line, "end_column": 25}
    verdict: dict[str, object] = {"outcome": outcome, "reason": "as seen", "measured": {}}
    said: dict[str, object] = {"rule": "binary-average", "level": "error", "message": "seen", "why": "", "help": ""}
    return {**said, "related": (), "location": location, "claim": F1, "verdict": verdict}


def test_only_what_is_confirmed_is_mended_in_an_editor(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("f1   = f1_score(y, pred)\n" * 2)
    report = {"findings": [entry_of(1, "confirmed"), entry_of(2, "inconclusive")]}
    ((_, seen),) = measured_findings(report, str(tmp_path)).values()
    assert [one.fix.title if one.fix else None for one in seen] == ['average over the classes: `"macro"`', None]
    assert fix_text_of(seen[0]) == 'average over the classes: `"macro"` (fixable in an editor after a probe)'


def test_a_rule_that_failed_on_a_run_mends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        raise ZeroDivisionError

    monkeypatch.setattr(RULES["binary-average"], "inspect", fail)
    script = tmp_path / "train.py"
    script.write_text("trainer = Trainer(net)\n")
    seen = Evidence(str(script), "transformers", "Trainer", Location(str(script), 1, 11, 1, 23), None, "cpu", {})
    record = Record(SCHEMA, __version__, str(script), "", "python", Ending(EndingKind.MEASURED), (seen,))
    judged = judge_record(record, check_script(str(script))).judged
    (failed,) = [one for one in judged if one.finding.rule == "binary-average"]
    assert (failed.finding.location, failed.fix) == (seen.call, None)
