"""The first optimizer steps of a script, followed wherever they are made, and sent to be compared.

Which rows of a data set a batch was made of, recognized by the memory of its tensors, else by their contents.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from lintrain.runtime.child.library import attribute, has, is_row, library, wait_for_the_others
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.measure.predictions import number
from lintrain.runtime.measure.seen import tensors_in
from lintrain.runtime.timeline.facts import TimelineFacts, digest, digest_of_all, generators

if TYPE_CHECKING:
    from typing import Unpack


SECONDS_OF_A_TRIAL = 20.0
"""From its first backward pass on."""
MOST_INPUTS = 64
MOST_MORE = 20
"""Steps that a loop may go on for on several processes, where nothing ends it."""


class Follower:
    """What happened since the last step, and how many steps there were.

    `purpose` is that of the request; `is_guided` says that a library runs the loop: it ends its epochs by itself.
    `more_facts` are called with each step that is sent.
    """

    def __init__(self, session: ProbeSession, purpose: str, steps: int, checkpoint: str) -> None:
        self.session = session
        self.purpose = purpose
        self.wanted = steps
        self.checkpoint = checkpoint
        self.is_guided = False
        self.rank = int(os.environ.get("RANK", "0")) if purpose == "ranks" else 0
        self.taken = 0
        self.rows = Rows()
        self.more_facts: list[Callable[[], TimelineFacts]] = []
        self.roots: list[Any] = []
        self._began = 0.0
        self._optimizers: list[Any] = []
        self._scalers: list[Any] = []
        self._first: Any = None
        self._restart()

    def _restart(self) -> None:
        self._losses: list[float] = []
        self._inputs: list[Any] = []
        self._scale = 1.0
        self._before: dict[str, Any] | None = None

    def report(self, **facts: Unpack[TimelineFacts]) -> None:
        """Send single facts by name."""
        self.session.channel.send("timeline", facts=facts, rank=self.rank)

    def stop(self, reason: str) -> NoReturn:
        """End the process: the script gives no reason to go on."""
        self.report(stopped=reason)
        self.session.finish()

    def on_optimizer(self, optimizer: Any) -> None:
        """An optimizer of torch was made."""
        self._optimizers.append(optimizer)

    def on_scaler(self, scaler: Any) -> None:
        """A scaler of gradients was made; one that is switched off has no state."""
        if scaler.is_enabled():
            self._scalers.append(scaler)

    def on_scaling(self, scaler: Any) -> None:
        """A scaler has multiplied a loss, which is about to go backward."""
        self._scale = float(scaler.get_scale()) if scaler.is_enabled() else 1.0

    def on_forward(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A whole module is about to be called; one without weights (a loss) is not of interest."""
        if not library("torch").is_grad_enabled() or next(module.parameters(), None) is None:
            return
        # Several roots: a script may call an encoder and a head one after the other, and both have weights to compare.
        if all(module is not root for root in self.roots):
            self.roots.append(module)
        if self._before is None:
            with same_random_numbers():
                # Before the first forward pass of a step: batch norm changes its buffers in the pass itself.
                self._before = self._state()
        if len(self._inputs) < MOST_INPUTS:
            self._inputs.append(list(tensors_in([*args, *kwargs.values()])))

    def _state(self) -> dict[str, Any]:
        if self.purpose == "try":
            return {}
        names = {id(tensor): name for name, tensor in self._named()}
        return {
            "generators": generators(),
            "weights": {name: digest(tensor) for name, tensor in self._named()},
            "state": dict(self._optimizer_state(names)),
            "scalers": [(scaler.get_scale(), scaler._get_growth_tracker()) for scaler in self._scalers],
        }

    def _named(self) -> Iterator[tuple[str, Any]]:
        """Weights and buffers by the name that they have without wrappers; of a module and a part of it, once."""
        known: set[int] = set()
        # The largest first: a part that is also called alone then keeps its name within the whole, in both passes.
        for root in sorted(self.roots, key=lambda root: -sum(1 for _ in root.parameters())):
            for name, tensor in (*root.named_parameters(), *root.named_buffers()):
                if id(tensor) not in known:
                    known.add(id(tensor))
                    yield name.removeprefix("module."), tensor

    def _optimizer_state(self, names: dict[int, str]) -> Iterator[tuple[str, str]]:
        for optimizer in self._optimizers:
            for weight, held in optimizer.state.items():
                # By the name of the weight and not by its number: two processes may make their parameter
                # groups in another order.
                for key, value in held.items() if id(weight) in names else ():
                    if has(value, "shape"):
                        yield f"{names[id(weight)]}.{key}", digest(value)

    def on_backward_start(self, loss: Any) -> None:
        """Gradients are about to be made."""
        self._began = self._began or time.perf_counter()
        # A tensor that goes backward with a gradient of its own is no loss to compare.
        if loss.numel() == 1:
            self._losses.append(number(loss) / self._scale)
        self._scale = 1.0

    def on_step_end(self, optimizer: Any, *_: Any) -> None:
        """An optimizer has stepped: of several, the first one counts."""
        # A GAN steps twice per batch; digests of all weights twice as often would double the time of the pass.
        self._first = optimizer if self._first is None else self._first
        if optimizer is not self._first or not optimizer.param_groups:
            return
        if self.taken < self.wanted:
            with same_random_numbers():
                self._send(optimizer)
        self._restart()
        self.taken += 1
        if self.purpose == "ranks" and not self.is_guided and self.taken < self.wanted + MOST_MORE:
            return  # a loop goes on, for the script writes when its epochs are over
        # The process ends inside of the optimizer's step hook: nothing of the script runs after the last step that is
        # compared.
        if self.taken >= self.wanted or (self.purpose == "try" and self._is_late()):
            self.finish()

    def _is_late(self) -> bool:
        return time.perf_counter() - self._began > SECONDS_OF_A_TRIAL

    def finish(self) -> NoReturn:
        """Everything was sent; one of several processes waits until all of them have come so far."""
        if self.purpose == "ranks":
            self.report(done=True)
            wait_for_the_others()
        self.session.finish()

    def _send(self, optimizer: Any) -> None:
        nothing: dict[str, Any] = {"generators": {}, "weights": {}, "state": {}, "scalers": ()}
        # The losses of a trial are compared, not its weights: their digests take longer than a step of a large model.
        named = list(self._named()) if self.purpose != "try" else []
        step = {
            **nothing,
            **(self._before or {}),
            "losses": self._losses,
            "batch": digest_of_all(self._inputs),
            "rows": self.rows.of(self._inputs),
            "gradients": {
                name: digest(tensor.grad) for name, tensor in named if attribute(tensor, "grad", None) is not None
            },
            "without_gradient": [name for name, tensor in named if tensor.requires_grad and tensor.grad is None],
            "learning_rates": [float(group["lr"]) for group in optimizer.param_groups],
        }
        self.session.channel.send("timeline-step", step=step, rank=self.rank)
        for read_facts in self.more_facts:
            self.report(**read_facts())


