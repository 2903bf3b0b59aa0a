"""What passes through torch in one iteration of a loop.

Smaller datasets of the same kind: rows from all over, one of every label value among them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import field
from itertools import islice
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, is_called_by_user, users_frame
from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.label_rows import one_of_every_label, spread
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library, loaded
from lintrain.runtime.measure.filled_values import MOST_CALLS, Given, given_of
from lintrain.runtime.measure.live_bytes import tensors_of
from lintrain.startup.lazy_dataclass import dataclass

MOST_LOSSES = 64


@dataclass(eq=False)
class Forward:
    """One call of a whole module: its arguments and its output, whether autograd recorded it, and the modes of its
    parts.

    `modes` are those of its dropout and batch-norm layers, the parts for which the mode matters; `called` is what was
    called, if the evidence names another `module` with the same weights, and `autocast` a context
    in which the call is as it was. `location` is where the script makes it.
    """

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any = None
    records: bool = False
    modes: tuple[bool, ...] = ()
    called: Any = None
    autocast: Any = field(default_factory=nullcontext)
    location: Location | None = None


@dataclass(eq=False)
class LossCall:
    """One call of a loss function of torch: its arguments, what it gave, and where the script makes it.

    `options` are those given by name, `rest` those given by position after the target. `ids` of [rows, tokens] are
    those that the model was last called with, `mask` those of them that are attended. `is_own`: the script's code makes
    the call, itself or by a module of torch. `is_chosen`: the script says how a divergence is averaged. `counted` says
    which entries of a result that is not reduced the loss depends on; it is known after the backward pass.
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
    is_own: bool = True
    is_chosen: bool = True
    counted: Any = None

    def on_result(self, result: Any) -> None:
        """What the call gave; of one number for each target, which of them count."""
        self.result = result
        if self.is_whole and attribute(result, "requires_grad", False):
            result.register_hook(self._count)

    @property
    def is_whole(self) -> bool:
        """Whether the loss of each target is given, and the script reduces them itself."""
        return self.options.get("reduction") == "none"

    def _count(self, gradient: Any) -> None:
        if self.counted is None:
            self.counted = gradient.detach() != 0


@dataclass(eq=False)
class Iteration:
    """One batch of the loop: from its loader, through model and loss, backward.

    `earlier` is the batch before: a library that loads one ahead (accelerate) gives that one to the script. `failed` is
    a module whose call raised an error. `filled` are the tensors in which the script finds or fills NaN.
    """

    batch: Any = None
    forwards: list[Forward] = field(default_factory=list[Forward])
    losses: list[LossCall] = field(default_factory=list[LossCall])
    earlier: Any = None
    failed: Any = None
    filled: list[Given] = field(default_factory=list[Given])

    def on_filling(self, tensor: Any) -> None:
        """NaN are looked for in a tensor, or taken out of it."""
        if len(self.filled) < MOST_CALLS:
            self.filled.append(given_of(tensor))

    def on_forward(self, forward: Forward) -> None:
        """A whole module gave its output: what the first one was called with is the batch."""
        if not self.forwards and self.earlier is not None:
            given = memory_of((forward.args, forward.kwargs))
            if given.isdisjoint(memory_of(self.batch)) and not given.isdisjoint(memory_of(self.earlier)):
                self.batch = self.earlier
        self.earlier = None
        self.forwards.append(forward)

    def on_loss(self, call: LossCall) -> None:
        """A loss was called; of a batch with very many only the first are kept."""
        if len(self.losses) < MOST_LOSSES:
            self.losses.append(call)

    def let_go(self) -> None:
        """Keep the numbers that losses were called with, without their graphs, and nothing of the models' calls."""
        for call in self.losses:
            for name in ("input", "target", "result"):
                tensor = getattr(call, name)
                if attribute(tensor, "grad_fn", None) is not None:
                    setattr(call, name, tensor.detach())
        self.forwards.clear()

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
    if has(value, "requires_grad") and has(value, "shape"):
        yield value
        return
    # Outputs of transformers are mappings, dataclasses at the same time: they are walked as mappings.
    parts = value if is_row(value) else value.values() if is_mapping(value) else ()
    for part in parts:
        yield from tensors_in(part)


def rows_of(batch: Any) -> int:
    """The rows of a batch with names; 0 if it has none."""
    values = batch.values() if is_mapping(batch) else ()
    return next((int(value.shape[0]) for value in values if attribute(value, "ndim", 0)), 0)


def memory_of(value: Any) -> set[int]:
    """Where the tensors in a value have their numbers: the same for one and for a view of it."""
    return {int(tensor.untyped_storage().data_ptr()) for tensor in tensors_in(value)}


