"""The model called again on a few rows of its first batch: do rows, mask and later tokens matter?

Whether the attention mask matters: padding attended, and padding cut off.

Whether a language model reads the tokens that it is to predict: one of them is changed, and the output must not
change.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import FutureEvidence, MaskEvidence, ResponseEvidence, SpreadEvidence, TargetAlignment
from lintrain.runtime.child.library import has, is_mapping, library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.calls import Call, Path, is_whole, parameters_of, without_shells
from lintrain.runtime.measure.invariants import cache_evidence, token_evidence
from lintrain.runtime.measure.mixed_rows import mixed_rows
from lintrain.runtime.measure.objects.statements import assignment_to, mentions
from lintrain.runtime.measure.replay import alignment, ask, difference, largest, rewritten
from lintrain.runtime.measure.seen import LossCall
from lintrain.startup.lazy_dataclass import dataclass

MOST_ROWS = 8
MOST_ENTRIES = 2**24
"""Answers of more entries are not kept: fewer rows are asked then (64 MiB in float32)."""
LEAST_TOKENS = 3
SECONDS = 3.0
"""A model whose answer takes longer is not called again."""
WRITES = r"\.data\s*(\[.*\]\s*)?=[^=]|\.data\.\w+_\(|\.(copy|set)_\("
"""Text that may write to a weight."""
QUICK = 0.3
"""A module of the script's own whose answer takes longer is not called with single tokens changed."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """What a loss compares the answers with: its call, and why a look at later tokens would prove nothing."""

    loss: LossCall
    doubt: str


