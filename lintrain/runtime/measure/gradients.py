"""Gradients by layer group, over several batches.

The graph that a backward pass goes through.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lintrain.evidence.run import BackwardEvidence, LayerGradient, LossTerm, NonFiniteGradient, ReachedWeights
from lintrain.model.location import Location
from lintrain.runtime.child.library import attribute, has
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.held_values import kept_in, made_by_statement
from lintrain.runtime.measure.invariants import is_own
from lintrain.runtime.measure.seen import Forward, LossCall, nodes_below, tensors_in


class Gradients:
    """Norms by parameter and batch; None if the parameter had no gradient. `non_finite` is where they stopped being
    finite."""

    def __init__(self, run: MeasuredRun) -> None:
        self.parameters: dict[str, Any] = {
            name: parameter for name, parameter in run.model.named_parameters() if parameter.requires_grad
        }
        self.norms: dict[str, list[float | None]] = {name: [] for name in self.parameters}
        self.non_finite: NonFiniteGradient | None = None
        self.alike: tuple[tuple[str, int], ...] | None = None
        self.model = run.model
        self._run = run

    def read(self, scale: float, *, keep: bool = False) -> None:
        """Add the gradients of one batch, divided by the scale of mixed precision, and clear them or keep them."""
        if self.alike is None:
            # Only in the first batch: after a step, units that began alike may differ by dropout alone.
            self.alike = _units_alike(self.parameters)
            self._run.session.state_loads.settle(lambda loads: self._run.measured(state_loads=loads))
        for name, parameter in self.parameters.items():
            gradient = parameter.grad
            self.norms[name].append(None if gradient is None else float(gradient.detach().float().norm()) / scale)
        if not keep:
            self.clear()

    def clear(self) -> None:
        """Let the gradients go."""
        for parameter in self.parameters.values():
            parameter.grad = None


def _units_alike(parameters: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Weights that begin alike for all units of a layer, and get the same gradient for all of them.

    Where that gradient is zero, they count only if no other weights of the network learn anything: layers are begun
    with zeros on purpose where others do. A loss that gives all weights, biases among them, the gradient zero (rewards
    that are all equal) tells nothing.
    """
    if not any(each.grad is not None and bool(each.grad.any()) for each in parameters.values()):
        return ()
    matrices = {name: each for name, each in parameters.items() if each.ndim > 1 and each.grad is not None}
    same = {name: each for name, each in matrices.items() if each.shape[0] > 1 and _are_rows_equal(each)}
    learning = {name: each for name, each in same.items() if _are_rows_equal(each.grad)}
    if not learning:
        return ()
    if any(bool(each.grad.any()) for name, each in matrices.items() if name not in learning):
        learning = {name: each for name, each in learning.items() if bool(each.grad.any())}
    return tuple((name, int(each.shape[0])) for name, each in learning.items())


def _are_rows_equal(tensor: Any) -> bool:
    values = tensor.detach()
    # Two rows first, which settles nearly every matrix without a pass over all of it.
    return bool((values[0] == values[1]).all()) and bool((values == values[:1]).all())


def layer_of(name: str) -> str:
    """The layer group of a parameter: its path up to the first layer number, else without its last two parts."""
    numbered = re.match(r"(?:.*?\.)?\w+\.\d+(?=\.)", name)
    if numbered:
        return numbered.group(0)
    parts = name.split(".")
    return ".".join(parts[: max(1, min(2, len(parts) - 1))])


def backward_evidence(run: MeasuredRun, gradients: Gradients) -> BackwardEvidence:
    """The norms that were read until now."""
    groups: dict[str, list[str]] = {}
    for name in gradients.norms:
        groups.setdefault(layer_of(name), []).append(name)
    norms = tuple(_joined(gradients.norms.values(), batch) for batch in range(_batches(gradients)))
    unused = {name for name, each in gradients.norms.items() if all(norm is None for norm in each)}
    # The weights of a Keras model are in no modules.
    is_module = has(gradients.model, "get_submodule")
    left_out = {name for name in unused if is_module and _is_left_out(name, gradients, unused)}
    return BackwardEvidence(
        layers=tuple(_layer(gradients, layer, names, left_out) for layer, names in groups.items()),
        norms=norms,
        finite=all(math.isfinite(norm) for norm in norms),
        clipped_at=run.clipped_at,
        non_finite=gradients.non_finite,
        alike=gradients.alike or (),
        waiting=_waiting(run, gradients, unused),
    )


