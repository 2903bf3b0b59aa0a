"""Hooks in functions of torch of which one call shows a mistake, wherever in the script it is made.

A view that gives a tensor its own sizes in another order, dropout that a function applies in eval mode, logits that are
compared with 0.5, a container with one module several times, a loss that is its own gradient, clipping of nothing, and
an optimizer that takes the place of one that was just like it.
"""

from __future__ import annotations

import functools
import inspect
import re
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

from lintrain.evidence.loop import OddCall, OddCallKind
from lintrain.model.location import Location
from lintrain.runtime.child.frames import callers_frame, frame_location, is_users
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has
from lintrain.runtime.child.surroundings import lines_now
from lintrain.runtime.frameworks.loop.activations import divided, hook_divergence, least_of, probability_below
from lintrain.runtime.frameworks.loop.players import Players
from lintrain.runtime.frameworks.loop.scored_axes import ScoredAxes, hook_choices, hook_functions, share
from lintrain.runtime.frameworks.loop.teachers import Teachers
from lintrain.runtime.measure.held_values import heads_around
from lintrain.runtime.measure.losses import ACTIVATED_AT, name_of
from lintrain.runtime.measure.objects.statements import names_sizes, only_call
from lintrain.runtime.measure.seen import Forward, LossCall, nodes_below, tensors_in

MOST = 32
"""Calls of different places that are kept."""
HALF = 0.5
NEEDS_ROWS = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss"})
"""Losses that raise an error if the batch has an axis that the predictions have lost."""
PICTURE, COLORS = 3, 4
"""The axes of a picture, and the most entries of that of its colors."""
ON_PURPOSE = re.compile(r"shared|tied|same", re.IGNORECASE)
DROPS_ALWAYS = re.compile(r"mc(?=_|[A-Z])|monte|bayes|uncertain|sampl|augment|nois|pre_?net", re.IGNORECASE)
RESTARTS = re.compile(r"fed|client|meta|maml|inner|fold|trial|task|seed|stage|phase|restart|reset|round", re.IGNORECASE)
"""Words of loops and functions that make a new optimizer on purpose."""


