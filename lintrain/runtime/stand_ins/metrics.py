"""`evaluate.load` without the hub: metrics with the same inputs and the same keys, simple where the original is not."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_row, library
from lintrain.runtime.stand_ins.ledger import Ledger, is_there

Values = dict[str, Any]


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Answer `evaluate.load`; a folder of a metric, or one in the cache, is read as it is."""
    hooks.add("evaluate.loading", functools.partial(_answer_loads, ledger))


def _answer_loads(ledger: Ledger, module: Any) -> None:
    load = module.load

    @functools.wraps(load)
    def stand_for(path: Any, config_name: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return load(path, config_name, *args, **kwargs)
        except Exception:
            if is_there(path):
                raise
        name = str(path).rpartition("/")[2]
        keys = ", ".join(_inputs(name, config_name))
        ledger.replace(StandInKind.METRIC, str(path), f"a metric of {keys}, computed in a simple way")
        return _metric(name, config_name, kwargs)

    module.load = stand_for


def _inputs(name: str, config: Any) -> Values:
    """The features of a metric, by the names of its inputs."""
    if name in TEXTS:
        return {"predictions": "string", "references": "string"}
    if name == "seqeval":
        return {"predictions": ["string"], "references": ["string"]}
    if name.startswith("squad"):
        return {"predictions": "answer", "references": "answers"}
    if name == "mean_iou":
        return {"predictions": [["uint16"]], "references": [["uint16"]]}
    is_number = name in NUMBERS or (name == "glue" and config == "stsb")
    return {"predictions": "float32" if is_number else "int32", "references": "float32" if is_number else "int32"}


TEXTS = ("rouge", "bleu", "sacrebleu", "meteor", "wer", "cer", "exact_match", "chrf", "bertscore", "ter", "google_bleu")
NUMBERS = ("mse", "mae", "pearsonr", "spearmanr", "r_squared", "mape", "smape", "roc_auc")


def _metric(name: str, config: Any, given: Values) -> Any:
    evaluate = library("evaluate")
    inputs = _inputs(name, config)
    compute = functools.partial(_computed, name, config)

    base: Any = evaluate.Metric

    class StandInMetric(base):  # type: ignore[misc] # the library has no types
        def _info(self) -> Any:
            return evaluate.MetricInfo(description="", citation="", features=_features(name, inputs, config))

        def _compute(self, predictions: Any = None, references: Any = None, **options: Any) -> Values:
            return compute(predictions, references, options)

    StandInMetric.__name__ = name  # the library names a metric by its class
    return StandInMetric(config_name=config, experiment_id=given.get("experiment_id") or "default_experiment")


def _features(name: str, inputs: Values, config: Any) -> Any:
    datasets = library("datasets")
    several = getattr(datasets, "List", None) or datasets.Sequence
    if name in ("bleu", "sacrebleu", "meteor", "chrf", "ter", "google_bleu"):
        one = datasets.Features({"predictions": datasets.Value("string"), "references": datasets.Value("string")})
        lists = datasets.Features(
            {"predictions": datasets.Value("string"), "references": several(datasets.Value("string"))}
        )
        return [lists, one]
    if config == "multilabel":
        return datasets.Features({each: several(datasets.Value("int32")) for each in inputs})
    return datasets.Features({each: _feature(datasets, several, kind) for each, kind in inputs.items()})


def _feature(datasets: Any, several: Any, kind: Any) -> Any:
    if isinstance(kind, list):
        return several(_feature(datasets, several, kind[0]))
    if kind in ("answer", "answers"):
        text = {"id": datasets.Value("string")}
        if kind == "answer":
            return {**text, "prediction_text": datasets.Value("string")}
        spans = {"text": several(datasets.Value("string")), "answer_start": several(datasets.Value("int32"))}
        return {**text, "answers": spans}
    return datasets.Value(kind)


def _computed(name: str, config: Any, predictions: Any, references: Any, options: Values) -> Values:
    if name == "glue":
        return _glue(config, predictions, references)
    compute = METRICS.get(name)
    return compute(predictions, references, options) if compute else {name: _share(predictions, references)}


def _glue(config: Any, predictions: Any, references: Any) -> Values:
    accuracy = {"accuracy": _share(predictions, references)}
    if config == "cola":
        return {"matthews_correlation": _correlation(predictions, references)}
    if config == "stsb":
        found = _correlation(predictions, references)
        return {"pearson": found, "spearmanr": found}
    if config in ("mrpc", "qqp"):
        return {**accuracy, "f1": _f1(predictions, references, {"average": "binary"})}
    return accuracy


def _share(predictions: Any, references: Any) -> float:
    pairs = [*zip(predictions, references, strict=False)]
    return sum(_same(one, other) for one, other in pairs) / max(1, len(pairs))


def _same(one: Any, other: Any) -> bool:
    found = one == other
    return bool(found.all()) if hasattr(found, "all") else bool(found)


def _counts(predictions: Any, references: Any, label: Any) -> tuple[int, int, int]:
    pairs = [*zip(predictions, references, strict=False)]
    hits = sum(one == label == other for one, other in pairs)
    return hits, sum(one == label for one, _ in pairs), sum(other == label for _, other in pairs)


def _rates(predictions: Any, references: Any, options: Values, rate: Callable[[int, int, int], float]) -> float:
    """A rate of one class, or the mean over classes; as scikit-learn does, two classes are asked for by default."""
    labels = sorted({*references, *predictions})
    average = options.get("average", "binary")
    if average == "binary":
        if len(labels) > 2:
            raise ValueError("Target is multiclass but average='binary'. Please choose another average setting")
        return rate(*_counts(predictions, references, options.get("pos_label", 1)))
    if average == "micro":
        return _share(predictions, references)
    rates = [rate(*_counts(predictions, references, label)) for label in labels]
    weights = [sum(each == label for each in references) if average == "weighted" else 1 for label in labels]
    return sum(one * weight for one, weight in zip(rates, weights, strict=True)) / max(1, sum(weights))


def _f1(predictions: Any, references: Any, options: Values) -> float:
    return _rates(predictions, references, options, lambda hit, found, real: 2 * hit / max(1, found + real))


def _correlation(predictions: Any, references: Any) -> float:
    if len(predictions) < 2:
        return math.nan
    return float(library("numpy").corrcoef(predictions, references)[0, 1])


def _words(predictions: Any, references: Any) -> float:
    """The mean share of common words."""
    found = [_common(str(one), _first(other)) for one, other in zip(predictions, references, strict=False)]
    return sum(found) / max(1, len(found))


def _first(reference: Any) -> str:
    return str(reference[0]) if is_row(reference) and reference else str(reference)


def _common(one: str, other: str) -> float:
    first, second = one.lower().split(), other.lower().split()
    return 2 * len({*first} & {*second}) / max(1, len({*first}) + len({*second}))


def _errors(predictions: Sequence[Any], references: Sequence[Any]) -> float:
    return 1.0 - _words(predictions, references)


def _difference(predictions: Any, references: Any) -> Any:
    numpy = library("numpy")
    return numpy.asarray(predictions, dtype=float) - numpy.asarray(references, dtype=float)


def _squad(predictions: Any, references: Any, _options: Values) -> Values:
    texts = [each["prediction_text"] for each in predictions]
    answers = [next(iter(each["answers"]["text"]), "") for each in references]
    exact, common = 100 * _share(texts, answers), 100 * _words(texts, answers)
    return {"exact_match": exact, "f1": common, "exact": exact, "total": len(texts), "HasAns_f1": common}


def _seqeval(predictions: Any, references: Any, _options: Values) -> Values:
    ones = [tag for row in predictions for tag in row]
    others = [tag for row in references for tag in row]
    share = _share(ones, others)
    names = ("overall_precision", "overall_recall", "overall_f1", "overall_accuracy")
    return {**dict.fromkeys(names, share)}


def _iou(predictions: Any, references: Any, options: Values) -> Values:
    numpy = library("numpy")
    count = int(options.get("num_labels", 2))
    hits, unions = numpy.zeros(count), numpy.zeros(count)
    for one, other in zip(predictions, references, strict=False):
        first, second = numpy.asarray(one), numpy.asarray(other)
        for label in range(count):
            hits[label] += ((first == label) & (second == label)).sum()
            unions[label] += ((first == label) | (second == label)).sum()
    rates = hits / numpy.maximum(unions, 1)
    means = {each: float(rates.mean()) for each in ("mean_iou", "mean_accuracy", "overall_accuracy")}
    return {**means, "per_category_iou": rates, "per_category_accuracy": rates}


def _rouge(predictions: Any, references: Any, _options: Values) -> Values:
    return dict.fromkeys(("rouge1", "rouge2", "rougeL", "rougeLsum"), _words(predictions, references))


def _bleu(predictions: Any, references: Any, _options: Values) -> Values:
    share = _words(predictions, references)
    rest = {"precisions": [share] * 4, "bp": 1.0, "brevity_penalty": 1.0, "sys_len": 1, "ref_len": 1}
    return {"score": 100 * share, "bleu": share, "counts": [0] * 4, "totals": [0] * 4, "length_ratio": 1.0, **rest}


def _bertscore(predictions: Any, references: Any, _options: Values) -> Values:
    found = [_common(str(one), _first(other)) for one, other in zip(predictions, references, strict=False)]
    return {"precision": found, "recall": found, "f1": found, "hashcode": ""}


METRICS: dict[str, Callable[[Any, Any, Values], Any]] = {
    "f1": lambda one, other, options: {"f1": _f1(one, other, options)},
    "precision": lambda one, other, options: {
        "precision": _rates(one, other, options, lambda hit, found, _: hit / max(1, found))
    },
    "recall": lambda one, other, options: {
        "recall": _rates(one, other, options, lambda hit, _, real: hit / max(1, real))
    },
    "matthews_correlation": lambda one, other, _: {"matthews_correlation": _correlation(one, other)},
    "pearsonr": lambda one, other, _: {"pearsonr": _correlation(one, other)},
    "spearmanr": lambda one, other, _: {"spearmanr": _correlation(one, other)},
    "roc_auc": lambda one, other, _: {"roc_auc": 0.5},
    "mse": lambda one, other, _: {"mse": float((_difference(one, other) ** 2).mean())},
    "mae": lambda one, other, _: {"mae": float(abs(_difference(one, other)).mean())},
    "r_squared": lambda one, other, _: _correlation(one, other) ** 2,
    "wer": lambda one, other, _: _errors(one, other),
    "cer": lambda one, other, _: _errors(one, other),
    "rouge": _rouge,
    "bleu": _bleu,
    "sacrebleu": _bleu,
    "google_bleu": lambda one, other, _: {"google_bleu": _words(one, other)},
    "meteor": lambda one, other, _: {"meteor": _words(one, other)},
    "chrf": lambda one, other, _: {"score": 100 * _words(one, other)},
    "bertscore": _bertscore,
    "squad": _squad,
    "squad_v2": _squad,
    "seqeval": _seqeval,
    "mean_iou": _iou,
}
"""By name; any other metric gives the share of equal values under its own name."""