def _waiting(run: MeasuredRun, gradients: Gradients, unused: set[str]) -> tuple[str, ...]:
    """The weights of optimizers that have got no gradient at all, where others train."""
    names = {id(weight): name for name, weight in gradients.parameters.items()}
    groups = [[group["params"] for group in each.param_groups] for each in run.optimizers if has(each, "param_groups")]
    held = [{names[id(weight)] for group in each for weight in group if id(weight) in names} for each in groups]
    without = [each for each in held if each and each <= unused]
    return tuple(sorted(set[str]().union(*without))) if len(without) < len(held) else ()


def _batches(gradients: Gradients) -> int:
    return max((len(norms) for norms in gradients.norms.values()), default=0)


def _joined(rows: Any, batch: int) -> float:
    return math.sqrt(sum((norms[batch] or 0.0) ** 2 for norms in rows))


def _is_left_out(name: str, gradients: Gradients, unused: set[str]) -> bool:
    """Whether a class of a library has a parameter and does not use it: the script did not choose that.

    `bert.pooler.dense.weight` of a class that the script defines: of `bert` other weights are used, so it is `pooler`
    that is left out, and by `bert`, whose class is a library's and names it. A layer of `nn.Sequential` is left out by
    what holds that.
    """
    parts = name.split(".")
    paths = [".".join(parts[:end]) for end in range(len(parts) + 1)]
    below = next(end for end, path in enumerate(paths) if _all_below(path, gradients) <= unused)
    holders = [(gradients.model.get_submodule(path), part) for path, part in zip(paths[:below], parts, strict=False)]
    named = next(((each, part) for each, part in reversed(holders) if not _only_holds(each)), None)
    return named is not None and not is_own(named[0]) and _is_of_class(*named)


def _is_of_class(holder: Any, part: str) -> bool:
    """Whether the code of a class names a part of its objects; a script may have put another one there."""
    text = re.compile(rf"\bself\.{part}\b|[\"']{part}[\"']")
    return any(text.search(_code_of(kind)) for kind in type(holder).__mro__)