class OddCalls:
    """What was seen of them, and which tensors and modules give logits."""

    def __init__(self, is_on: Callable[[], bool], rows_now: Callable[[], int]) -> None:
        self._is_on, self._rows_now = is_on, rows_now
        self._seen: dict[tuple[OddCallKind, Location], tuple[str, int]] = {}
        self._logits: list[weakref.ref[Any]] = []
        self._gives_logits = set[int]()
        self._made: list[tuple[weakref.ref[Any], list[Any]]] = []
        self._views: dict[tuple[CodeType, int], set[tuple[int, ...]]] = {}
        self._splits = set[tuple[CodeType, int]]()
        self._squeezed: list[tuple[weakref.ref[Any], Location]] = []
        self.axes = ScoredAxes(self.note, self._add)
        self.players = Players(lambda text, at: self._add(OddCallKind.SAME_DIRECTION, at, text))
        self.teachers = Teachers(lambda text, at: self._add(OddCallKind.RANDOM_TEACHER, at, text))

    def evidence(self) -> tuple[OddCall, ...]:
        """All of them, in the order in which they were first made."""
        return tuple(OddCall(kind, at, text, times) for (kind, at), (text, times) in self._seen.items())

    def note(
        self,
        kind: OddCallKind,
        text: str,
        frame: FrameType | None,
        *,
        at: Location | None = None,
        always: bool = False,
    ) -> None:
        """A call of the user's own code, shown `at` another place; with `always` also one that the probe has caused."""
        is_seen = frame is not None and (always or self._is_on())
        location = (at or frame_location(frame)) if is_seen else None
        if location is not None:
            self._add(kind, location, text)

    def _add(self, kind: OddCallKind, location: Location, text: str) -> None:
        if len(self._seen) < MOST or (kind, location) in self._seen:
            before, times = self._seen.get((kind, location), (text, 0))
            self._seen[kind, location] = before, times + 1

    def on_view(self, before: tuple[int, ...], after: tuple[int, ...], frame: FrameType) -> None:
        """A view gives a tensor other sizes. That they are the same ones by chance, another number of rows shows."""
        call = frame.f_code, frame.f_lasti
        is_same = _without_ones(before) == _without_ones(after)
        if is_same or call in self._splits or len(self._views) > MOST:
            return
        # Sizes that are no permutation show that the call splits or joins axes on purpose: if it once makes `[8, 32,
        # 90]` of `[8, 45, 64]`, then `[8, 64, 45]` was chance.
        if Counter(_without_ones(before)) != Counter(_without_ones(after)):
            self._splits.add(call)
            if self._views.pop(call, None) and (location := frame_location(frame)) is not None:
                self._seen.pop((OddCallKind.PERMUTING_VIEW, location), None)
        elif moves_an_axis(before, after) and before not in self._views.setdefault(call, set()):
            self._views[call].add(before)
            text = f"a tensor of shape {list(before)} becomes one of {list(after)}, without moving its elements"
            # Colors and names of sizes are sure signs and count twice: other permutations need a second size of batch
            # to be believed.
            for _ in range(1 + (moves_colors(before, after) or names_sizes(frame))):
                self.note(OddCallKind.PERMUTING_VIEW, text, frame, always=True)

    # logits

    def on_logits(self, given: Any, forwards: list[Forward]) -> None:
        """A loss gets logits: these, and what the module returns that they are, or are a view of."""
        self._logits = [*(each for each in self._logits if each() is not None), weakref.ref(given)][-MOST:]
        for forward in forwards:
            if any(share(given, output) for output in tensors_in(forward.output)):
                self._gives_logits.add(id(forward.module))

    def on_forward(self, forward: Forward) -> None:
        """A module gives its output."""
        self.players.on_forward(forward)
        self.axes.on_forward(forward)
        if id(forward.module) in self._gives_logits:
            self._logits = [*self._logits, *map(weakref.ref, tensors_in(forward.output))][-MOST:]

    def are_logits(self, tensor: Any) -> bool:
        """Whether a tensor is known to hold logits, and has values that are no probabilities."""
        known = (each() for each in self._logits)
        if not any(each is not None and share(tensor, each) for each in known):
            return False
        numbers = tensor.detach()
        return bool(((numbers < 0) | (numbers > 1)).any())

    # losses

    def on_squeeze(self, given: Any, result: Any, frame: FrameType) -> None:
        """All axes of one entry are taken from a tensor, which may be a batch."""
        rows, location = given.shape[0], frame_location(frame)
        if location is None or rows < 2 or rows != self._rows_now():
            return
        before, after = [list(each.shape[1:]) for each in (given, result)]
        text = (
            f"`squeeze()` makes {[rows, *after]} of {[rows, *before]}, and of one row {after} in place of {[1, *after]}"
        )
        self._add(OddCallKind.SQUEEZED_ROWS, location, text)
        self._squeezed = [*self._squeezed, (weakref.ref(result), location)][-MOST:]

    def on_loss(self, name: str, given: Any, target: Any, forwards: list[Forward]) -> None:
        """A loss is called: one that refuses predictions and targets with different axes may get a squeezed batch."""
        self.axes.on_loss(name, given, target, forwards)
        known = {id(tensor): location for each, location in self._squeezed if (tensor := each()) is not None}
        location = known.get(id(given))
        if name in NEEDS_ROWS and location is not None and id(target) not in known:
            text = self._seen.get((OddCallKind.SQUEEZED_ROWS, location), ("", 0))[0]
            self._add(OddCallKind.LOST_ROWS, location, f"{text}, which `{name}` refuses")

    def on_loss_graph(self, loss: Any, calls: Sequence[LossCall]) -> int:
        """A loss goes backward: it may contain the logarithm of a sigmoid or softmax, computed in two steps, and a
        divergence that is averaged over the classes.

        How many such logarithms it contains that are computed in one, by the script and not by a loss function.
        """
        nodes = nodes_below(loss.grad_fn) or []
        for call in calls:
            text = divided(call, nodes) if call.name == "kl_div" and not call.is_chosen else ""
            if text and call.location is not None:
                self._add(OddCallKind.MEAN_OVER_CLASSES, call.location, text)
        logs = [node for node in nodes if name_of(node) == "Log"]
        found = {node: probability for node in logs if (probability := probability_below(node)) is not None}
        marked = {node: node.metadata.get(ACTIVATED_AT) for node in logs}
        # `torch.log` leaves no mark: if all that have none are such logarithms, the script's only call of it is meant.
        is_sure = all(marked[node] is not None or node in found for node in logs)
        unmarked = only_call("torch.log") if is_sure and any(marked[node] is None for node in found) else None
        for node, probability in found.items():
            text = f"the log of a {probability} from {least_of(node):.3g} on is computed in two steps"
            if (location := marked[node] or unmarked) is not None:
                self._add(OddCallKind.LOG_OF_PROBABILITY, location, text)
        of_losses = {below for node in nodes if name_of(node).startswith("NllLoss") for below, _ in node.next_functions}
        return sum(name_of(node) in ("LogSigmoid", "LogSoftmax") and node not in of_losses for node in nodes)

    # optimizers

    def on_optimizer(self, optimizer: Any, frame: FrameType | None) -> None:
        """An optimizer is made; the same statement may have made one before that is just like it."""
        lines = lines_now()
        if frame is None or any(RESTARTS.search(text) for text in heads_around(frame)):
            return
        for made, where in self._made:
            earlier = made()
            if earlier is not None and where == lines and _is_alike(earlier, optimizer):
                self.note(OddCallKind.OPTIMIZER_AGAIN, f"the averages of {len(earlier.state)} weights are lost", frame)
        self._made = [*self._made, (weakref.ref(optimizer), lines)][-MOST:]


