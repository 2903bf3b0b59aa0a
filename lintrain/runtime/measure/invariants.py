"""What outputs of a module of the script's own must not depend on, and what they should: padding, order, a cache.

One row is repeated, with one token changed in each copy, so that a single forward pass shows which tokens are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from lintrain.evidence.run import CacheEvidence, TokenEvidence
from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library, loaded
from lintrain.runtime.measure.calls import Call, parameters_of
from lintrain.runtime.measure.replay import ask, largest, mask_by_endings
from lintrain.startup.lazy_dataclass import dataclass

LEAST_TOKENS = 4
MOST_CHANGED = 12
"""Tokens of a row that are changed, one in each copy, spread over the row."""
SET_NAME = re.compile(r"set(?:[A-Z_]|$)|^(?:deep_?)?sets?$|bag|perm|graph", re.IGNORECASE)
"""Classes that leave the order of their input out on purpose."""


def is_own(module: Any) -> bool:
    """Whether the class of a module is the script's own code."""
    made = loaded(module.__class__.__module__)
    path = attribute(made, "__file__", None) or attribute(module.__class__.forward, "__code__", None)
    return isinstance(path, str) and is_users(path) if path is not None else False


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a call: `ids` int64 [tokens], `real` bool [tokens], False at padding; `known` are ids of the batch."""

    call: Call
    number: int
    ids: Any
    real: Any
    known: Any

    @property
    def positions(self) -> list[int]:
        """The positions of its tokens that are not padding."""
        return [int(position) for position in self.real.nonzero().flatten()]

    def copies(self, changed: Sequence[Any]) -> Call | None:
        """The call with this row and then a copy for each of the changed ids."""
        path = self.call.ids
        repeated = self.call.of_rows([self.number] * (1 + len(changed)))
        if repeated is None or path is None:
            return None
        return repeated.changed({path: library("torch").stack([self.ids, *changed])})

    def with_other(self, positions: Sequence[int]) -> Any:
        """Its ids with other known tokens at some positions."""
        ids = self.ids.clone()
        for turn, position in enumerate(positions):
            others = self.known[self.known != ids[position]]
            ids[position] = others[(position + turn) % len(others)]
        return ids


def row_of(call: Call, beside: Any = None) -> Row | None:
    """The row with the most padding and enough tokens; None for rows that are no texts."""
    path = call.ids
    if path is None:
        return None
    ids = call.tensors()[path]
    padded = _padding(call, ids, beside)
    real = ~padded
    counts = real.sum(dim=1)
    enough = counts >= LEAST_TOKENS
    if not bool(enough.any()) or _is_table(ids, real):
        return None
    number = int(counts.masked_fill(~enough, ids.shape[1] + 1).argmin())
    known = ids[real].unique()
    return Row(call, number, ids[number], real[number], known) if len(known) > 2 else None


def _padding(call: Call, ids: Any, beside: Any) -> Any:
    """Bool [rows, tokens]: by the batch's mask, else by a token that fills rows up on either side."""
    torch = library("torch")
    mask = call.tensors()[call.mask] if call.mask is not None else beside
    if mask is None:
        mask = mask_by_endings(ids)
    if mask is None and (flipped := mask_by_endings(ids.flip(1))) is not None:
        mask = flipped.flip(1)
    return torch.zeros_like(ids, dtype=torch.bool) if mask is None else mask == 0


def _is_table(ids: Any, real: Any) -> bool:
    """Whether every column has ids of its own, as categories of a table have: no order is meant then."""
    columns = [set(ids[:, position][real[:, position]].tolist()) for position in range(ids.shape[1])]
    is_sorted = bool((ids[:, 1:] >= ids[:, :-1]).logical_or(~real[:, 1:]).all())
    return is_sorted or sum(map(len, columns)) == len(set[int]().union(*columns))


