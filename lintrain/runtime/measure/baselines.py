"""What a metric gives for answers that know nothing of the rows: the best constant one, and random ones."""

from __future__ import annotations

import io
import math
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.measure.predictions import IGNORED, INTEGERS, MOST_BYTES, as_array, numbers_in
from lintrain.startup.lazy_dataclass import dataclass

MOST_DRAWS = 8
SECONDS = 0.1
"""For all random answers together; a metric that takes ten times as long for one answer is asked nothing."""
MOST_LABELS = 1_000
"""Of more distinct ones no answer is random in a way that says something: texts as ids of tokens."""
LEAST_SHARE = 1e-6

Scores = dict[str, float]
Numbers = Any  # an array of NumPy


@dataclass(frozen=True, slots=True)
class Baselines:
    """The scores of the constant answer and the mean scores of random answers, by the name of the metric."""

    of_constant: Scores
    of_random: Scores

    @property
    def fields(self) -> dict[str, Scores]:
        """As fields of evidence."""
        return {"of_constant": self.of_constant, "of_random": self.of_random}


NOTHING = Baselines({}, {})


def baselines(ask: Callable[[Any], Any], predictions: Any, labels: Any) -> Baselines:
    """Ask a metric about answers in the form of these predictions; nothing where no form is known, or it raises."""
    first: Any = predictions[0] if is_row(predictions) and predictions else predictions
    try:
        with _unseen():
            return _asked(lambda answer: ask(_like(answer, predictions, first)), _numbers(first), _numbers(labels))
    except Exception:  # noqa: BLE001 - a metric of the script's own may take its own predictions only
        return NOTHING


def _asked(ask: Callable[[Numbers], Any], predictions: Numbers, labels: Numbers) -> Baselines:
    answers = None if predictions is None or labels is None else _answers(predictions, labels)
    if answers is None:
        return NOTHING
    began = time.perf_counter()
    # Timed with the first answer: a metric that loads a model of its own takes seconds for each.
    of_constant = _finite(ask(answers.constant))
    if time.perf_counter() - began > 10 * SECONDS:
        return Baselines(of_constant, {})
    draws = [_finite(ask(draw)) for draw in _timed(answers)]
    named = {name: [draw[name] for draw in draws if name in draw] for name in of_constant}
    return Baselines(of_constant, {name: sum(found) / len(found) for name, found in named.items() if found})


@dataclass(frozen=True)
class Answers:
    """The best constant answer, and what draws a random one."""

    constant: Numbers
    draw: Callable[[Any], Numbers]


def _timed(answers: Answers) -> Iterator[Numbers]:
    generator = library("numpy").random.default_rng(0)
    ends = time.perf_counter() + SECONDS
    for number in range(MOST_DRAWS):
        if number == 0 or time.perf_counter() < ends:
            yield answers.draw(generator)


def _answers(predictions: Numbers, labels: Numbers) -> Answers | None:
    """By the form of the predictions; None for one that says nothing of the kind of its answers."""
    # Ignored positions hold -100, which would be the most frequent label of a padded batch.
    scored = labels[labels != IGNORED] if labels.dtype.kind in INTEGERS else labels.reshape(-1)
    if not predictions.size or not scored.size or predictions.nbytes > MOST_BYTES:
        return None
    if labels.dtype.kind in INTEGERS and predictions.dtype.kind in INTEGERS:
        return _classes(predictions, labels, scored)
    # With one output, labels and what a threshold gives are often floats: a share between would be no class.
    if _are_chosen(labels) and _are_chosen(predictions):
        return _classes(predictions, labels, scored)
    if predictions.dtype.kind != "f":
        return None
    if labels.dtype.kind in INTEGERS and predictions.shape[:-1] == labels.shape and predictions.shape[-1] > 1:
        return _scores(predictions, scored)
    if predictions.size == labels.size:
        return _entries(predictions, labels)
    return None


def _are_chosen(numbers: Numbers) -> bool:
    """Whether all of them are 0 or 1, whatever their type."""
    return bool(library("numpy").isin(numbers, (0, 1)).all())


def _classes(predictions: Numbers, labels: Numbers, scored: Numbers) -> Answers | None:
    """Classes that were chosen already."""
    known, counts = library("numpy").unique(scored, return_counts=True)
    # With one output, answers of [rows, 1] are compared with labels of [rows].
    if predictions.size != labels.size or len(known) > MOST_LABELS:
        return None
    # The most frequent class: 0.9 accuracy says nothing where 90 of 100 rows have one label.
    constant = library("numpy").full_like(predictions, known[counts.argmax()])
    kind = predictions.dtype
    return Answers(constant, lambda generator: generator.choice(known, predictions.shape).astype(kind))


