"""What the reader follows of losses that are kept in lists, dictionaries and generators, and added by `sum`."""

from __future__ import annotations

import pytest

from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import Value
from tests.support.loops import PRELUDE, pipeline_of

LOOP = """
net, head = nn.Linear(8, 3), nn.Linear(8, 3)
for x, y in loader:
"""


def loss_of(code: str) -> Value:
    pipeline = pipeline_of(PRELUDE + LOOP + "".join(f"    {line}\n" for line in code.splitlines()))
    (event,) = pipeline.acts(Act.BACKWARD)
    return event.details["loss"]


@pytest.mark.parametrize(
    "code",
    [
        "sum([F.cross_entropy(net(x), y), F.cross_entropy(head(x), y)]).backward()",
        "losses = {'a': F.cross_entropy(net(x), y), 'b': F.cross_entropy(head(x), y)}\nsum(losses.values()).backward()",
        "losses = {'a': F.cross_entropy(net(x), y)}\n(sum(loss for loss in losses.values()) / 2).backward()",
        "losses = []\nfor part in x:\n    losses.append(F.cross_entropy(net(part), y))\nsum(losses).backward()",
        "sum((F.cross_entropy(net(x), y) * weight for weight in (0.1, 0.5)), 0.0).backward()",
    ],
)
def test_a_sum_of_losses_is_a_loss_without_axes(code: str) -> None:
    loss = loss_of(code)
    assert isinstance(loss, Tensor)
    assert loss.role is Role.LOSS
    assert loss.shape.rank == 0


def test_a_sum_goes_back_through_every_pass() -> None:
    loss = loss_of("sum([F.cross_entropy(net(x), y), F.cross_entropy(head(x), y)]).backward()")
    assert isinstance(loss, Tensor)
    assert len(loss.passes) == 2


@pytest.mark.parametrize("code", ["sum(losses).backward()", "sum([x, *losses]).backward()", "sum(3).backward()"])
def test_a_sum_of_what_is_not_known_is_unknown_or_a_tensor_without_a_role(code: str) -> None:
    loss = loss_of(code)
    assert not isinstance(loss, Tensor) or loss.role is Role.UNKNOWN
