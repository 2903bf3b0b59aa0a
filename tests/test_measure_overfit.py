"""The loss of a loop's first batch made again: what was seen of it is enough, or says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from lintrain.runtime.frameworks.loop.overfit import CannotRemakeError, Recipe
from lintrain.runtime.measure.seen import Forward, Iteration, LossCall

torch: Any = import_module("torch")
nn, functional = torch.nn, torch.nn.functional
module: Any = nn.Module

IDS = torch.arange(12).reshape(3, 4) % 5


class Recorder:
    """Calls modules and losses as a script does, and keeps what a watch would keep."""

    def __init__(self) -> None:
        self.iteration = Iteration()

    def call(self, module: Any, *args: Any) -> Any:
        output = module(*args)
        self.iteration.forwards.append(Forward(module, args, {}, output, True, (), module))
        return output

    def lose(self, name: str, given: Any, target: Any, *rest: Any, **options: Any) -> Any:
        result = getattr(functional, name)(given, target, *rest, **options)
        self.iteration.losses.append(LossCall(name, given, target, options, result, rest=rest))
        return result


class Speaks(module):  # type: ignore[misc] # the library is read without its types
    """Gives logits for each token, and its own loss beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 5)

    def forward(self, ids: Any) -> tuple[Any, Any]:
        logits = self.words(ids)
        return logits, functional.cross_entropy(logits[:, :-1].reshape(-1, 5), ids[:, 1:].reshape(-1))


ROWS, CLASSES = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 1])
LossOf = Callable[[Recorder, Any], Any]


def logits(recorder: Recorder, model: Any) -> Any:
    return recorder.call(model, ROWS)


LOSSES: dict[str, LossOf] = {
    "plain": lambda seen, model: seen.lose("cross_entropy", logits(seen, model), CLASSES),
    "divided": lambda seen, model: seen.lose("cross_entropy", logits(seen, model), CLASSES) / 4,
    "mean": lambda seen, model: seen.lose("cross_entropy", logits(seen, model), CLASSES, reduction="none").mean(),
    "smoothed": lambda seen, model: seen.lose("cross_entropy", logits(seen, model), CLASSES, label_smoothing=0.1),
    "weighted": lambda seen, model: seen.lose(
        "cross_entropy", logits(seen, model), CLASSES, torch.tensor([1.0, 2.0, 3.0])
    ),
    "log-softmax": lambda seen, model: seen.lose("nll_loss", logits(seen, model).log_softmax(dim=1), CLASSES),
    "squeezed": lambda seen, model: seen.lose("mse_loss", seen.call(nn.Linear(6, 1), ROWS).squeeze(-1), torch.ones(4)),
    "own": lambda seen, _: seen.call(Speaks(), IDS)[1],
    "shifted": lambda seen, _: seen.lose(
        "cross_entropy", seen.call(Speaks(), IDS)[0][:, :-1].reshape(-1, 5), IDS[:, 1:].reshape(-1)
    ),
    "turned": lambda seen, _: seen.lose("cross_entropy", seen.call(Speaks(), IDS)[0].transpose(1, 2), IDS),
    "two modules": lambda seen, model: seen.lose(
        "cross_entropy", seen.call(nn.Linear(3, 3), seen.call(model, ROWS)), CLASSES
    ),
}


@pytest.mark.parametrize("name", list(LOSSES))
def test_a_loss_is_made_again_from_what_was_seen(name: str) -> None:
    torch.manual_seed(0)
    seen = Recorder()
    loss = LOSSES[name](seen, nn.Linear(6, 3))
    recipe = Recipe(seen.iteration, loss)
    again, _ = recipe.make()
    assert float(again.detach()) == pytest.approx(recipe.value)
    assert again.requires_grad
    moved = recipe.modules[0]
    with torch.no_grad():
        for weight in moved.parameters():
            weight.add_(torch.randn(weight.shape))
    assert float(recipe.make()[0].detach()) != pytest.approx(recipe.value)


def distilled(seen: Recorder, model: Any) -> Any:
    return seen.lose("mse_loss", seen.call(model, ROWS), seen.call(nn.Linear(6, 3), ROWS))


def times_three(seen: Recorder, model: Any) -> Any:
    return seen.lose("cross_entropy", seen.call(model, ROWS) * 3, CLASSES)


def penalised(seen: Recorder, model: Any) -> Any:
    return LOSSES["plain"](seen, model) + 0.1 * model.weight.norm()


def of_its_own(seen: Recorder, model: Any) -> Any:
    return seen.call(model, ROWS).square().sum()


@pytest.mark.parametrize(
    ("loss_of", "reason"),
    [
        (penalised, "neither returned by the model"),
        (of_its_own, "neither returned by the model"),
        (times_three, "between its model and its loss"),
        (distilled, "also comes from a model"),
    ],
)
def test_a_loss_that_cannot_be_made_again_says_why(loss_of: LossOf, reason: str) -> None:
    torch.manual_seed(0)
    seen = Recorder()
    loss = loss_of(seen, nn.Linear(6, 3))
    with pytest.raises(CannotRemakeError, match=reason):
        Recipe(seen.iteration, loss)