class Responses:
    """The calls before the steps, one of which is repeated after them."""

    def __init__(self, run: MeasuredRun, call: Call, tokens: Tokens | None, losses: Sequence[LossCall] = ()) -> None:
        self._run = run
        self._losses = losses
        # DDP would start a collective operation that no other process answers.
        self._whole = Call(without_shells(call.module), call.args, call.kwargs)
        self._tokens = tokens
        self._rows = _rows_to_ask(self._whole, run.logits_shape)
        self._call = self._whole.of_rows(self._rows) or self._whole
        if self._call is self._whole:
            self._rows = list(range(self._whole.rows()))
        self.evidence = ResponseEvidence()

    def measure(self) -> None:
        """All calls, before any step."""
        try:
            self._measure()
        except Exception as error:  # noqa: BLE001 - a model may answer in its own loop only
            self._gives_up(f"the model cannot be called again: {type(error).__name__}: {error}")
        self._run.measured(responses=self.evidence)

    def after_steps(self) -> None:
        """Are the outputs of different rows still equal, if they were?"""
        spread = self.evidence.spread
        if spread is None or spread.before is None or spread.before > EQUAL:
            return
        try:
            after = spread_of(ask(self._call))
        except Exception as error:  # noqa: BLE001 - as above
            self._gives_up(f"the model cannot be called after its steps: {type(error).__name__}: {error}")
        else:
            self.evidence = replace(self.evidence, spread=replace(spread, after=after))
        self._run.measured(responses=self.evidence)

    def _measure(self) -> None:
        if not self._rows:
            self._gives_up("the model receives no tensor with rows")
            return
        started = time.perf_counter()
        answers = ask(self._call)
        each = time.perf_counter() - started
        if not answers or not math.isfinite(scale := largest(answers)):
            self._gives_up("the model returns no finite output for each row")
            return
        if each > SECONDS:
            self._run.session.shorten(f"the model was not called again: one call takes {each:.1f} s")
            self._gives_up(f"one call takes {each:.1f} s")
            return
        self.evidence = ResponseEvidence(spread=spread_evidence(self._call, answers))
        self._ask_about_tokens(answers, scale)
        if each < QUICK:
            self._ask_about_invariants()
            self._ask_about_weights()

    def _ask_about_tokens(self, answers: tuple[Any, ...], scale: float) -> None:
        if self._call.ids is None:
            return
        mask = mask_evidence(self._call, answers, self._mask_beside())
        future = self._future(answers)
        noise = 0.0
        # Nondeterministic kernels change answers as well: the same question twice shows by how much.
        if future is not None and future.change > EQUAL:  # only then it matters whether the same question would do it
            noise = difference(answers, ask(self._call), scale) or 0.0
        self.evidence = replace(self.evidence, noise=noise, mask=mask, future=future, ahead=self._ahead(answers))

    def _ask_about_invariants(self) -> None:
        """What modules of the script's own must not read; one that cannot be called so is left alone."""
        whole = self._whole
        with suppress(Exception):
            self.evidence = replace(self.evidence, tokens=token_evidence(whole, self._mask_of_batch()))
        with suppress(Exception):
            self.evidence = replace(self.evidence, cache=cache_evidence(whole))
        with suppress(Exception):
            self.evidence = replace(self.evidence, mixed=mixed_rows(self._call, self._losses))

    def _ask_about_weights(self) -> None:
        """Does a pass change weights? Asked only of a script that may write to them."""
        if not mentions(WRITES):
            return
        with suppress(Exception):
            names = rewritten(self._call)
            location = assignment_to(names[0].rpartition(".")[2], "data") if names else None
            self.evidence = replace(self.evidence, rewritten=names, rewritten_at=location)

    def _mask_of_batch(self) -> Any:
        batch: object = self._run.batches[0] if self._run.batches else None
        mask: Any = batch.get("attention_mask") if is_mapping(batch) else None
        fits = has(mask, "shape") and mask.ndim == 2 and mask.shape[0] == self._whole.rows()
        return mask if fits else None

    def _mask_beside(self) -> Any:
        mask = self._mask_of_batch()
        return mask[self._rows] if mask is not None else None

    def _ahead(self, answers: tuple[Any, ...]) -> float | None:
        """The change of earlier answers by the last token, for a loss that compares each with its own token."""
        path = self._call.ids
        if self._tokens is None or path is None or answers[0].ndim != 3:
            return None
        loss, whole = self._tokens.loss, self._whole.tensors()[path]
        aligned = (
            alignment(loss.target, whole, None, loss.options.get("ignore_index", -100)) if is_whole(whole) else None
        )
        ids = self._call.tensors()[path]
        if (
            aligned is None
            or aligned.offset not in (0, -1)
            or answers[0].shape[:2] != ids.shape
            or ids.shape[1] < LEAST_TOKENS
        ):
            return None
        changed = ids.clone()
        changed[:, -1] = ids[:, 0]
        given = ask(self._call.changed({path: changed}))
        if not given or given[0].shape != answers[0].shape or bool((changed == ids).all()):
            return None
        return difference((answers[0][:, :-1],), (given[0][:, :-1],), largest((answers[0],)))

    def _future(self, answers: tuple[Any, ...]) -> FutureEvidence | None:
        if self._tokens is None:
            return None
        loss, ids = self._tokens.loss, self._whole.tensors()[self._whole.ids or ()]
        ignored = loss.options.get("ignore_index", -100)
        aligned: TargetAlignment | None = next_token_targets(ids, loss.target, ignored) if is_whole(ids) else None
        if aligned is None:
            return None
        scored = loss.target.reshape(ids.shape[0], -1) != ignored
        return future_evidence(self._call, answers, self._rows, aligned, scored, self._tokens.doubt)

    def _gives_up(self, reason: str) -> None:
        self.evidence = replace(self.evidence, reason=reason)


EQUAL = 1e-6
"""Answers that are this near to each other, as a share of the largest, are the same but for rounding."""


