"""A model called again: in eval mode, without gradients, from the same random numbers; everything is restored.

How the targets of a loss correspond to the tokens that the model read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lintrain.evidence.run import TargetAlignment
from lintrain.runtime.child.library import has, is_mapping, is_row, library
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.measure.calls import Call

MOST_ANSWERS = 4
MOST_KEPT = 2**20
"""Entries of buffers that are copied before a pass: in eval mode models have no reason to write into larger ones."""


def ask(call: Call) -> tuple[Any, ...]:
    """The answers to a call, as float tensors with an entry for each row: its logits, else all that it gives."""
    torch = library("torch")
    # Copied containers, since a model may take entries out of the dictionary that it is given.
    call = call.changed({})
    asked = {id(tensor) for tensor in call.tensors().values()}
    with as_it_was(call.module), same_random_numbers(), torch.no_grad():
        output = call.module(*call.args, **call.kwargs)
    rows = call.rows()
    # A model may return its inputs beside its answers; those change with every input, and say nothing.
    given = [answer for answer in _answers(output, rows) if id(answer) not in asked]
    return tuple(answer.detach() for answer in given[:MOST_ANSWERS])


MOST_WEIGHTS = 2**24
"""Entries of all weights up to which they are copied."""


def rewritten(call: Call) -> tuple[str, ...]:
    """The weights with gradients that one more pass, in the present modes, changes; they are put back.

    Those without one may be averages of the data, which each pass updates.
    """
    torch, module = library("torch"), call.module
    weights = {name: each for name, each in module.named_parameters() if each.grad is not None and each.grad.any()}
    if sum(weight.numel() for weight in weights.values()) > MOST_WEIGHTS:
        return ()
    modes, call = [(part, part.training) for part in module.modules()], call.changed({})
    before = {name: (weight.data, weight.detach().clone()) for name, weight in weights.items()}
    with torch.no_grad():
        try:
            with as_it_was(module), same_random_numbers():
                for part, is_training in modes:
                    part.training = is_training
                module(*call.args, **call.kwargs)
            return tuple(name for name, weight in weights.items() if not weight.equal(before[name][1]))
        finally:
            for name, weight in weights.items():
                # The storage first and its values after it: a pass may have put another tensor in its place.
                weight.data = before[name][0]
                weight.data.copy_(before[name][1])


def _answers(output: Any, rows: int) -> Iterator[Any]:
    if library("torch").is_tensor(output):
        if output.is_floating_point() and output.ndim and output.shape[0] == rows and output.numel():
            yield output
        return
    if is_mapping(output):
        logits = output.get("logits")
        output = (logits,) if has(logits, "shape") else tuple(output.values())
    for part in output if is_row(output) else ():
        yield from _answers(part, rows)


@contextmanager
def as_it_was(module: Any) -> Generator[None]:
    """All parts in eval mode, without asking their `eval`; attributes and buffers are given back afterwards."""
    kept = [Kept(part) for part in module.modules()]
    copies = _copies(module)
    for each in kept:
        each.part.training = False
    try:
        yield
    finally:
        for each in kept:
            each.give_back()
        _write_back(copies)


class Kept:
    """The attributes of one part of a model, with the contents of those that are lists."""

    def __init__(self, part: Any) -> None:
        self.part = part
        self._attributes: dict[str, Any] = dict(part.__dict__)
        self._buffers: dict[str, Any] = dict(part._buffers)
        values: Iterable[Any] = self._attributes.values()
        self._lists: list[tuple[Any, list[Any]]] = [(value, value[:]) for value in values if type(value) is list]

    def give_back(self) -> None:
        """As they were."""
        # Emptied first, so that attributes which the pass has added are gone again: a cache would answer the next
        # call.
        self.part.__dict__.clear()
        self.part.__dict__.update(self._attributes)
        self.part._buffers.clear()
        self.part._buffers.update(self._buffers)
        for value, before in self._lists:
            value[:] = before


def _copies(module: Any) -> list[tuple[Any, Any]]:
    copies: list[tuple[Any, Any]] = []
    left = MOST_KEPT
    buffers: Iterable[Any] = module.buffers()
    for buffer in buffers:
        left -= buffer.numel()
        if left < 0:
            break
        copies.append((buffer, buffer.detach().clone()))
    return copies


def _write_back(copies: list[tuple[Any, Any]]) -> None:
    """Only what was changed: writing into a buffer that autograd keeps would spoil a backward pass."""
    with library("torch").no_grad():
        for buffer, before in copies:
            if not buffer.equal(before):
                buffer.copy_(before)


def largest(answers: tuple[Any, ...]) -> float:
    """The largest absolute value of answers."""
    return max((float(answer.float().abs().max()) for answer in answers), default=0.0)


def difference(before: tuple[Any, ...], after: tuple[Any, ...], scale: float) -> float | None:
    """The largest change of an entry as a share of a scale; None if the answers are not of the same form."""
    if len(before) != len(after) or any(one.shape != two.shape for one, two in zip(before, after, strict=True)):
        return None
    pairs = zip(before, after, strict=True)
    most = max((float((one.float() - two.float()).abs().max()) for one, two in pairs if one.numel()), default=0.0)
    return most / scale if scale else most


FARTHEST = 2
CLEAR = 0.9
"""The share of targets that are the tokens some positions on, from which on that is where they come from."""


def alignment(target: Any, ids: Any, mask: Any, ignore_index: int, counted: Any = None) -> TargetAlignment | None:
    """Int64 targets, flat or [rows, at most tokens], against int64 ids [rows, tokens]; None if they do not fit.

    `counted` is bool in the shape of the targets, False for those that the loss does not depend on.
    """
    rows, tokens = ids.shape
    if target.is_floating_point() or not rows or target.numel() % rows:
        return None
    columns = target.numel() // rows
    if not tokens - FARTHEST <= columns <= tokens or (target.ndim > 1 and target.shape != (rows, columns)):
        return None
    beside = target.detach().reshape(rows, columns)
    scored = beside != ignore_index
    if counted is not None:
        scored = scored & counted.reshape(rows, columns)
    matches = tuple(_share(beside, ids, scored, offset) for offset in range(FARTHEST + 1))
    return TargetAlignment(
        scored=int(scored.sum()),
        ignored=int(beside.numel() - scored.sum()),
        equal_at=matches,
        padding=_padding(matches, scored, mask_by_endings(ids) if mask is None else mask),
        equal_before=_share(beside[:, 1:], ids, scored[:, 1:], 0),
    )


LEAST_ENDING = 2


def mask_by_endings(ids: Any) -> Any:
    """A mask for ids that come without one: 0 where rows of different length are filled up with one token.

    None if no token stands only at the ends of rows, more than once there in several, and not equally often in all.
    """
    fill = ids[:, -1].mode().values
    is_fill = ids == fill
    at_end = is_fill.flip(1).int().cumprod(dim=1).flip(1).bool()
    lengths = at_end.sum(dim=1)
    is_whole = bool((lengths == ids.shape[1]).any()) or bool((is_fill & ~at_end).any())
    # One row alone may end with two equal tokens by chance.
    filled = int((lengths >= LEAST_ENDING).sum())
    if is_whole or filled < min(2, len(ids)) or int(lengths.max()) == int(lengths.min()):
        return None
    return (~at_end).long()


def _share(beside: Any, ids: Any, scored: Any, offset: int) -> float | None:
    """The share of scored targets that are the token so many places on; None if none has one."""
    later = ids[:, offset : offset + beside.shape[1]]
    here, counted = beside[:, : later.shape[1]], scored[:, : later.shape[1]]
    total = int(counted.sum())
    return int(((here == later) & counted).sum()) / total if total else None


def _padding(matches: tuple[float | None, ...], scored: Any, mask: Any) -> int | None:
    """Scored targets on padding, once it is clear which tokens they are; None without a mask."""
    best = max(matches, key=lambda match: match or 0.0)
    is_clear = best is not None and best > CLEAR
    # Tags and masked tokens equal the tokens by chance alone: each belongs to its own position.
    if mask is None or not best or (not is_clear and scored.shape != mask.shape):
        return None
    attended = mask[:, matches.index(best) if is_clear else 0 :][:, : scored.shape[1]]
    return int((scored[:, : attended.shape[1]] & (attended == 0)).sum())


def ids_and_mask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """The token ids of [rows, tokens] that a model was called with, and the mask of their shape or None."""
    torch = library("torch")
    given: Any = kwargs.get("input_ids", args[0] if args else None)
    if not torch.is_tensor(given) or given.ndim != 2 or given.dtype not in (torch.int64, torch.int32):
        return None
    mask: Any = kwargs.get("attention_mask")
    return given, mask if torch.is_tensor(mask) and mask.shape == given.shape else None
