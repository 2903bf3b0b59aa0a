"""Metric functions of scikit-learn: `metric(y_true, y_pred)`, and whether they judge classes or scores."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function
from lintrain.libraries.evaluate.metrics import note_metric_call
from lintrain.pipeline.values.python import LibraryObject, Sequence, Value
from lintrain.pipeline.values.training import Metric

OF_CLASSES = (
    "accuracy_score",
    "balanced_accuracy_score",
    "classification_report",
    "cohen_kappa_score",
    "confusion_matrix",
    "f1_score",
    "fbeta_score",
    "hamming_loss",
    "jaccard_score",
    "matthews_corrcoef",
    "multilabel_confusion_matrix",
    "precision_recall_fscore_support",
    "precision_score",
    "recall_score",
    "zero_one_loss",
)
"""Functions that raise on continuous `y_pred` (scikit-learn 1.9, `sklearn.metrics._classification._check_targets`)."""

OF_SCORES = (
    "average_precision_score",
    "brier_score_loss",
    "hinge_loss",
    "log_loss",
    "mean_absolute_error",
    "mean_squared_error",
    "ndcg_score",
    "precision_recall_curve",
    "r2_score",
    "roc_auc_score",
    "roc_curve",
    "root_mean_squared_error",
    "top_k_accuracy_score",
)
"""Functions that want scores or probabilities, one for each class or row."""

MOST_RESULTS = {"precision_recall_fscore_support": 4}
"""Functions that return a tuple, with its length."""


@function(*(f"sklearn.metrics.{name}" for name in (*OF_CLASSES, *OF_SCORES)))
def _metric_function(call: Call) -> Value:
    """Truth comes first, predictions second (`y_pred`, or `y_score` where scores are judged)."""
    name = call.path.rpartition(".")[2]
    metric = Metric("sklearn", name, None, call.path, name in OF_CLASSES)
    references = call.argument("y_true", 0)
    predictions = call.argument("y_pred") or call.argument("y_score") or call.argument("y_proba", 1)
    note_metric_call(call, metric, predictions, references)
    result = LibraryObject(call.path, origin=call.location)
    return Sequence([result] * MOST_RESULTS[name], "tuple") if name in MOST_RESULTS else result