def autocast_now() -> Any:
    """A context that computes in the formats that are computed in now."""
    torch = library("torch")
    if not has(torch, "get_autocast_dtype"):  # before torch 2.4 each device has functions of its own
        return nullcontext()
    device = next((name for name in ("cuda", "cpu") if torch.is_autocast_enabled(name)), None)
    return torch.autocast(device, dtype=torch.get_autocast_dtype(device)) if device else nullcontext()


def modes_of(module: Any) -> tuple[bool, ...]:
    """Whether each dropout and batch-norm layer of a module is in training mode."""
    nn = library("torch.nn")
    kinds = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)
    return tuple(
        part.training for part in module.modules() if isinstance(part, kinds) and attribute(part, "p", 1.0) > 0
    )


FUNCTIONS = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "ctc_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
)
OTHER_NAMES = {"ctc_loss": ("log_probs", "targets")}
"""The first two parameters of a loss, if they are not `input` and `target`."""


@contextmanager
def seen_losses() -> Generator[list[LossCall]]:
    """What the loss functions are called with meanwhile."""
    functional, calls = library("torch.nn.functional"), list[LossCall]()
    with ExitStack() as stack:
        for name in FUNCTIONS:
            stack.enter_context(replaced(functional, **{name: _seen(name, getattr(functional, name), calls)}))
        yield calls


def split_arguments(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any, tuple[Any, ...], dict[str, Any]]:
    """Prediction and target of a call of a loss (None if it has none), what follows by position, and by name."""
    options = dict(kwargs)
    first, second = (
        args[position] if position < len(args) else options.pop(known, None)
        for position, known in enumerate(OTHER_NAMES.get(name, ("input", "target")))
    )
    return first, second, args[2:], options


def _seen(name: str, function: Callable[..., Any], calls: list[LossCall]) -> Callable[..., Any]:
    def loss(*args: Any, **kwargs: Any) -> Any:
        # Kept before the call: a loss that raises is the most interesting one.
        location = frame_location(users_frame())
        given, target, rest, options = split_arguments(name, args, kwargs)
        is_own = is_called_by_user("/torch/nn/")
        call = LossCall(name, given, target, options, location=location, rest=rest, is_own=is_own)
        call.result = function(*args, **kwargs)
        calls.append(call)
        return call.result

    return loss


def is_arrow(dataset: Any) -> bool:
    """Whether a dataset is a table of `datasets` whose rows are not made by the user's own transform."""
    module = loaded("datasets.arrow_dataset")
    if module is None or not isinstance(dataset, module.Dataset):
        return False
    # `set_transform` runs the user's code for each row that is read; such a data set is read through it or not at
    # all.
    return bool(dataset.format["type"] != "custom")


def number_of_rows(dataset: Any) -> int | None:
    """The length of a dataset, or None for one that only streams."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def has_rows(dataset: Any) -> bool:
    """Whether a dataset has a length and gives rows by their number; a stream, which may count its rows, does not."""
    torch_data = loaded("torch.utils.data")
    is_stream = torch_data is not None and isinstance(dataset, torch_data.IterableDataset)
    return number_of_rows(dataset) is not None and has(dataset, "__getitem__") and not is_stream


def subset(dataset: Any, rows: int) -> Any:
    """At most `rows` rows of a dataset, with every label among them where that fits; a stream gives its first rows."""
    # A stream can be read once: its first rows are taken, in order.
    if not has_rows(dataset):
        return dataset.take(rows) if has(dataset, "take") else first_rows(dataset, rows)
    return taken(dataset, chosen_rows(dataset, len(dataset), rows))


def taken(dataset: Any, chosen: list[int]) -> Any:
    """The rows of some numbers, as a data set of the same kind where it has a method for that."""
    if has(dataset, "select"):
        return dataset.select(chosen)
    return library("torch.utils.data").Subset(dataset, chosen)


def first_rows(dataset: Iterable[Any], rows: int) -> list[Any]:
    """The first rows of a stream."""
    return list(islice(dataset, rows))


def chosen_rows(dataset: Any, length: int, rows: int) -> list[int]:
    """Row numbers, in order."""
    chosen = set(one_of_every_label(dataset)[:rows] if is_arrow(dataset) else ())
    for row in spread(length, rows):
        if len(chosen) >= min(rows, length):
            break
        chosen.add(row)
    return sorted(chosen)


GRAPH = 100_000


def nodes_below(start: Any, most: int = GRAPH, but: Iterable[Any] = ()) -> list[Any] | None:
    """Every node of a loss's graph, leaves too, without those below some; None for one that is too large to walk."""
    found: list[Any] = []
    seen, waiting = set[Any](but), [start]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if len(seen) > most:
            return None
        found.append(node)
        waiting += [below for below, _ in node.next_functions]
    return found