def _is_alike(earlier: Any, later: Any) -> bool:
    """Whether an optimizer has stepped, keeps averages, and another one has its class, settings and parameters."""
    if type(earlier) is not type(later) or earlier.defaults != later.defaults:
        return False
    # Plain SGD keeps nothing: making it again in each epoch loses nothing.
    keeps = any(attribute(each, "ndim", 0) for state in earlier.state.values() for each in state.values())
    held = [[{id(each) for each in group["params"]} for group in one.param_groups] for one in (earlier, later)]
    return keeps and held[0] == held[1]


def hook_odd_calls(calls: OddCalls, hooks: AfterImport) -> None:
    """Let them be seen."""
    hooks.add("torch._tensor", functools.partial(_hook_tensors, calls))
    hooks.add("torch", functools.partial(_hook_functions, calls))
    hooks.add("torch.nn.functional", functools.partial(_hook_dropout, calls))
    hooks.add("torch.nn.modules.loss", hook_divergence)
    hooks.add("transformers.optimization", functools.partial(_hook_schedules, calls))
    hooks.add("torch.nn.modules.container", functools.partial(_hook_containers, calls))


def _hook_tensors(calls: OddCalls, module: Any) -> None:
    tensor = module.Tensor
    for name in ("view", "reshape"):
        setattr(tensor, name, _watched_view(calls, getattr(tensor, name)))
    for name in ("__gt__", "__ge__", "__lt__", "__le__"):
        setattr(tensor, name, _watched_comparison(calls, getattr(tensor, name)))
    tensor.squeeze = _watched_squeeze(calls, tensor.squeeze)
    tensor.round = _watched_rounding(calls, tensor.round)
    hook_choices(lambda: calls.axes, tensor)


def _hook_functions(calls: OddCalls, torch: Any) -> None:
    torch.round = _watched_rounding(calls, torch.round)
    hook_functions(lambda: calls.axes, torch)


