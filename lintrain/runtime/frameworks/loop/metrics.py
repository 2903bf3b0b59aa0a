"""Calls of library metrics in the script: their arguments and results, in training and in evaluation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

from lintrain.evidence.run import MetricUse
from lintrain.model.location import Location
from lintrain.runtime.child.frames import LONGEST_MESSAGE, frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has, loaded
from lintrain.runtime.child.library import library as imported
from lintrain.runtime.frameworks.loop.loop_state import LoopState
from lintrain.runtime.measure.baselines import baselines
from lintrain.runtime.measure.predictions import described, numbers_in
from lintrain.startup.lazy_dataclass import dataclass

MOST_LOCATIONS = 32
OF_SCIKIT_LEARN = ("_classification", "_ranking", "_regression")
OF_TORCHMETRICS = ("accuracy", "f_beta", "precision_recall")
REFERENCES = ("references", "reference", "y_true", "target")
PREDICTIONS = ("predictions", "prediction", "y_pred", "y_score", "y_prob", "y_proba", "preds")
MOST_COMPARED = 8
MOST_ADDED = 10_000
"""Rows that are kept of what is added to the object of a metric."""
Call = Callable[..., Any]
Key = tuple[Location | None, str]


class MetricUses:
    """The calls of metrics by location, with the first arrays of each and the last values."""

    def __init__(self, state: LoopState) -> None:
        self._state = state
        self._found: dict[Key, MetricUse] = {}
        self._open: MetricUse | None = None
        self._judged: dict[Key, Judged] = {}
        self._added: dict[int, Added] = {}

    @property
    def every(self) -> tuple[MetricUse, ...]:
        """All of them, in the order of their first calls."""
        return tuple(self._found.values())

    def compare(self) -> None:
        """Ask the metrics of the evaluation, with the last values they got, about answers that know nothing."""
        for key in list(self._judged)[:MOST_COMPARED]:
            given = self._judged.pop(key)
            # Removed first: a metric that raises about constant answers is not asked a second time.
            found = self._tried(given.compared)
            self._found[key] = replace(self._found[key], **(found or {}))

    def watched(self, library: str, function: Call, name: Callable[[Any], str] | str, owner: Any = None) -> Call:
        """A function or method that reports its calls; one that a watched one calls adds what only it has.

        `owner` is the object of a bound method.
        """

        @functools.wraps(function)
        def metric(*args: Any, **kwargs: Any) -> Any:
            """What the metric gives."""  # evaluate 0.4 copies the code of `compute` and adds to the text that is in it
            if not self._state.is_on or not self._state.optimizers:
                return function(*args, **kwargs)
            # `evaluate` calls scikit-learn, torchmetrics calls its own functions: the outermost call is the script's,
            # and the inner one only completes it.
            if self._open is not None:
                self._completes(function, args, kwargs)
                return function(*args, **kwargs)
            called = name if isinstance(name, str) else name(args[0] if args else None)
            self._open = self._begins(library, called, function, args, kwargs)
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                self._ends(replace(self._open, error=type(error).__name__, message=str(error)[:LONGEST_MESSAGE]))
                raise
            finally:
                # In any case: an open call would make every later metric count as called by this one.
                use, self._open = self._open, None
            use = replace(use, values=self._tried(numbers_in, result) or {})
            self._ends(use)
            of = args[0] if owner is None and library == "evaluate" and args else owner
            self._tried(self._keep, use, of, function, args, kwargs)
            return result

        return metric

    def _keep(self, use: MetricUse, owner: Any, function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep how the metric can be asked again, or what is added to its object until it is asked."""
        key = (use.location, use.function)
        # A metric of training batches is not compared with baselines: it is logged to be watched, and decides nothing.
        if use.is_training or key not in self._found:
            return
        given = _arguments(function, args, kwargs) or {}
        guessed, wanted = _first(given, PREDICTIONS), _first(given, REFERENCES)
        if guessed is not None and use.values:
            self._judged[key] = Judged(_again(function, args, kwargs, guessed), guessed, wanted)
        elif guessed is not None:
            self._added.setdefault(id(owner), Added(owner)).take(guessed, wanted)
        elif use.values and id(owner) in self._added:
            self._judged[key] = self._added[id(owner)].judged(kwargs)

    def _begins(
        self, library: str, called: str, function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> MetricUse:
        is_training = not self._state.is_evaluating
        use = MetricUse(library, called, location=frame_location(users_frame()), is_training=is_training)
        return replace(use, **(self._tried(_given, function, args, kwargs) or {}))

    def _completes(self, function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Complete a call by what `compute` passes to scikit-learn: the values that were added batch by batch."""
        if self._open is not None and not self._open.references:
            given = self._tried(_given, function, args, kwargs) or {}
            self._open = replace(self._open, **{**given, "options": self._open.options})

    def _ends(self, use: MetricUse) -> None:
        key = (use.location, use.function)
        before = self._found.get(key)
        if before is not None:
            kept = before if before.references or not use.references else use
            # The last value, but the first arrays: those are what the claims about shapes and labels are checked
            # with.
            values, calls = use.values or before.values, before.calls + 1
            is_training = before.is_training and use.is_training
            error, message = use.error or before.error, use.message or before.message
            use = replace(kept, values=values, calls=calls, is_training=is_training, error=error, message=message)
        if before is not None or len(self._found) < MOST_LOCATIONS:
            self._found[key] = use

    def _tried(self, ask: Callable[..., dict[str, Any] | None], *given: Any) -> dict[str, Any] | None:
        try:
            with self._state.paused():
                return ask(*given)
        except Exception as error:  # noqa: BLE001 - the script's metric goes on whatever it was given
            self._state.session.note(f"the arguments of a metric could not be read: {type(error).__name__}: {error}")
            return None


def _given(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The fields of `MetricUse` that describe the arguments."""
    more = _arguments(function, args, kwargs)
    if more is None:
        return {}
    options = [name for name, value in more.items() if value is not None and name not in (*REFERENCES, *PREDICTIONS)]
    found = described(_first(more, PREDICTIONS), _first(more, REFERENCES))
    return {**found, "options": tuple(name for name in options if name != "self")}


def _arguments(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments by name; None if the function does not take them, which it says itself."""
    try:
        given: dict[str, Any] = {**inspect.signature(function).bind_partial(*args, **kwargs).arguments}
    except TypeError:
        return None
    rest: dict[str, Any] = given.pop("kwargs", {})  # what a signature takes all together
    locations: tuple[Any, ...] = given.pop("args", ())
    return {**given, **rest, **dict(zip(("preds", "target"), locations, strict=False))}


def _first(given: dict[str, Any] | None, names: Sequence[str]) -> Any:
    return next((given[name] for name in names if given.get(name) is not None), None) if given else None


@dataclass(eq=False)
class Judged:
    """A metric with what it was given last, and a way to ask it about other predictions."""

    ask: Call
    predictions: Any
    references: Any

    def compared(self) -> dict[str, Any]:
        """What answers that know nothing score, as fields of `MetricUse`."""
        return {**baselines(self.ask, self.predictions, self.references).fields}


@dataclass(eq=False)
class Added:
    """What was added to the object of a metric, batch by batch; `owner` is the object."""

    owner: Any
    parts: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    rows: int = 0

    def take(self, predictions: Any, references: Any) -> None:
        """One batch; of a long evaluation only the first are kept."""
        if self.rows <= MOST_ADDED:
            self.parts.append((predictions, references))
            self.rows += len(predictions)

    def judged(self, options: dict[str, Any]) -> Judged:
        """All batches as one; the object that is asked is another, or keeps nothing of it."""
        predictions, references = (_joined(side) for side in zip(*self.parts, strict=True))

        def ask(answer: Any) -> Any:
            return _of_object(self.owner, answer, references, options)

        return Judged(ask, predictions, references)


def _joined(parts: Sequence[Any]) -> Any:
    if all(has(part, "detach") for part in parts):
        return imported("torch").cat([part.detach() for part in parts])
    return imported("numpy").concatenate([imported("numpy").asarray(part) for part in parts])


def _of_object(owner: Any, answer: Any, references: Any, options: dict[str, Any]) -> Any:
    # The objects of torchmetrics keep their state, and the script goes on adding to it: a copy is asked.
    if not has(owner, "clone"):  # of evaluate, which keeps nothing after `compute`
        return owner.compute(predictions=answer, references=references, **options)
    other = owner.clone()
    other.reset()
    other.update(answer, references)
    return other.compute()


def _again(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any], guessed: Any) -> Call:
    """The same call with other predictions."""

    def ask(answer: Any) -> Any:
        others = {name: answer if value is guessed else value for name, value in kwargs.items()}
        return function(*(answer if value is guessed else value for value in args), **others)

    return ask


def hook_metrics(uses: MetricUses, hooks: AfterImport) -> None:
    """Watch the metrics of libraries, as soon as the script imports them."""
    for part in OF_SCIKIT_LEARN:
        hooks.add(f"sklearn.metrics.{part}", functools.partial(_hook_functions, uses, "scikit-learn"))
    for part in OF_TORCHMETRICS:
        name = f"torchmetrics.functional.classification.{part}"
        hooks.add(name, functools.partial(_hook_functions, uses, "torchmetrics"))
    hooks.add("evaluate.module", functools.partial(_hook_evaluate, uses))
    hooks.add("torchmetrics.metric", functools.partial(_hook_torchmetrics, uses))


def _hook_functions(uses: MetricUses, library: str, module: Any) -> None:
    """Every public function of a module that compares predictions with references, wherever it is handed on."""
    parents = module.__name__.split(".")
    owners = [module, *(loaded(".".join(parents[:length])) for length in range(1, len(parents)))]
    public: dict[str, Any] = {**vars(module)}
    for name, function in public.items():
        if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
            continue
        if not _compares(tuple(inspect.signature(function).parameters)):
            continue
        watched = uses.watched(library, function, name)
        # A package that was imported before this ran has taken the original function from its private module.
        for owner in owners:
            if owner is not None and attribute(owner, name, None) is function:
                setattr(owner, name, watched)


def _compares(names: Sequence[str]) -> bool:
    return bool(set(names[:2]) & set(REFERENCES)) and bool(set(names[:2]) & set(PREDICTIONS))


def _hook_evaluate(uses: MetricUses, module: Any) -> None:
    kind = module.EvaluationModule
    for name in ("add", "add_batch", "compute"):
        setattr(kind, name, uses.watched("evaluate", getattr(kind, name), lambda metric: str(metric.name)))


def _hook_torchmetrics(uses: MetricUses, module: Any) -> None:
    """Each metric wraps its own `update` and `compute` when it is made, and again when it is copied."""
    for name in ("_wrap_update", "_wrap_compute"):
        setattr(module.Metric, name, _watching(uses, getattr(module.Metric, name)))


def _watching(uses: MetricUses, wrap: Call) -> Call:
    @functools.wraps(wrap)
    def wrapped(self: Any, function: Call) -> Any:
        if type(self).__name__.startswith("_"):  # Lightning keeps what is logged in a metric of its own
            return wrap(self, function)
        return uses.watched("torchmetrics", wrap(self, function), type(self).__name__, self)

    return wrapped