class _Attention:
    """A mode of torch that sees calls of attention: whether there are any, and a mask that is added by mistake."""

    def __init__(self, tokens: int) -> None:
        self.tokens, self.calls = tokens, 0
        self.added: str = ""

    def sees(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Look at one call."""
        name = attribute(function, "__name__", "")
        if name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
            self.calls += 1
            masks: list[Any] = [kwargs.get("attn_mask"), kwargs.get("key_padding_mask"), *args[3:4]]
            self.added = self.added or next((form for form in map(_added, masks) if form), "")
        elif name == "softmax" and has(result, "shape") and result.ndim > 2 and result.shape[-1] == self.tokens:
            self.calls += 1


def _added(mask: Any) -> str:
    """The form of a float mask of 0 and 1, which is added to the scores; "" for other masks."""
    if not library("torch").is_tensor(mask) or not mask.is_floating_point() or mask.ndim < 2:
        return ""
    is_plain = bool(((mask == 0) | (mask == 1)).all()) and bool((mask == 1).any())
    return f"{str(mask.dtype).removeprefix('torch.')} {list(mask.shape)}" if is_plain else ""


def _asked_with(seen: _Attention, call: Call) -> tuple[Any, ...]:
    overrides = library("torch.overrides")
    if not has(overrides, "TorchFunctionMode"):  # before torch 1.13
        return ask(call)

    class Mode(overrides.TorchFunctionMode):  # type: ignore[misc, name-defined] # a class of the script's torch
        def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            seen.sees(function, args, kwargs or {}, result)
            return result

    with Mode():
        return ask(call)


def token_evidence(call: Call, beside: Any = None) -> TokenEvidence | None:
    """Which tokens of one row are read; None for a library's model, and for inputs that are no texts."""
    row = row_of(call, beside) if is_own(call.module) else None
    if row is None:
        return None
    found = _measured(row)
    if found is None or not _is_suspicious(found):
        return found
    # A gate, a scale or positions that start at or near 0 keep tokens out until some steps were taken, and a steep
    # softmax leaves an effect that float32 rounds away.
    stirred = _measured_exactly(row)
    return None if stirred is None else _agreed(found, stirred)


def _measured_exactly(row: Row) -> TokenEvidence | None:
    weights = sum(weight.numel() for weight in row.call.module.parameters())
    if weights > MOST_WEIGHTS:
        return None
    torch = library("torch")
    try:
        return _measured(row, dtype=torch.float64)
    except Exception:  # noqa: BLE001 - a model may create tensors of float32 itself
        return _measured(row, dtype=torch.float32)


EQUAL, NEARLY = 1e-6, 1e-5
MOST_WEIGHTS = 50_000_000
"""Of a model with more, no copy in float64 is made."""
EXACT = 4
"""Bytes of a number from which on small effects are seen."""


def _is_suspicious(found: TokenEvidence) -> bool:
    order = found.by_order is not None and found.by_order <= NEARLY
    return order or found.by_others <= EQUAL or (found.by_padding or 0.0) > EQUAL


def _agreed(one: TokenEvidence, two: TokenEvidence) -> TokenEvidence:
    """The first measurement, with small effects as the second one has them, with other weights in float64."""
    return TokenEvidence(
        tokens=one.tokens,
        padding=one.padding,
        pads_left=one.pads_left,
        attends=one.attends,
        is_set=one.is_set,
        added_mask=one.added_mask,
        by_first=max(one.by_first, two.by_first),
        by_others=one.by_others if one.by_others > EQUAL else two.by_others,
        by_order=one.by_order if (one.by_order or 0.0) > NEARLY else two.by_order,
        by_padding=one.by_padding,
        by_cut=one.by_cut,
    )


def _measured(row: Row, *, dtype: Any = None) -> TokenEvidence | None:
    positions = row.positions
    picked = (
        positions
        if len(positions) <= MOST_CHANGED
        else [positions[each * len(positions) // MOST_CHANGED] for each in range(MOST_CHANGED)]
    )
    padding = [int(position) for position in (~row.real).nonzero().flatten()]
    order = _reordered(row, positions)
    changed = [row.with_other([position]) for position in picked]
    more = [ids for ids in (row.with_other(padding) if padding else None, order) if ids is not None]
    call = row.copies([*changed, *more])
    if call is None:
        return None
    call = call if dtype is None else Call(_Stirred.of(call.module, dtype), call.args, call.kwargs)
    seen = _Attention(len(row.ids))
    answers = _asked_with(seen, call)
    scale = largest(tuple(answer[:1] for answer in answers))
    # Half precision rounds a small effect to none.
    if not answers or answers[0].element_size() < EXACT or not math.isfinite(scale) or not scale:
        return None
    compared = _Compared(answers, positions, scale)
    each = [compared.change(copy, but=position) for copy, position in enumerate(picked, start=1)]
    at_padding = len(picked) + 1 if padding else None
    at_order = len(picked) + 1 + bool(padding) if order is not None else None
    return TokenEvidence(
        tokens=len(positions),
        padding=len(padding),
        pads_left=bool(padding) and padding[0] == 0,
        attends=seen.calls > 0,
        is_set=SET_NAME.search(type(row.call.module).__name__) is not None,
        added_mask=seen.added,
        by_first=each[0],
        by_others=max(each[1:]),
        by_order=None if at_order is None else compared.change_by_order(at_order, _order(positions)),
        by_padding=None if at_padding is None else compared.change(at_padding),
        by_cut=_by_cut(row, padding, compared) if padding and dtype is None else None,
    )


def _order(positions: list[int]) -> list[int]:
    """Positions in another order: the first and the last stay, for an output may be read there."""
    inner = positions[1:-1]
    return [positions[0], *inner[1:], inner[0], positions[-1]]


def _reordered(row: Row, positions: list[int]) -> Any:
    """The ids of a row in this order; None if that gives the same ids."""
    ids = row.ids.clone()
    ids[positions] = row.ids[_order(positions)]
    return None if ids.equal(row.ids) else ids


@dataclass(frozen=True, eq=False)
class _Compared:
    """Outputs of copies of a row, the first of them as it is; changes are shares of its largest output."""

    answers: tuple[Any, ...]
    positions: list[int]
    scale: float

    def change(self, copy: int, *, but: int | None = None) -> float:
        """The largest change of one copy; of outputs for each token those at its tokens, but one."""
        kept = [position for position in self.positions if position != but]
        return max(self._apart(answer[0], answer[copy], kept, kept) for answer in self.answers)

    def change_by_order(self, copy: int, order: list[int]) -> float:
        """The largest change of a copy in another order; outputs for each token move with their tokens."""
        return max(self._apart(answer[0], answer[copy], order, self.positions) for answer in self.answers)

    def _apart(self, before: Any, after: Any, old: list[int], new: list[int]) -> float:
        if before.ndim > 1 and len(before) > max(self.positions):
            before, after = before[old], after[new]
        return _change(before, after, self.scale)


def _by_cut(row: Row, padding: list[int], compared: _Compared) -> float | None:
    """The change of a row whose padding is cut off; None if it cannot be called so."""
    width, positions = len(row.ids), row.positions
    alone = row.call.of_rows([row.number])
    if alone is None or positions != list(range(positions[0], positions[-1] + 1)):
        return None
    shorter = {
        path: tensor[:, positions[0] : positions[-1] + 1]
        for path, tensor in alone.tensors().items()
        if tensor.ndim > 1 and tensor.shape[1] == width
    }
    try:
        answers = ask(alone.changed(shorter))
    except Exception:  # noqa: BLE001 - a model that takes one length only cannot be called so
        return None
    if len(answers) != len(compared.answers):
        return None
    whole = [each[0][positions] if each.ndim > 2 and each.shape[1] == width else each[0] for each in compared.answers]
    if any(before.shape != after[0].shape for before, after in zip(whole, answers, strict=True)):
        return None
    return max(_change(before, after[0], compared.scale) for before, after in zip(whole, answers, strict=True))


NEAR_ZERO = 1e-3
STIRRED = 0.05


class _Stirred:
    """A module called with other weights, which it does not keep: those that are all near 0 are random numbers."""

    def __init__(self, module: Any, weights: dict[str, Any]) -> None:
        self._module, self._weights = module, weights

    @classmethod
    def of(cls, module: Any, dtype: Any) -> _Stirred:
        """With weights and buffers in a format."""
        torch = library("torch")
        made = torch.Generator().manual_seed(0)
        weights = {
            name: (STIRRED * torch.randn(weight.shape, generator=made)).to(weight) if _is_near_zero(weight) else weight
            for name, weight in module.named_parameters()
        }
        both = {**dict(module.named_buffers()), **weights}
        return cls(module, {name: each.to(dtype) if each.is_floating_point() else each for name, each in both.items()})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return library("torch.func").functional_call(self._module, self._weights, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _is_near_zero(weight: Any) -> bool:
    is_float = weight.is_floating_point() and weight.numel()
    return bool(is_float) and float(weight.detach().abs().max()) < NEAR_ZERO


CACHE = re.compile(r"past|cache|kv", re.IGNORECASE)
POSITION = re.compile(r"pos|offset|start|index|step", re.IGNORECASE)
KEPT_BACK = 3
"""Tokens that are given one by one, with the cache of those before."""


def cache_evidence(call: Call) -> CacheEvidence | None:
    """The outputs of tokens given one by one with a cache, against those of the whole row; None without a cache."""
    names = [name for name in parameters_of(call.module) if CACHE.search(name)]
    path, holds = call.ids, [name for name in names if not name.startswith("use")]
    # Positions that the caller gives are its own matter.
    if path is None or not holds or not is_own(call.module) or any(map(POSITION.search, parameters_of(call.module))):
        return None
    row = row_of(call)
    if row is None or row.positions != list(range(len(row.positions))):
        return None
    given = {name: True for name in names if name.startswith("use")}
    return _step_by_step(call.module, row.ids[row.real][None], holds[0], given)


def _step_by_step(module: Any, ids: Any, holds: str, given: dict[str, Any]) -> CacheEvidence | None:
    count = ids.shape[1] - KEPT_BACK
    if count < 1:
        return None
    whole, _ = _called(Call(module, (ids,), given))
    first, cache = _called(Call(module, (ids[:, :count],), given))
    scale = largest((whole,)) if whole is not None else 0.0
    if whole is None or first is None or cache is None or not scale:
        return None
    if whole.shape[:2] != ids.shape or _change(whole[:, :count], first, scale) > NEARLY * 10:
        return None  # not causal: later tokens change the outputs of earlier ones
    changes: list[float] = []
    for position in range(count, ids.shape[1]):
        one, cache = _called(Call(module, (ids[:, position : position + 1],), {**given, holds: cache}))
        if one is None or cache is None:
            return None
        changes.append(_change(whole[:, position : position + 1], one, scale))
    return CacheEvidence(argument=holds, tokens=len(changes), change=max(changes))


def _change(before: Any, after: Any, scale: float) -> float:
    """The largest change of an entry as a share of a scale; infinity for another form, and for NaN."""
    if before.shape != after.shape:
        return math.inf
    change = float((before - after).abs().max()) / scale
    return change if math.isfinite(change) else math.inf


def _called(call: Call) -> tuple[Any, Any]:
    """The outputs of [rows, tokens, any] of a call, and the cache that it gives."""
    kept: list[Any] = []

    class Keeping:
        """The module, whose output is kept as it is."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            kept.append(call.module(*args, **kwargs))
            return kept[-1]

        def __getattr__(self, name: str) -> Any:
            return getattr(call.module, name)

    ask(Call(Keeping(), call.args, call.kwargs))
    output = kept[-1]
    if is_mapping(output):
        logits = output.get("logits")
        cache = next((value for name, value in output.items() if CACHE.search(name)), None)
        return logits, cache
    if is_row(output) and len(output) > 1 and has(output[0], "ndim") and output[0].ndim == 3:
        return output[0], output[1]
    return None, None
