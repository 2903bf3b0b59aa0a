"""What passes through torch in one iteration of a loop."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import field
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.kinds import is_mapping, is_row
from lintrain.runtime.child.library import library
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.measure.live_bytes import tensors_of
from lintrain.startup.lazy_dataclass import dataclass

MOST_LOSSES = 64


@dataclass(eq=False)
class Forward:
    """One call of a whole module: its arguments and its output, whether autograd recorded it, and the modes of its
    parts.

    `modes` are those of its dropout and batch-norm layers, the parts for which the mode matters; `called` is what was
    called, if the evidence names another `module` with the same weights, and `autocast` a context
    in which the call is as it was.
    """

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any = None
    records: bool = False
    modes: tuple[bool, ...] = ()
    called: Any = None
    autocast: Any = field(default_factory=nullcontext)


@dataclass(eq=False)
class LossCall:
    """One call of a loss function of torch: its arguments, what it gave, and where the script makes it.

    `options` are those given by name, `rest` those given by position after the target. `ids` of [rows, tokens] are
    those that the model was last called with, `mask` those of them that are attended.
    """

    name: str
    input: Any
    target: Any
    options: dict[str, Any]
    result: Any = None
    location: Location | None = None
    ids: Any = None
    mask: Any = None
    rest: tuple[Any, ...] = ()


@dataclass(eq=False)
class Iteration:
    """One batch of the loop: from its loader, through model and loss, backward."""

    batch: Any = None
    forwards: list[Forward] = field(default_factory=list[Forward])
    losses: list[LossCall] = field(default_factory=list[LossCall])

    def on_loss(self, call: LossCall) -> None:
        """A loss was called; of a batch with very many only the first are kept."""
        if len(self.losses) < MOST_LOSSES:
            self.losses.append(call)

    def tensors(self) -> list[Any]:
        """Those of its batch, then those that models were called with."""
        given = [part for forward in self.forwards for part in (*forward.args, *forward.kwargs.values())]
        return [*tensors_of(self.batch), *tensors_of(given)]

    def rows(self) -> int:
        """The length of the first axis; 0 if there is no tensor."""
        return next((int(tensor.shape[0]) for tensor in self.tensors() if tensor.ndim), 0)

    def tokens(self) -> int | None:
        """The length of the token ids, the first `int64 [rows, tokens]`; None if there are none."""
        integers = library("torch").int64
        found = (tensor for tensor in self.tensors() if tensor.ndim == 2 and tensor.dtype == integers)
        return next((int(tensor.shape[1]) for tensor in found), None)


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors of an output or a batch, however it is nested."""
    if hasattr(value, "requires_grad") and hasattr(value, "shape"):
        yield value
        return
    # Outputs of transformers are mappings, dataclasses at the same time: they are walked as mappings.
    parts = value if is_row(value) else value.values() if is_mapping(value) else ()
    for part in parts:
        yield from tensors_in(part)


def autocast_now() -> Any:
    """A context that computes in the formats that are computed in now."""
    torch = library("torch")
    if not hasattr(torch, "get_autocast_dtype"):  # before torch 2.4 each device has functions of its own
        return nullcontext()
    device = next((name for name in ("cuda", "cpu") if torch.is_autocast_enabled(name)), None)
    return torch.autocast(device, dtype=torch.get_autocast_dtype(device)) if device else nullcontext()


def modes_of(module: Any) -> tuple[bool, ...]:
    """Whether each dropout and batch-norm layer of a module is in training mode."""
    nn = library("torch.nn")
    kinds = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)
    return tuple(part.training for part in module.modules() if isinstance(part, kinds) and getattr(part, "p", 1.0) > 0)


FUNCTIONS = ("cross_entropy", "nll_loss")


@contextmanager
def seen_losses() -> Generator[list[LossCall]]:
    """What the loss functions are called with meanwhile."""
    functional, calls = library("torch.nn.functional"), list[LossCall]()
    with ExitStack() as stack:
        for name in FUNCTIONS:
            stack.enter_context(replaced(functional, **{name: _seen(name, getattr(functional, name), calls)}))
        yield calls


def _seen(name: str, function: Callable[..., Any], calls: list[LossCall]) -> Callable[..., Any]:
    def loss(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - torch's own name, given by keyword
        # Kept before the call: a loss that raises is the most interesting one.
        call = LossCall(name, input, target, kwargs)
        call.result = function(input, target, *args, **kwargs)
        calls.append(call)
        return call.result

    return loss