@functools.lru_cache(maxsize=256)
def _code_of(kind: type) -> str:
    """The source of a class: Python parses its whole file for it, which takes up to a second."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


def _all_below(path: str, gradients: Gradients) -> set[str]:
    """The weights of a module, or the weight itself."""
    return {each for each in gradients.parameters if not path or each == path or each.startswith(f"{path}.")}


def _only_holds(module: Any) -> bool:
    """Whether a module has no code of its own: `nn.Sequential`, `nn.ModuleList`."""
    return type(module).__module__ == "torch.nn.modules.container"


def _layer(gradients: Gradients, layer: str, names: list[str], left_out: set[str]) -> LayerGradient:
    rows = [gradients.norms[name] for name in names]
    weights = [float(gradients.parameters[name].detach().float().norm()) for name in names]
    return LayerGradient(
        layer=layer,
        norms=tuple(_joined(rows, batch) for batch in range(_batches(gradients))),
        weight_norm=math.sqrt(sum(weight**2 for weight in weights)),
        parameters=len(names),
        without_gradient=tuple(name for name in names if all(norm is None for norm in gradients.norms[name])),
        left_out=tuple(name for name in names if name in left_out),
    )


def reached_weights(
    loss: Any, held: Mapping[int, Any], forwards: Sequence[Forward], losses: Sequence[LossCall]
) -> ReachedWeights | None:
    """How many a backward pass reaches: in all, of no optimizer (`held`), of no module that was called."""
    known = {id(weight) for forward in forwards for weight in forward.module.parameters()}
    # None is "not known": the graph is too large, and no claim about missing weights is made.
    leaves = leaves_of(loss)
    if leaves is None:
        return None
    outside = [leaf for leaf in leaves.values() if id(leaf) not in held]
    unknown = [leaf for leaf in outside if id(leaf) not in known]
    called_outside = _called_outside(loss, forwards, leaves, set(held), losses)
    stale = _stale(forwards, leaves, set(held), known)
    copied = _copied(forwards, leaves, held) if len(outside) == len(leaves) else None
    kept_at = _kept_at(forwards, {id(leaf) for leaf in unknown}) if unknown else None
    loose = _loose_at(loss, held, forwards)
    return ReachedWeights(len(leaves), len(outside), len(unknown), called_outside, stale, copied, kept_at, loose)


def _loose_at(loss: Any, held: Mapping[int, Any], forwards: Sequence[Forward]) -> Location | None:
    """Where the class of a called module keeps a tensor that a loss could train, and that is no parameter."""
    kept = dict[int, tuple[Any, str]]()
    for part in (part for forward in forwards for part in forward.module.modules()):
        for name, value in part.__dict__.items():
            if attribute(value, "is_leaf", False) and value.requires_grad and id(value) not in held:
                kept[id(value)] = part, name
    nodes = nodes_below(loss.grad_fn) if kept else None
    reached = [kept[key] for node in nodes or () if (key := id(attribute(node, "variable", None))) in kept]
    return kept_in(*reached[0]) if reached else None


def _items_of(value: Any) -> list[Any]:
    """What a plain container holds."""
    if isinstance(value, dict):
        return list[Any](value.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return list[Any](value) if isinstance(value, list | tuple) else []  # pyright: ignore[reportUnknownArgumentType]


def _kept_at(forwards: Sequence[Forward], unknown: set[int]) -> Location | None:
    """Where the class of a called module keeps other modules, with some of the parameters, in a plain container."""
    for part in (part for forward in forwards for part in forward.module.modules()):
        own: dict[str, Any] = part.__dict__
        for name, value in own.items():
            modules = _items_of(value) if not name.startswith("_") else []
            weights = (weight for each in modules if has(each, "parameters") for weight in each.parameters())
            # A single one may be hidden on purpose, such as a teacher.
            if len(modules) > 1 and any(id(weight) in unknown for weight in weights):
                return kept_in(part, name)
    return None


def _copied(forwards: Sequence[Forward], leaves: Mapping[int, Any], held: Mapping[int, Any]) -> Location | None:
    """Where a module was made that a loss reaches, and whose weights have the shapes of those that optimizers hold."""
    wanted = Counter(tuple(weight.shape) for weight in held.values())
    for forward in forwards:
        weights = list(forward.module.parameters())
        is_reached = any(id(weight) in leaves for weight in weights)
        if is_reached and wanted and wanted == Counter(tuple(weight.shape) for weight in weights):
            return made_by_statement(forward.called) or forward.location
    return None


def _stale(forwards: Sequence[Forward], leaves: Mapping[int, Any], held: set[int], known: set[int]) -> int:
    """How many tensors of optimizers are in no module, where a module has tensors that took the place of such ones."""
    for forward in forwards:
        own = {id(weight) for weight in forward.module.parameters()}
        if own & held and own & leaves.keys() - held:
            return len(held - known)
    return 0


def _called_outside(
    loss: Any, forwards: Sequence[Forward], leaves: Mapping[int, Any], held: set[int], losses: Sequence[LossCall]
) -> Location | None:
    """Where a module is called whose weights the loss reaches, and no optimizer holds any of them.

    A module that gives the targets of a loss, such as a random one, is followed and not trained; one that is frozen in
    part is left as it is on purpose. One that only judges what the trained modules made, beside another term of the
    loss, may be fixed as well.
    """
    targets = [call.target for call in losses if attribute(call.target, "grad_fn", None) is not None]
    followed = {key for target in targets for key in leaves_of(target) or ()}
    for forward in forwards:
        weights = list(forward.module.parameters())
        # By identity: a parameter's own comparison is one of its numbers.
        own, is_whole = {id(weight) for weight in weights}, all(weight.requires_grad for weight in weights)
        if (
            is_whole
            and own & leaves.keys() - followed
            and not own & held
            and not _only_judges(forward, loss, held, losses)
        ):
            return forward.location
    return None


def _only_judges(forward: Forward, loss: Any, held: set[int], losses: Sequence[LossCall]) -> bool:
    """Whether a loss reaches trained weights past a module too, whose answers are compared with no data."""
    ends = {each.grad_fn for each in tensors_in(forward.output) if each.grad_fn is not None}
    beside = nodes_below(loss.grad_fn, but=ends) or []
    through = [node for end in ends for node in nodes_below(end) or ()]
    if not all(any(id(attribute(node, "variable", None)) in held for node in nodes) for nodes in (beside, through)):
        return False
    compared = [call for call in losses if ends & set(nodes_below(attribute(call.input, "grad_fn", None)) or ())]
    return not any(_is_data(call.target) for call in compared)


def _is_data(target: Any) -> bool:
    """Whether a target says something about its rows: labels that are all the same do not."""
    return has(target, "numel") and target.numel() > 1 and bool((target != target.flatten()[0]).any())


def leaves_of(loss: Any) -> dict[int, Any] | None:
    """Parameters by identity; None for a graph that is too large to walk."""
    nodes = nodes_below(loss.grad_fn)
    if nodes is None:
        return None
    variables = [attribute(node, "variable", None) for node in nodes]
    return {id(leaf): leaf for leaf in variables if leaf is not None and type(leaf).__name__ == "Parameter"}


MOST_NEW_TERMS = 32
SCALES = ("DivBackward0", "MulBackward0")


def new_terms(loss: Any, held: set[int]) -> list[Any]:
    """Numbers without a history that a loss adds up, though they ask for a gradient.

    No weights, whether of a module or not, and not the 0 that a sum may begin with.
    """
    waiting, found = [loss.grad_fn], list[Any]()
    for _ in range(MOST_NEW_TERMS):
        if not waiting:
            break
        node = waiting.pop()
        below = [each for each, _ in node.next_functions if each is not None] if node is not None else []
        term = attribute(node, "variable", None)
        is_new = term is not None and not term.ndim and type(term).__name__ != "Parameter" and id(term) not in held
        found += [term] if term is not None and is_new and float(term.detach()) != 0.0 else []
        name = node.name() if node is not None else ""
        is_sum = name in ("AddBackward0", "SubBackward0") or (name in SCALES and len(below) == 1)
        waiting += below if is_sum else []
    return found


MOST_TERMS = 64


def terms_of(loss: Any, losses: Sequence[LossCall]) -> tuple[LossTerm, ...]:
    """The terms that a loss adds up, each as large as it is in the sum; empty for no sum.

    Those are calls of loss functions, and one that the script computes by hand: autograd does not keep its value, so it
    is what the others leave of the loss.
    """
    waiting, found, others, is_sum = [(loss.grad_fn, 1.0)], list[LossTerm](), list[float](), True
    for _ in range(MOST_TERMS):
        if not waiting:
            break
        node, factor = waiting.pop()
        call = next((each for each in losses if node is not None and _gives(each, node)), None)
        if call is not None:
            value = float(call.result.detach().float().mean()) * factor
            found.append(LossTerm(call.name, value, factor, call.location))
        elif node is not None:
            below = _added(node, factor)
            is_sum &= node.name() != "SubBackward0"
            # A part that is neither a known loss nor a sum. With a single one of them its value is what is left; with
            # two it cannot be known.
            others += [] if below else [factor]
            waiting += below
    if is_sum and not waiting and len(others) == 1:
        rest = float(loss.detach().float().mean()) - sum(term.value for term in found)
        found.append(LossTerm("", rest, others[0]))
    return tuple(found) if len(found) > 1 else ()


def _gives(call: LossCall, node: Any) -> bool:
    return attribute(call.result, "grad_fn", None) is node and call.result.numel() == 1


def _added(node: Any, factor: float) -> list[tuple[Any, float]]:
    """What an operation adds up, or multiplies or divides by a number, each with its factor."""
    below = [each for each, _ in node.next_functions]
    number = attribute(node, "_saved_other", None)
    match node.name():
        case "AddBackward0" | "SubBackward0":
            return [(each, factor) for each in below]
        case "MeanBackward0" | "SqueezeBackward0":
            return [(each, factor) for each in below]
        case "MulBackward0" if number is not None and number.numel() == 1 and below.count(None) == len(below) - 1:
            return [(each, factor * abs(float(number))) for each in below]
        case "DivBackward0" if number is not None and number.numel() == 1 and float(number):
            return [(each, factor / abs(float(number))) for each in below[:1]]
        case _:
            return []
