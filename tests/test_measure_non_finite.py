"""Where NaN comes up, and what steps do to the weights."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from lintrain.evidence.run import NonFiniteOrigin, NonFiniteRows
from lintrain.runtime.child.frames import shown
from lintrain.runtime.measure.losses import NonFiniteModule, NonFiniteSearch, first_non_finite
from lintrain.runtime.measure.non_finite import NonFiniteTrace, non_finite_rows
from lintrain.runtime.measure.seen import LossCall
from lintrain.runtime.measure.weights import Frozen, changed_share, damaged, snapshot, updates, zero_layers
from tests.support.recorded import RecordedRun


class Log(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.log(x)


def test_the_first_module_with_nan_is_named_with_the_range_of_its_input() -> None:
    model = nn.Sequential(nn.Identity(), Log(), nn.Linear(2, 2))
    x = torch.tensor([[-3.0, 0.5]])
    assert first_non_finite(model, lambda: model(x)) == NonFiniteModule("1", False, (-3.0, 0.5))


def test_nan_that_comes_in_is_told_from_nan_that_is_made() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    found = first_non_finite(model, lambda: model(torch.tensor([[float("nan"), 2.0]])))
    assert found == NonFiniteModule("0", True, (2.0, 2.0))


def test_finite_outputs_leave_the_loss() -> None:
    model = nn.Sequential(nn.Identity())
    assert first_non_finite(model, lambda: model(torch.tensor([1.0, 4.0]))) == NonFiniteModule("", False, (1.0, 4.0))


def test_a_pass_that_cannot_be_made_again_names_nothing_and_leaves_no_hook() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    assert first_non_finite(model, lambda: model(torch.randn(1, 3))) is None
    assert not model[0]._forward_hooks


def gradient_birth(model: nn.Module, loss: Any) -> Any:
    search = NonFiniteSearch()
    search.watch(loss, model)
    loss.backward()
    search.close()
    return search.found


def test_the_operation_whose_gradient_is_not_finite_is_named() -> None:
    model = nn.Linear(2, 1)
    out = model(torch.ones(3, 2))
    found = gradient_birth(model, (out - out.detach()).square().sum().sqrt())
    assert (found.operation, found.behind, found.range) == ("Sqrt", "bias", (0.0, 0.0))


def test_finite_gradients_have_no_birth() -> None:
    model = nn.Linear(2, 1)
    assert gradient_birth(model, model(torch.ones(3, 2)).square().mean()) is None


def test_a_watched_graph_is_let_go() -> None:
    class Mark:
        def __call__(self, *_: Any) -> None:
            return

    model = nn.Linear(2, 1)
    loss, mark = model(torch.ones(3, 2)).mean(), Mark()
    loss.grad_fn.register_hook(mark)
    alive = weakref.ref(mark)
    gradient_birth(model, loss)
    gc.disable()
    try:
        del loss, mark
        assert alive() is None
    finally:
        gc.enable()


def test_updates_are_told_by_layer_as_a_share_of_the_weights_and_by_step() -> None:
    run = RecordedRun(nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)))
    before = snapshot(run)
    with torch.no_grad():
        run.model[0].weight.mul_(1.1)
    found = {update.layer: update.ratio for update in updates(run, before, 2)}
    assert found == {"0": pytest.approx(0.05, rel=1e-4), "1": 0.0}


def test_frozen_weights_that_move_are_named_and_statistics_counted() -> None:
    model: Any = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.BatchNorm1d(2))
    for part in model[:2]:
        part.requires_grad_(False)
    frozen = Frozen(RecordedRun(model))
    assert (frozen.moved(), frozen.statistics()) == ((), 0)
    model(torch.randn(8, 2))
    with torch.no_grad():
        model[0].bias += 1.0
    assert (frozen.moved(), frozen.statistics()) == (("0.bias",), 1)


def origin_of(compute: Callable[[], Any]) -> NonFiniteOrigin | None:
    """What the trace reports of a loss, of which a backward pass is made."""
    found: list[NonFiniteOrigin] = []
    with NonFiniteTrace(found.append).mode(torch):
        compute().backward()
    return found[0] if found else None


WEIGHT = nn.Parameter(torch.ones(3))


@pytest.mark.parametrize(
    ("compute", "cause"),
    [
        (lambda: (WEIGHT / torch.tensor([1.0, 0.0, 2.0])).sum(), "a division by 0: 1 of 3 divisors"),
        (lambda: (WEIGHT - 1).log().sum(), "the logarithm of 0: 3 of 3"),
        (lambda: (WEIGHT - 2).sqrt().mean(), "the root of negative numbers: 3 of 3"),
        (lambda: WEIGHT[:0].mean(), "over 0 numbers"),
        (lambda: (WEIGHT * 100).exp().sum(), "on numbers from 100 to 100"),
    ],
)
def test_the_first_operation_is_named_with_its_cause(compute: Callable[[], Any], cause: str) -> None:
    origin = origin_of(compute)
    assert origin is not None
    assert origin.cause == cause
    assert origin.location is not None
    assert origin.location.path == shown(__file__)


def test_an_infinity_that_becomes_nan_later_is_named_as_well() -> None:
    def compute() -> Any:
        infinite = (WEIGHT - 1).log()
        return (infinite * 0).sum()

    origin = origin_of(compute)
    assert origin is not None
    assert origin.operation == "mul"
    assert origin.before is not None
    assert origin.location is not None
    assert origin.before.line == origin.location.line - 1


def test_a_mask_of_infinities_is_no_origin() -> None:
    mask = torch.tensor([False, True, False])
    assert origin_of(lambda: WEIGHT.masked_fill(mask, -torch.inf).softmax(dim=0).max()) is None
    origin = origin_of(lambda: (WEIGHT.masked_fill(mask, -torch.inf).softmax(dim=0) / (WEIGHT - 1)).sum())
    assert origin is not None
    assert origin.operation == "div"


def test_an_operation_that_gives_back_its_input_keeps_the_origin() -> None:
    origin = origin_of(lambda: (WEIGHT - 1).log().to(torch.float32).contiguous().sum())
    assert origin is not None
    assert origin.operation == "log"


def rows_of(function: str, given: Any, target: Any, **options: Any) -> NonFiniteRows | None:
    call = LossCall(function, given, target, options)
    call.result = getattr(nn.functional, function)(given, target, **options)
    return non_finite_rows([call], None, None)


def test_the_rows_of_a_loss_and_their_labels_are_named() -> None:
    given = torch.tensor([[0.0, -torch.inf], [0.0, 0.0], [0.0, -torch.inf]])
    assert rows_of("nll_loss", given, torch.tensor([0, 0, 1])) == NonFiniteRows((2,), 1, 3, (1,), True)
    assert rows_of("nll_loss", given, torch.tensor([1, 1, 1])) == NonFiniteRows((0, 2), 2, 3, (1,), False)
    assert rows_of("nll_loss", given, torch.tensor([0, 0, 0])) is None


def test_a_mean_over_ignored_targets_is_one_over_nothing() -> None:
    found = rows_of("cross_entropy", torch.zeros(2, 3), torch.tensor([-100, -100]))
    assert found == NonFiniteRows((), 0, 2, all_ignored=True)


def test_rows_of_outputs_or_inputs_are_named_where_no_loss_function_is_called() -> None:
    output = torch.tensor([[0.0], [torch.nan], [1.0]])
    batch = {"x": torch.zeros(3, 2), "labels": torch.tensor([0, 1, 0])}
    assert non_finite_rows([], output, batch) == NonFiniteRows((1,), 1, 3, (1,), True)
    assert non_finite_rows([], output.nan_to_num(), batch) is None


def test_weights_that_become_zero_or_nan_when_they_are_loaded_are_named() -> None:
    model: Any = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8))
    nn.init.zeros_(model[2].weight)
    saved = {name: torch.zeros_like(weight) for name, weight in model.state_dict().items()}
    saved["1.weight"] = torch.full((8, 8), torch.nan)
    assert damaged(saved, dict(model.named_parameters())) == (("0.weight",), ("1.weight",))
    assert damaged(model.state_dict(), dict(model.named_parameters())) == ((), ())


def test_linear_layers_of_zeros_are_named_but_for_fresh_and_added_ones() -> None:
    model: Any = nn.ModuleDict({name: nn.Linear(8, 8) for name in ("query", "head", "lora_B", "value")})
    for name in ("query", "head", "lora_B"):
        nn.init.zeros_(model[name].weight)
    assert zero_layers(model, {"head.weight"}) == ("query.weight",)


def test_weights_that_no_optimizer_steps_are_not_expected_to_move() -> None:
    run = RecordedRun(nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)))
    before = snapshot(run)
    run.model(torch.ones(1, 2)).sum().backward()
    torch.optim.SGD(run.model[0].parameters(), lr=1.0).step()
    assert changed_share(run, before) == 0.5
    assert changed_share(run, before, ("1.weight",)) == 1.0
    assert changed_share(run, before, ("0.weight", "1.weight")) is None
