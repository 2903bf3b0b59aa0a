"""What a few followed steps say of a loss that is kept: nothing where it is kept once in many steps."""

from __future__ import annotations

import pytest

from lintrain.evidence.run import Evidence, LoopEvidence
from lintrain.knowledge.versions import TargetVersions
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.read import read_pipeline
from lintrain.rulebook import load_rules
from lintrain.source.source import Source

HERE = Location("train.py", 1, 1, 1, 9)
SCRIPT = """
import torch
from torch import nn

net = nn.Linear(6, 3)
optimizer = torch.optim.Adam(net.parameters())
kept = []
for step, (x, y) in enumerate(torch.utils.data.DataLoader(rows, batch_size=4)):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    if {condition}:
        kept.append(loss)
"""


@pytest.mark.parametrize(
    ("condition", "graphs", "outcome"),
    [
        ("step % 10 == 0", 0, Outcome.INCONCLUSIVE),
        ("step % 10 == 0", 2, Outcome.CONFIRMED),
        ("step > 0", 0, Outcome.REFUTED),
    ],
)
def test_a_loss_that_is_kept_in_some_steps_is_not_refuted_by_others(
    condition: str, graphs: int, outcome: Outcome
) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "retained-graph")
    source = Source("train.py", SCRIPT.format(condition=condition))
    [finding] = rule.check(read_pipeline(source, TargetVersions()))
    loop = LoopEvidence(backwards=4, kept_old_graphs=graphs)
    evidence = Evidence("train.py", "torch", "a loop", HERE, None, "cpu", {}, loop=loop)
    assert rule.verify(finding, evidence).outcome is outcome
