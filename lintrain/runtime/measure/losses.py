"""Losses, in every framework: the arguments of a loss function, a plain cross-entropy and what it is at chance, and
where NaN or infinity first appears.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from lintrain.evidence.run import LossEvidence, NonFiniteGradient
from lintrain.evidence.tracebacks import read_frames
from lintrain.model.location import Location
from lintrain.runtime.child.frames import is_users, spot
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.runtime.measure.class_weights import class_weights
from lintrain.runtime.measure.counted_targets import target_alignment
from lintrain.runtime.measure.model import base_model, task_of
from lintrain.runtime.measure.objects.statements import only_call
from lintrain.runtime.measure.responses import Tokens
from lintrain.runtime.measure.seen import Iteration, LossCall, nodes_below
from lintrain.runtime.measure.sequences import ctc_targets
from lintrain.startup.lazy_dataclass import dataclass

OVER_CLASSES = frozenset({"cross_entropy", "nll_loss", "kl_div"})
IGNORED = -100


def loss_evidence(call: LossCall) -> LossEvidence:
    """One call, described."""
    name, given, target, options, result = call.name, call.input, call.target, call.options, call.result
    return LossEvidence(
        function=name,
        input_shape=tuple(given.shape),
        input_dtype=_dtype(given),
        input_minimum=_edge(given, "min"),
        input_maximum=_edge(given, "max"),
        target_shape=tuple(target.shape),
        target_dtype=_dtype(target),
        target_minimum=_edge(target, "min"),
        target_maximum=_edge(target, "max"),
        value=float(result.detach().float().mean()) if has(result, "detach") else None,
        sums_of_inputs=_sums(name, given, exponential=False),
        sums_of_exponentials=_sums(name, given, exponential=True),
        ignored=_ignored(name, target, options),
        is_plain=options.get("weight") is None and not options.get("label_smoothing"),
        alignment=target_alignment(call),
        location=call.location,
        made_by=_made_by(given),
        mixes_rows=_mixes_rows(name, given),
        reduction=str(options.get("reduction", "mean")),
        ignored_index=_ignored_index(name, options),
        log_target=bool(options.get("log_target", False)),
        is_swapped=_is_swapped(call.name, given, target),
        activated_at=_activated_at(given),
        ctc=ctc_targets(call),
        class_weights=class_weights(call),
    )


PLAIN = frozenset({"Abs", "Add", "Div", "Mean", "Mul", "Neg", "Pow", "Sqrt", "Sum", "ToCopy"})
"""Operations between a difference and the loss that is computed from it by hand: no mask, margin or kernel."""
MOST_PLAIN = 16


def rows_in_pairs(loss: Any) -> int:
    """How many predictions of shape `(rows, 1)` a loss compares with every target: a difference of shape
    `(rows, rows)` whose other side has no graph; 0 if it compares none so.
    """
    waiting, seen = [loss.grad_fn], 0
    while waiting and seen < MOST_PLAIN:
        node, seen = waiting.pop(), seen + 1
        name = node.name().partition("Backward")[0] if node is not None else ""
        below = [each for each, _ in node.next_functions if each is not None] if node is not None else []
        # `[8, 1]` predictions minus `[8]` targets give `[8, 8]`. The targets have no graph, so the
        # difference has one node below.
        if name in ("Sub", "Rsub") and len(below) == 1:
            result, given = _result_shape(node), _result_shape(below[0])
            if len(result) == 2 and result[0] == result[1] > 1 and given == (result[0], 1):
                return result[0]
        waiting += below if name in PLAIN else []
    return 0


def _result_shape(node: Any) -> tuple[int, ...]:
    known = attribute(node, "_input_metadata", None)  # not in every version
    return tuple(known[0].shape) if known else ()


VIEWS = ("Squeeze", "Unsqueeze", "View", "UnsafeView", "Reshape", "Slice", "Select", "Transpose", "Permute", "Clone")


def _is_swapped(name: str, given: Any, target: Any) -> bool:
    """Whether a gradient flows to the targets alone, and the inputs are whole numbers, as labels are."""
    if not attribute(target, "requires_grad", False) or given.requires_grad or not given.numel():
        return False
    if name == "binary_cross_entropy":  # a straight line in its targets, so no network can learn from these alone
        return True
    return bool((given == given.round()).all()) if given.is_floating_point() else True


def _made_by(tensor: Any) -> str:
    node = _last_operation(tensor)
    return "" if node is None else name_of(node)


def _last_operation(tensor: Any) -> Any:
    """The node of the operation that a tensor comes from, views of its result left out; None without a graph."""
    return past_views(attribute(tensor, "grad_fn", None))


def past_views(node: Any) -> Any:
    """The first operation from a node of a graph on that is no view; None where the graph ends before."""
    # `softmax(x).view(-1, 10)` is still the result of a softmax.
    while node is not None and name_of(node) in VIEWS and node.next_functions:
        node = node.next_functions[0][0]
    return node


def name_of(node: Any) -> str:
    """The name of a node's operation: `Sigmoid`."""
    return str(node.name()).partition("Backward")[0]