def _watched_squeeze(calls: OddCalls, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def squeeze(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(self, *args, **kwargs)
        # With an axis it takes no other one.
        if not args and not kwargs and self.ndim > 1 and (frame := _users(callers_frame(above=1))) is not None:
            calls.on_squeeze(self, result, frame)
        return result

    return squeeze


def _watched_view(calls: OddCalls, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def view(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(self, *args, **kwargs)
        before, after = self.shape, result.shape
        if len(before) == len(after) > 1 and before != after and (frame := _users(callers_frame(above=1))) is not None:
            calls.axes.on_view(tuple(before), tuple(after), result, frame)
            calls.on_view(tuple(before), tuple(after), frame)
        return result

    return view


def moves_an_axis(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether sizes are in another order, so that rows of one are made of parts of several rows of the other.

    Axes of one entry do not count. Sizes behind the first axis may meet by chance where a product is split anew; only
    the colors of pictures do not.
    """
    old, new = _without_ones(before), _without_ones(after)
    return old != new and Counter(old) == Counter(new) and (before[0] != after[0] or moves_colors(before, after))


def moves_colors(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether the last axis, of the colors of a picture or of a batch of them, comes before its height and width."""
    colors, axis = before[-1], len(before) - PICTURE
    return axis in (0, 1) and 1 < colors <= COLORS and after == (*before[:axis], colors, *before[axis:-1])


def _without_ones(sizes: tuple[int, ...]) -> list[int]:
    return [size for size in sizes if size > 1]


def _watched_comparison(calls: OddCalls, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def compare(self: Any, other: Any) -> Any:
        # The class and no `isinstance`, for this runs at each comparison of tensors; a subclass such as NumPy's
        # float comes from arrays.
        if other.__class__ is float and other == HALF and calls.are_logits(self):
            calls.note(OddCallKind.HALF_FOR_LOGITS, _range_of(self), _users(callers_frame(above=1)))
        return function(self, other)

    return compare


def _watched_rounding(calls: OddCalls, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def rounded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs and has(self, "untyped_storage") and calls.are_logits(self):
            calls.note(OddCallKind.HALF_FOR_LOGITS, _range_of(self), _users(callers_frame(above=1)))
        return function(self, *args, **kwargs)

    return rounded


def _range_of(tensor: Any) -> str:
    least, most = float(tensor.detach().min()), float(tensor.detach().max())
    return f"logits from {least:.3g} to {most:.3g} are compared with 0.5"


def _users(frame: FrameType | None) -> FrameType | None:
    return frame if frame is not None and is_users(frame.f_code.co_filename) else None


def _hook_dropout(calls: OddCalls, module: Any) -> None:
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        if has(module, name):
            setattr(module, name, _watched_dropout(calls, getattr(module, name)))


def _watched_dropout(calls: OddCalls, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def dropout(input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - torch's own name, given by keyword
        # Who writes `training=True` means it; `nn.Dropout` always says which.
        if len(args) < 2 and "training" not in kwargs:
            frame = _users(callers_frame(above=1))
            owner = frame.f_locals.get("self") if frame is not None else None
            rate = args[0] if args else kwargs.get("p", HALF)
            is_meant = DROPS_ALWAYS.search(type(owner).__name__) is not None
            if owner is not None and attribute(owner, "training", None) is False and rate and not is_meant:
                text = f"`{type(owner).__name__}` dropped values with probability {float(rate):.3g} in eval mode"
                calls.note(OddCallKind.DROPOUT_IN_EVAL, text, frame, always=True)
        return function(input, *args, **kwargs)

    return dropout


def _hook_containers(calls: OddCalls, module: Any) -> None:
    for kind in (module.ModuleList, module.Sequential):
        kind.__init__ = _watched_container(calls, kind.__init__)


def _watched_container(calls: OddCalls, build: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        held = list(self._modules.values())
        if len(held) <= 1 or len({id(each) for each in held}) == len(held):
            return
        with_weights = [each for each in held if next(each.parameters(), None) is not None]
        frame = _users(callers_frame(above=1))
        is_one = len(with_weights) > 1 and all(each is with_weights[0] for each in with_weights)
        if frame is not None and is_one and not _is_meant(with_weights[0], frame.f_locals):
            text = f"one `{type(with_weights[0]).__name__}` is {len(with_weights)} of its {len(held)} modules"
            calls.note(OddCallKind.REPEATED_MODULE, text, frame)

    return init


def _is_meant(module: Any, names: Mapping[str, Any]) -> bool:
    """Whether a name of a module, or its class, says that it is shared."""
    parts: Mapping[str, Any] = attribute(names.get("self"), "_modules", {})
    own = [name for held in (names, parts) for name, value in held.items() if value is module]
    return any(ON_PURPOSE.search(name) for name in (*own, type(module).__name__))


def _hook_schedules(calls: OddCalls, module: Any) -> None:
    make = module.get_scheduler
    names = tuple(inspect.signature(make).parameters)

    @functools.wraps(make)
    def get_scheduler(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        name, steps = given.get("name"), given.get("num_warmup_steps")
        if isinstance(steps, int) and steps > 0 and attribute(name, "value", name) == "constant":
            text = f"the schedule `constant` got {steps} warm-up steps, and its rate is the same from step 0 on"
            calls.note(OddCallKind.IGNORED_WARMUP, text, _users(callers_frame(above=1)))
        return make(*args, **kwargs)

    module.get_scheduler = get_scheduler


def is_own_gradient(loss: Any, gradient: Any) -> bool:
    """Whether the gradient that a backward pass begins with is the loss itself, or the same number."""
    if not has(gradient, "untyped_storage") or gradient.numel() != 1 or loss.numel() != 1:
        return False
    number = float(gradient.detach())
    # A loss of exactly 1 has the default gradient, 1.
    return number == float(loss.detach()) and number != 1.0
