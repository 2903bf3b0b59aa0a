"""Where NaN or infinity first appears: the first module of a forward pass, the first operation of a backward pass."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from lintrain.evidence.run import NonFiniteGradient
from lintrain.runtime.child.library import is_mapping, is_row, library
from lintrain.runtime.measure.gradients import nodes_below
from lintrain.startup.lazy_dataclass import dataclass

MOST_NODES = 20_000
NEAR = 200
"""So many operations are looked through for the nearest parameter."""
SAVED = ("_saved_self", "_saved_input", "_saved_other", "_saved_result", "_saved_target")


@dataclass(frozen=True)
class NonFiniteModule:
    """The first module whose output is not finite, "" for none; whether its input was; the range of the finite part."""

    module: str
    input_was: bool
    range: tuple[float, float] | None


def first_non_finite(model: Any, go: Callable[[], Any]) -> NonFiniteModule | None:
    """Watch the parts of a model through one forward pass; None if the pass cannot be made again."""
    found: list[NonFiniteModule] = []
    hooks = [
        module.register_forward_hook(partial(_look, name or type(module).__name__, found))
        for name, module in model.named_modules()
        # Leaves only: a container's output is that of its last part.
        if not any(True for _ in module.children())
    ]
    try:
        with library("torch").no_grad():
            output = go()
    except Exception:  # noqa: BLE001 - the step itself went through before; without the name the finding still stands
        return None
    finally:
        for hook in hooks:
            hook.remove()
    if found:
        return found[0]
    return None if any_non_finite(output) else NonFiniteModule("", False, range_of(output))


def _look(name: str, found: list[NonFiniteModule], _module: Any, inputs: Any, output: Any) -> None:
    if not found and any_non_finite(output):
        found.append(NonFiniteModule(name, any_non_finite(inputs), range_of(inputs)))


def any_non_finite(value: Any) -> bool:
    """Whether a value holds a tensor with NaN or infinity."""
    return any(not _is_finite(tensor) for tensor in _floats(value))


def _is_finite(tensor: Any) -> bool:
    """Adding up is several times as quick as looking at every entry; a sum may overflow, so that settles nothing."""
    return math.isfinite(tensor.sum()) or bool(library("torch").isfinite(tensor).all())


def range_of(value: Any) -> tuple[float, float] | None:
    """The least and the greatest finite entry of the float tensors in a value."""
    finite = [tensor[library("torch").isfinite(tensor)] for tensor in _floats(value)]
    edges = [(float(part.min()), float(part.max())) for part in finite if part.numel()]
    return (min(low for low, _ in edges), max(high for _, high in edges)) if edges else None


def _floats(value: Any) -> Iterator[Any]:
    if hasattr(value, "is_floating_point") and value.is_floating_point():
        dense = value.detach()
        yield dense._values() if dense.is_sparse else dense
    parts = value if is_row(value) else value.values() if is_mapping(value) else ()
    for part in parts:
        yield from _floats(part)


class NonFiniteSearch:
    """Looks at every gradient of a backward pass, until one is not finite although what it was made of was."""

    def __init__(self) -> None:
        self.found: NonFiniteGradient | None = None
        self._nodes: list[Any] = []
        self._names: dict[int, str] = {}

    def watch(self, loss: Any, model: Any) -> None:
        """Hook into the graph of a loss; a very large one is left alone."""
        self._names = {id(weight): name for name, weight in model.named_parameters()}
        self._nodes = _operations_below(loss.grad_fn)
        for position, node in enumerate(self._nodes):
            node.register_hook(partial(self._sees, position))

    def close(self) -> None:
        """The backward pass is through: let its graph go, which the hooks would hold."""
        self._nodes = []

    def _sees(self, position: int, made: Any, given: Any) -> None:
        # Where it begins: the gradient coming in was finite, the one going out is not. Every operation after that
        # only passes it on.
        if self.found is None and self._nodes and any_non_finite(made) and not any_non_finite(given):
            node = self._nodes[position]
            name = node.name().rpartition("::")[2].removesuffix("Backward0").removesuffix("Backward")
            self.found = NonFiniteGradient(name, self._nearest(node), range_of(_saved(node)))

    def _nearest(self, start: Any) -> str | None:
        """The name of the parameter that the fewest operations lie before."""
        waiting, seen = deque([start]), set[Any]()
        while waiting and len(seen) < NEAR:
            node = waiting.popleft()
            if node is None or node in seen:
                continue
            seen.add(node)
            if (name := self._names.get(id(getattr(node, "variable", None)))) is not None:
                return name
            waiting += [below for below, _ in node.next_functions]
        return None


def _operations_below(start: Any) -> list[Any]:
    """The operations that a backward pass goes through, without the places where gradients are added up."""
    return [node for node in nodes_below(start, MOST_NODES) or () if not hasattr(node, "variable")]


def _saved(node: Any) -> list[Any]:
    """What autograd kept of the input of an operation, or of its result."""
    kept: list[Any] = []
    for name in SAVED:
        try:
            value = getattr(node, name, None)
        except RuntimeError:  # it was let go
            continue
        if hasattr(value, "is_floating_point"):
            kept.append(value)
    return kept[:1]