ACTIVATED_AT = "lintrain_activated_at"
"""The key under which autograd keeps where the script called an activation."""
ACTIVATIONS = {"LogSoftmax": "log_softmax", "Sigmoid": "sigmoid", "Softmax": "softmax"}


def mark_activation(result: Any, location: Location | None) -> None:
    """Leave in the graph of a result where the script called the activation that made it."""
    with suppress(AttributeError, TypeError):  # an operation of the script's own may have no such dictionary
        result.grad_fn.metadata.setdefault(ACTIVATED_AT, location)


def _activated_at(given: Any) -> Location | None:
    node = _last_operation(given)
    if node is None or name_of(node) not in ACTIVATIONS:
        return None
    # Functions of `torch` itself leave no mark: TorchScript and subclasses of tensors know them by their identity.
    return attribute(node, "metadata", {}).get(ACTIVATED_AT) or only_call(f"torch.{ACTIVATIONS[name_of(node)]}")


ROUNDING = frozenset({"Ceil", "Floor", "Heaviside", "Round", "Sgn", "Sign", "Trunc"})
"""Operations whose gradient is 0 everywhere."""


def is_rounded(predictions: Any) -> bool:
    """Whether predictions were rounded at last, or cut down to their sign."""
    return _made_by(predictions) in ROUNDING


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _edge(tensor: Any, which: str) -> float | None:
    numbers = tensor.detach().float()
    numbers = numbers[library("torch").isfinite(numbers)]
    return float(getattr(numbers, which)()) if numbers.numel() else None


def _sums(name: str, given: Any, *, exponential: bool) -> tuple[float, float] | None:
    """The least and the greatest sum over the classes, which are the second axis, the only one of a single row."""
    if name not in OVER_CLASSES or not given.ndim or not given.numel():
        return None
    numbers = given.detach().float()
    # Classes are the second axis for torch, also of images: `[2, 5, 8, 8]` has 5.
    axis = 1 if numbers.ndim > 1 else 0
    sums = (numbers.exp() if exponential else numbers).sum(dim=axis)
    return float(sums.min()), float(sums.max())


SUMS_TO_ONE = 1e-3


def _mixes_rows(name: str, given: Any) -> bool:
    """Whether the values of each class, or their exponentials, add up to 1 over the rows, and not those of each row.

    A softmax over an axis of one entry gives 1 for every class.
    """
    if name not in OVER_CLASSES or given.ndim < 2 or min(given.shape[:2]) < 2 or not given.numel():
        return False
    if given.shape[0] == given.shape[1]:  # of pairs, each may be the class of the other
        return False
    numbers = given.detach().float()
    shares = numbers if name == "cross_entropy" else numbers.exp()
    is_within = bool(((shares >= 0) & (shares <= 1 + SUMS_TO_ONE)).all())
    # A softmax over the last axis of `[8, 10, 1]`: every probability is 1, and no gradient flows.
    if name == "cross_entropy" and bool((numbers == 1).all()):
        return True
    over_rows, over_classes = (bool(((shares.sum(dim=axis) - 1).abs() < SUMS_TO_ONE).all()) for axis in (0, 1))
    return is_within and over_rows and not over_classes


def _ignored_index(name: str, options: dict[str, Any]) -> int | None:
    index = options.get("ignore_index", IGNORED)
    return index if name in ("cross_entropy", "nll_loss") and isinstance(index, int) else None