KEPT = 32


class Rows:
    """The numbers of the rows of the last batches; their tensors are kept, so that nothing else gets their memory."""

    def __init__(self) -> None:
        # Bounded: loaders fetch a few batches ahead, and kept tensors hold their memory.
        self._kept: deque[tuple[list[Any], tuple[int, ...]]] = deque(maxlen=KEPT)

    def fetched(self, numbers: Any, batch: Any) -> None:
        """A loader made a batch of rows with these numbers."""
        plain: list[Any] = [*numbers] if is_row(numbers) else [numbers]
        if plain and all(isinstance(each, int) for each in plain):
            self._kept.append((list(tensors_in(batch)), tuple(plain)))

    def of(self, inputs: Iterable[list[Any]]) -> tuple[int, ...]:
        """The rows of the batches that some inputs of a model share memory with or are copies of, in their order."""
        kept = [(tensor, rows) for tensors, rows in self._kept for tensor in tensors]
        lie_in = {_memory(tensor): rows for tensor, rows in kept}
        found: dict[tuple[int, ...], None] = {}
        for tensors in inputs:
            known = [lie_in.get(_memory(tensor)) for tensor in tensors]
            # Memory first, which is certain and cheap. Contents are read only where `to` has copied the batch.
            known = known if any(known) else _by_content(tensors, kept)
            found.update(dict.fromkeys(rows for rows in known if rows is not None))
        return tuple(row for rows in found for row in rows)


def _by_content(tensors: list[Any], kept: list[tuple[Any, tuple[int, ...]]]) -> list[tuple[int, ...] | None]:
    """The rows of batches that tensors are equal to, and to no other one.

    On several processes accelerate's device is `cpu:0` or `cpu:1`, to which `to` copies what is on `cpu` (1.15).
    """
    found: dict[str, set[tuple[int, ...]]] = {}
    for tensor, rows in kept:
        if (key := _content(tensor)) is not None:
            found.setdefault(key, set()).add(rows)
    known = [found.get(_content(tensor) or "", set[tuple[int, ...]]()) for tensor in tensors]
    return [next(iter(each)) if len(each) == 1 else None for each in known]


def _content(tensor: Any) -> str | None:
    """What an equal tensor has too; None for one whose entries are all the same, as those of a mask may be."""
    if tensor.numel() < 2 or bool((tensor == tensor.reshape(-1)[0]).all()):
        return None
    return f"{list(tensor.shape)} {tensor.dtype} {digest(tensor)}"


def _memory(tensor: Any) -> int:
    """Where the memory of a tensor begins: 0 for one without any, which is no batch's."""
    try:
        return int(tensor.untyped_storage().data_ptr()) or id(tensor)
    except (RuntimeError, NotImplementedError):
        return id(tensor)