def _scores(predictions: Numbers, scored: Numbers) -> Answers | None:
    """A score for each class: the constant answer is how frequent each class is, as a softmax would say it."""
    numpy, shape, kind = library("numpy"), predictions.shape, predictions.dtype
    # A label without a score of its own cannot be counted into shares, and is another rule's finding.
    if scored.min() < 0 or scored.max() >= shape[-1]:
        return None
    shares = numpy.bincount(scored.astype(int), minlength=shape[-1]) / scored.size
    is_sure = bool((predictions >= 0).all() and numpy.allclose(predictions.sum(-1), 1, atol=1e-3))
    # In the form of the model's own: a metric may apply softmax itself, and would flatten probabilities.
    constant = shares if is_sure else numpy.log(shares.clip(LEAST_SHARE))

    def draw(generator: Any) -> Numbers:
        drawn = generator.gumbel(size=shape)  # its largest entry is at any class with equal chance
        if not is_sure:
            return drawn.astype(kind)
        lifted = numpy.exp(drawn - drawn.max(-1, keepdims=True))
        return (lifted / lifted.sum(-1, keepdims=True)).astype(kind)

    return Answers(numpy.broadcast_to(constant, shape).astype(kind), draw)


def _entries(predictions: Numbers, labels: Numbers) -> Answers | None:
    """One number for each label: yes or no where the labels are 0 and 1, else a quantity."""
    numpy, shape, kind = library("numpy"), predictions.shape, predictions.dtype
    labels = labels.reshape(shape)
    # A quantity: the mean is the best constant for squared errors, and other rows' labels are random
    # answers of the right spread.
    if not _are_chosen(labels):
        rows = len(labels)
        constant = numpy.broadcast_to(labels.mean(axis=0), shape).astype(kind)
        return Answers(constant, lambda generator: labels[generator.permutation(rows)].astype(kind))
    shares = labels.mean(axis=0).clip(LEAST_SHARE, 1 - LEAST_SHARE)
    is_sure = bool((predictions >= 0).all() and (predictions <= 1).all())
    constant = shares if is_sure else numpy.log(shares / (1 - shares))

    def draw(generator: Any) -> Numbers:
        return (generator.random(shape) if is_sure else generator.normal(size=shape)).astype(kind)

    return Answers(numpy.broadcast_to(constant, shape).astype(kind), draw)


def _numbers(value: Any) -> Numbers | None:
    """An array of NumPy; None for what holds no numbers, or several things."""
    array = as_array(value)
    if array is None:
        return None
    array = array.detach().float() if has(array, "detach") and array.is_floating_point() else array
    array = library("numpy").asarray(array.cpu() if has(array, "cpu") else array)
    return array.astype(int) if array.dtype.kind == "b" else array if array.dtype.kind in "iuf" else None


def _like(answer: Numbers, predictions: Any, first: Any) -> Any:
    """An answer of the type that the metric was given."""
    made: Any = answer
    if has(first, "detach"):
        made = library("torch").as_tensor(answer).to(first.dtype).to(first.device)
    elif is_row(first):
        made = answer.tolist()
    elif attribute(attribute(first, "dtype", None), "kind", "") == "b":
        made = answer.astype(bool)
    return (made, *predictions[1:]) if first is not predictions else made


def _finite(result: Any) -> Scores:
    return {name: value for name, value in numbers_in(result).items() if math.isfinite(value)}


@contextmanager
def _unseen() -> Generator[None]:
    """What the metric prints, warns of and draws is not the script's."""
    with same_random_numbers(), redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def of_metric_function(function: Callable[..., Any], prediction: Any, metrics: Any) -> Baselines:
    """Those of the metric function of a Trainer, from the `EvalPrediction` that it was given."""
    if not is_mapping(metrics) or not numbers_in(metrics):
        return NOTHING
    others = {name: given for name in ("inputs", "losses") if (given := attribute(prediction, name, None)) is not None}
    labels = prediction.label_ids

    def ask(answer: Any) -> Any:
        return function(type(prediction)(predictions=answer, label_ids=labels, **others))

    return baselines(ask, prediction.predictions, labels)
