"""Whether a language model reads the tokens that it is to predict: one of them is changed, and the output must not
change.
"""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import FutureEvidence, TargetAlignment
from lintrain.runtime.child.library import library
from lintrain.runtime.measure.alignment import alignment
from lintrain.runtime.measure.calls import Call, Path, is_whole
from lintrain.runtime.measure.replay import ask, difference, largest

KNOWN = frozenset({"attention_mask", "token_type_ids", "position_ids", "labels", "cache_position"})


def next_token_targets(ids: Any, target: Any, ignore_index: int) -> TargetAlignment | None:
    """How targets lie beside ids, where they are certainly the next tokens."""
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
    """The name of a tensor that may hold a second text; labels that stand beside the ids are none."""
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
