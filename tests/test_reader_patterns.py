"""The axes of tensors whose order patterns of einops and equations of `einsum` write down."""

from __future__ import annotations

import pytest

from lintrain.pipeline.values.model import Role, Tensor
from tests.support.loops import PRELUDE, pipeline_of

LOOP = """
import einops
from einops import rearrange, reduce
net = nn.Conv2d(3, 5, 1)
for x, y in loader:
"""


def target(expression: str) -> Tensor:
    code = f"{LOOP}    F.mse_loss(net(x), {expression}).backward()\n"
    (loss,) = pipeline_of(PRELUDE + code).losses
    assert loss.target is not None
    assert isinstance(loss.target.value, Tensor)
    return loss.target.value


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("rearrange(y, 'b c h w -> b (h w) c')", "(N, *, *)"),
        ("rearrange(torch.zeros(4, 3, 8), 'b c t -> b t c')", "(4, 8, 3)"),
        ("rearrange(y, 'b (h w) -> b h w 1', h=7)", "(N, 7, *, 1)"),
        ("rearrange(y, '... c -> ... 1 c')", "(…, 1, *)"),
        ("reduce(y, 'b c h w -> b c', 'mean')", "(N, *)"),
        ("einops.repeat(y, 'n -> n k', k=5)", "(N, 5)"),
        ("torch.einsum('bij,bjk->bik', y, y)", "(N, *, *)"),
        ("torch.einsum('bi,bi->', y, y)", "()"),
    ],
)
def test_axes_are_those_that_the_pattern_names(expression: str, shape: str) -> None:
    assert str(target(expression).shape) == shape


@pytest.mark.parametrize(
    "expression", ["rearrange(y, pattern)", "rearrange(y, 'b c')", "torch.einsum('b...,b...->b...', y, y)"]
)
def test_axes_of_other_patterns_are_not_known(expression: str) -> None:
    assert target(expression).shape.rank is None


def test_what_a_network_gave_stays_that_in_another_order() -> None:
    tensor = target("rearrange(net(x), 'b c h w -> b h w c')")
    assert isinstance(tensor.model, type(target("net(x)").model))
    assert tensor.role is target("net(x)").role
    assert tensor.role is not Role.LABELS
    assert tensor.passes
    assert tensor.is_reshaped