def _rows_to_ask(call: Call, shape: tuple[int, ...]) -> list[int]:
    """The first rows and, where a mask is there, the one with the most padding."""
    each = math.prod(shape[1:]) or 1
    most = max(1, min(MOST_ROWS, MOST_ENTRIES // each))
    first = list(range(min(call.rows(), most)))
    if call.mask is None:
        return first
    padded = int((call.tensors()[call.mask] != 0).sum(dim=1).argmin())
    return sorted({padded, *first[: max(1, most - 1)]})


NOT_READ = ("label", "target")


def spread_of(answers: tuple[Any, ...]) -> float:
    """The largest distance of an entry from that of another row, as a share of the largest entry."""
    scale = largest(answers)
    apart = max(float((each.float().amax(dim=0) - each.float().amin(dim=0)).max()) for each in answers)
    return apart / scale if scale else apart


def spread_evidence(call: Call, answers: tuple[Any, ...]) -> SpreadEvidence | None:
    """The spread over the rows of a call; None if no two rows are different."""
    different = _different_rows(call)
    if different < 2 or not answers:
        return None
    dtype = str(answers[0].dtype).removeprefix("torch.")
    return SpreadEvidence(rows=different, dtype=dtype, before=spread_of(answers))


def _different_rows(call: Call) -> int:
    """So many rows differ in something that the model reads; labels are none of that."""
    rows, counts = call.rows(), [0]
    for path, tensor in call.tensors().items():
        is_label = any(word in call.name_of(path).lower() for word in NOT_READ)
        if tensor.ndim and tensor.shape[0] == rows and not is_label:
            counts.append(int(tensor.reshape(rows, -1).unique(dim=0).shape[0]))
    return max(counts)


def mask_evidence(call: Call, answers: tuple[Any, ...], beside: Any) -> MaskEvidence | None:
    """Measured where rows have padding; `beside` is the batch's mask where the model did not get it."""
    mask, path = _mask_of(call, beside), call.mask
    # Not measured if a row has no attended token: its softmax is over nothing, and NaN with some kernels.
    if mask is None or bool((mask != 0).all()) or not bool((mask != 0).any(dim=1).all()):
        return None
    ones: Mapping[Any, Any] = {path: mask.new_ones(mask.shape)} if path is not None else {}
    other = ask(call.changed(ones) if path is not None else call.given("attention_mask", mask))
    has_padding = (mask == 0).any(dim=1)
    scale = largest(answers)
    change = difference(_attended(answers, mask, has_padding), _attended(other, mask, has_padding), scale)
    if change is None:
        return None
    # The row with the most padding shows the largest change.
    row = int((mask != 0).sum(dim=1).argmin())
    cut = _cut(call, answers, mask, row, scale)
    return MaskEvidence(
        given=path is not None,
        rows=int(has_padding.sum()),
        padding=int((mask == 0).sum()),
        change=change,
        cut=cut,
        cut_tokens=int((mask[row] == 0).sum()) if cut is not None else 0,
    )


def _mask_of(call: Call, beside: Any) -> Any:
    tensors, ids, path = call.tensors(), call.ids, call.mask
    if ids is None:
        return None
    if path is not None:
        return tensors[path]
    fits = has(beside, "shape") and beside.shape == tensors[ids].shape
    return beside if fits and "attention_mask" in parameters_of(call.module) else None


def _attended(answers: tuple[Any, ...], mask: Any, rows: Any) -> tuple[Any, ...]:
    """The answers of some rows; of those that are given for each token, the ones that are attended."""
    chosen = rows[:, None] & (mask != 0)
    return tuple(answer[chosen] if answer.shape[:2] == mask.shape else answer[rows] for answer in answers)


def _cut(call: Call, answers: tuple[Any, ...], mask: Any, row: int, scale: float) -> float | None:
    """The change of one row that is asked without the padding on its right."""
    kept = int((mask[row] != 0).sum())
    alone = call.of_rows([row])
    if alone is None or not bool((mask[row, :kept] != 0).all()):
        return None
    width = int(mask.shape[1])
    shorter = {
        path: tensor[:, :kept]
        for path, tensor in alone.tensors().items()
        if tensor.ndim > 1 and tensor.shape[1] == width
    }
    try:
        given = ask(alone.changed(shorter))
    except Exception:  # noqa: BLE001 - a model that takes one length only cannot be asked so
        return None
    of_row = tuple(answer[row : row + 1] for answer in answers)
    expected = tuple(answer[:, :kept] if answer.shape[1:2] == (width,) else answer for answer in of_row)
    return difference(expected, given, scale)


KNOWN = frozenset({"attention_mask", "token_type_ids", "position_ids", "labels", "cache_position"})


def next_token_targets(ids: Any, target: Any, ignore_index: int) -> TargetAlignment | None:
    """How targets are aligned with ids, if they are certainly the next tokens."""
    found = alignment(target, ids, None, ignore_index)
    return found if found is not None and found.offset == 1 and found.scored else None


def future_evidence(
    call: Call, answers: tuple[Any, ...], rows: list[int], aligned: TargetAlignment, scored: Any, doubt: str
) -> FutureEvidence | None:
    """Rows of a call with the target of one scored position each changed in what the model reads.

    `scored` is bool [rows, positions] of the whole batch; `rows` are those of it that the call has.
    """
    path = call.ids
    ids = call.tensors()[path] if path is not None else None
    if path is None or ids is None or not answers or answers[0].shape[:2] != ids.shape or answers[0].ndim != 3:
        return None
    # Replaced by another target of the same batch: a token that the model knows, and never a special one.
    changed, locations = _with_other_targets(ids, scored[rows])
    if not locations:
        return None
    given = ask(call.changed({path: changed}))
    if not given or given[0].shape != answers[0].shape:
        return None
    at, of = [row for row, _ in locations], [location for _, location in locations]
    change = difference((answers[0][at, of],), (given[0][at, of],), largest((answers[0],)))
    share = aligned.equal_at[1] or 0.0
    return None if change is None else FutureEvidence(len(locations), share, change, doubt or _doubt(call, path))


def _with_other_targets(ids: Any, scored: Any) -> tuple[Any, list[tuple[int, int]]]:
    """Ids with one target in each row changed to another target of the batch, and the positions that predict them."""
    changed, locations = ids.clone(), list[tuple[int, int]]()
    can = scored[:, : ids.shape[1] - 1]
    targets = ids[:, 1:][:, : can.shape[1]][can]
    for row in range(ids.shape[0]):
        positions = can[row].nonzero().flatten().tolist()
        if not positions:
            continue
        # In the middle: the first positions may be a prompt, the last ones padding.
        location = positions[len(positions) // 2]
        others = targets[targets != ids[row, location + 1]]
        if others.numel():
            changed[row, location + 1] = others[0]
            locations.append((row, location))
    return changed, locations


def _doubt(call: Call, path: Path) -> str:
    """Why the model may read all of a text although it is to predict its tokens: an autoencoder does."""
    others = [name for other, tensor in call.tensors().items() if (name := _other_tokens(call, path, other, tensor))]
    if others:
        return f"the model reads `{others[0]}` as well"
    children = {name.lower(): child for name, child in call.module.named_modules() if name}
    if _has(children, "encoder", "Embedding") and _has(children, "decoder", "Linear"):
        return "the model also has an encoder"
    return ""


def _other_tokens(call: Call, path: Path, other: Path, tensor: Any) -> str:
    """The name of a tensor that may hold a second text, which labels of the ids are not."""
    name = call.name_of(other)
    is_text = other != path and tensor.ndim == 2 and is_whole(tensor) and tensor.shape[1] > 1 and name not in KNOWN
    if not is_text or bool(((tensor == 0) | (tensor == 1)).all()):
        return ""
    ids = call.tensors()[path]
    is_of_ids = next_token_targets(ids, tensor, -100) is not None or tensor.equal(ids)
    is_target = name.lower().startswith(("target", "label", "y")) and is_of_ids
    return "" if is_target else name or "a second tensor of tokens"


def _has(children: dict[str, Any], word: str, but: str) -> bool:
    """Whether a part of that name does more than one of its kind does in a plain language model."""
    kind = getattr(library("torch.nn"), but)
    return any(name.rpartition(".")[2] == word and not isinstance(child, kind) for name, child in children.items())
