"""Weights that a file did not have, in a load that skips them: what the first backward pass shows of each."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import LeftWeights, StateLoad
from lintrain.runtime.child.library import attribute, has, is_mapping
from lintrain.startup.lazy_dataclass import dataclass

MOST, SHOWN = 256, 4
"""Weights that are remembered, and those that are named."""


@dataclass(frozen=True, eq=False)
class _Load:
    number: int
    module: Any
    before: Mapping[str, tuple[float, float]]
    renamed: bool


class StateLoads(list[StateLoad]):
    """The loads of a process; it knows which layers were called after those that left weights as they were."""

    def __init__(self) -> None:
        super().__init__()
        self._lax: list[_Load] = []
        self._called: dict[int, bool] = {}
        self.waits = False

    def clear(self) -> None:
        """Forget all of them."""
        super().clear()
        self._lax, self.waits = [], False

    def note(self, load: StateLoad, module: Any, state: Mapping[str, Any], result: Any) -> None:
        """A load of a state, and what it returned."""
        self.append(load)
        own = dict(module.named_parameters()) if load.missing and is_mapping(state) else {}
        missing = [name for name in result.missing_keys if name in own]
        if not missing or len(missing) > MOST:
            return
        shapes = {tuple(state[name].shape) for name in result.unexpected_keys if has(state.get(name), "shape")}
        renamed = all(tuple(own[name].shape) in shapes for name in missing)
        before = {name: _print_of(own[name]) for name in missing}
        self._lax.append(_Load(len(self) - 1, weakref.ref(module), before, renamed))
        self._called.update({id(module.get_submodule(name.rpartition(".")[0])): False for name in missing})
        self.waits = True

    def on_call(self, module: Any) -> None:
        """A module was called."""
        if id(module) in self._called:
            self._called[id(module)] = True

    def settle(self, report: Callable[[StateLoads], None]) -> None:
        """The first gradients are there: keep, and report, what became of the weights that each load left."""
        lax, self._lax, self.waits = self._lax, [], False
        for load in lax:
            if (module := load.module()) is not None:
                self[load.number] = replace(self[load.number], left=self._left(load, module))
        if lax:
            report(self)

    def _left(self, load: _Load, module: Any) -> LeftWeights:
        own, filled = dict(module.named_parameters()), filled_by_script(module)
        same = [
            name
            for name, before in load.before.items()
            if name in own and name not in filled and _print_of(own[name]) == before
        ]
        trained = [name for name in same if own[name].grad is not None]
        frozen = [name for name in same if not own[name].requires_grad and self._is_called(module, name)]
        return LeftWeights(
            unchanged=len(same),
            trained=len(trained),
            frozen=len(frozen),
            renamed=load.renamed,
            are_last=_are_last(list(own), load.before),
            names=tuple((frozen or trained or same)[:SHOWN]),
        )

    def _is_called(self, module: Any, name: str) -> bool:
        return self._called.get(id(module.get_submodule(name.rpartition(".")[0])), False)


def filled_by_script(model: Any) -> frozenset[str]:
    """Names of the weights that the script itself loaded, into the model or one of its parts."""
    filled: set[str] = set()
    for path, part in model.named_modules():
        names: frozenset[str] = attribute(part, "lintrain_filled", frozenset())
        filled.update(f"{path}.{name}" if path else name for name in names)
    return frozenset(filled)


def _print_of(weight: Any) -> tuple[float, float]:
    """Two numbers that change with the values of a weight."""
    values = weight.detach().double()
    return float(values.sum()), float(values.square().sum())


def _are_last(names: list[str], missing: Iterable[str]) -> bool:
    """Whether weights are defined after all others of their module."""
    some = set(missing)
    return {*names[-len(some) :]} == some