def _ignored(name: str, target: Any, options: dict[str, Any]) -> float | None:
    if name not in ("cross_entropy", "nll_loss") or target.is_floating_point() or not target.numel():
        return None
    return float((target == options.get("ignore_index", IGNORED)).float().mean())


def standard_loss(iteration: Iteration, loss: Any) -> LossCall | None:
    """The plain cross-entropy that goes backward, alone or divided; None if the loss is made of more."""
    for call in iteration.losses:
        if call.name != "cross_entropy" or call.options.get("weight") is not None:
            continue
        # Smoothing adds a term, so the loss at chance is no longer ln(classes).
        if call.options.get("label_smoothing"):
            continue
        if call.result is loss or _divides(loss, call.result):
            return call
    return None


def _divides(loss: Any, result: Any) -> bool:
    node = loss.grad_fn
    # Only a division directly at the loss, as accumulation makes it. A scaler multiplies, and its factor is
    # divided out elsewhere.
    return node is not None and node.name() == "DivBackward0" and node.next_functions[0][0] is result.grad_fn


def chance_of(call: LossCall | None) -> float | None:
    """ln(classes); None for other losses, for pairs of rows, and for a sum, of which the script may divide anything."""
    if call is None or call.options.get("reduction", "mean") != "mean":
        return None
    if call.input.ndim < 2 or call.input.shape[1] < 2 or _are_pairs(call):
        return None
    return math.log(call.input.shape[1])


def _are_pairs(call: LossCall) -> bool:
    """Whether each row is to be found among all rows, as two views of it are: they are alike from the beginning."""
    rows, classes = call.input.shape[:2]
    if call.input.ndim != 2 or rows != classes or call.target.ndim != 1 or call.target.is_floating_point():
        return False
    # Targets 0, 1, 2, ... in any order: contrastive losses find each row's partner among all rows, and
    # start far below ln(rows).
    return bool(call.target.sort().values.equal(library("torch").arange(rows, device=call.target.device)))


def tokens_of(calls: Sequence[LossCall], loss: Any, model: Any) -> Tokens | None:
    """The call whose targets are whole numbers, with the doubt that other terms of the loss leave."""
    found = [call for call in calls if call.name != "ctc_loss" and not call.target.is_floating_point()]
    found = [call for call in found if call.target.numel() > 1]
    if not found:
        return None
    if task_of(base_model(model)) == "CausalLM":
        return Tokens(found[-1], "")
    alone = standard_loss(Iteration(losses=list(calls)), loss) if has(loss, "grad_fn") else None
    return Tokens(alone or found[-1], "" if alone is not None else "the loss has other terms besides the next tokens")


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
        # A graph would keep the activations of this pass next to those of the script.
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
    if has(value, "is_floating_point") and value.is_floating_point():
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
            self.found = NonFiniteGradient(name, self._nearest(node), range_of(_saved(node)), _forward_line(node))

    def _nearest(self, start: Any) -> str | None:
        """The name of the parameter that the fewest operations lie before."""
        waiting, seen = deque([start]), set[Any]()
        while waiting and len(seen) < NEAR:
            node = waiting.popleft()
            if node is None or node in seen:
                continue
            seen.add(node)
            if (name := self._names.get(id(attribute(node, "variable", None)))) is not None:
                return name
            waiting += [below for below, _ in node.next_functions]
        return None


def _forward_line(node: Any) -> str:
    """The script's line that called an operation; "" unless torch's anomaly detection keeps its traceback."""
    trace: Any = attribute(node, "metadata", {}).get("traceback_", ())
    own = [frame for frame in read_frames("".join(trace)) if is_users(frame.path)]
    return f"{spot(own[-1].path, own[-1].line)}: {own[-1].code}" if own else ""


def _operations_below(start: Any) -> list[Any]:
    """The operations that a backward pass goes through, without the places where gradients are added up."""
    return [node for node in nodes_below(start, MOST_NODES) or () if not has(node, "variable")]


def _saved(node: Any) -> list[Any]:
    """What autograd kept of the input of an operation, or of its result."""
    # A tensor that was freed after the backward pass raises when it is read.
    kept: list[Any] = []
    for name in SAVED:
        try:
            value = attribute(node, name, None)
        except RuntimeError:  # it was let go
            continue
        if has(value, "is_floating_point"):
            kept.append(value)
    return kept[:1]
