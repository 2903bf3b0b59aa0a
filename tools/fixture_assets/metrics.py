"""Metric scripts for `evaluate.load`, over scikit-learn."""

from __future__ import annotations

SCRIPT = '''"""{title}, as `evaluate.load` reads it."""

import datasets
import evaluate
from sklearn import metrics


class {kind}(evaluate.Metric):
    """{title} of predicted classes."""

    def _info(self):
        columns = {{"predictions": datasets.Value("int32"), "references": datasets.Value("int32")}}
        return evaluate.MetricInfo(description="{title}", citation="", features=datasets.Features(columns))

    def _compute(self, predictions, references, {arguments}):
        return {result}
'''

AVERAGED = 'labels=None, pos_label=1, average="binary"'


def metric_scripts() -> dict[str, str]:
    """The source of each metric by its name."""
    averaged = {name: _averaged(name) for name in ("f1", "precision", "recall")}
    return {"accuracy": _accuracy("accuracy"), "glue": _accuracy("glue"), **averaged}


def _accuracy(name: str) -> str:
    result = '{"accuracy": float(metrics.accuracy_score(references, predictions, normalize=normalize))}'
    return SCRIPT.format(title=name, kind=name.capitalize(), arguments="normalize=True", result=result)


def _averaged(name: str) -> str:
    score = f"metrics.{name}_score(references, predictions, labels=labels, pos_label=pos_label, average=average)"
    return SCRIPT.format(title=name, kind=name.capitalize(), arguments=AVERAGED, result=f'{{"{name}": {score}}}')
