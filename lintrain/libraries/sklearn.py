"""What scikit-learn does to arrays: splits, scalers, and data sets that it makes up.

Metric functions of scikit-learn: `metric(y_true, y_pred)`, and whether they judge classes or scores.
"""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.registry import function, method
from lintrain.libraries.evaluate import note_metric_call
from lintrain.libraries.pandas.methods import part_of
from lintrain.libraries.torch.literals import data
from lintrain.pipeline.values.columns import DataFrame, Series
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.loading import Settings
from lintrain.pipeline.values.model import Tensor, one_tensor
from lintrain.pipeline.values.python import UNKNOWN, LibraryObject, Sequence, Value, is_true
from lintrain.pipeline.values.tensors import Shape
from lintrain.pipeline.values.training import KerasLabels, Metric
from lintrain.startup.lazy_dataclass import dataclass

SCALERS = ("StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler", "QuantileTransformer", "PowerTransformer")
"""Transformers that give every number another value, and leave them where they are."""

MADE_UP = {"make_regression": "float", "make_classification": "int", "make_moons": "int", "make_circles": "int"}
"""Functions that give rows of numbers and one target for each, by the kind of these."""


@dataclass(eq=False, slots=True)
class Scaling(LibraryObject):
    """A transformer that keeps the shape of what it is given."""


ARRAYS = (Tensor, DataFrame, Series, ColumnValues, KerasLabels)
"""Values that a split gives parts of."""


@function("sklearn.model_selection.train_test_split")
def _split(call: Call) -> Value:
    """Two parts of each array, its rows sampled at random."""
    escape(call)
    arrays = [argument.value for argument in call.positional]
    # Lists of file names and the like are split too, but nothing that rules ask about depends on those.
    if call.is_open or not any(isinstance(array, ARRAYS) for array in arrays):
        return LibraryObject(call.path, call.values(), origin=call.location)
    return Sequence([_some_rows(call, array) for array in arrays for _ in range(2)], origin=call.location)


def _some_rows(call: Call, array: Value) -> Value:
    if isinstance(array, KerasLabels):
        return array
    if not isinstance(array, Tensor):
        return part_of(call, array) or UNKNOWN
    if array.shape.is_open or not array.shape.sizes:
        return replace(array)
    # The first axis has an unknown number of rows now, the others keep their sizes.
    return replace(array, shape=Shape((None, *array.shape.sizes[1:]), False))


@function(*(f"sklearn.preprocessing.{name}" for name in SCALERS))
def _scaler(call: Call) -> Value:
    escape(call)
    return Scaling(call.path, call.values(), origin=call.location)


@method(Scaling, "fit_transform", "transform", "inverse_transform")
def _scale(call: Call) -> Value:
    given = one_tensor(call.value("X", 0))
    # A frame becomes a NumPy array of as many columns, and loses their names.
    if not isinstance(given, Tensor):
        escape(call)
        return data(call, Shape((None, given.count), False), "float") if isinstance(given, DataFrame) else UNKNOWN
    return replace(given, kind="float", text=call.text, origin=call.location)


@method(Scaling, "fit", "partial_fit", "set_output")
def _fit(call: Call) -> Value:
    escape(call)
    return call.receiver


@dataclass(eq=False, slots=True)
class Numbering(LibraryObject):
    """A transformer that numbers classes."""


@function("sklearn.preprocessing.LabelEncoder")
def _numbering(call: Call) -> Value:
    return Numbering(call.path, call.values(), origin=call.location)


@method(Numbering, "fit_transform", "transform")
def _number(call: Call) -> Value:
    """One whole number for each row."""
    escape(call)
    return data(call, Shape((None,), False), "int")


@method(Numbering, "fit")
def _fit_numbers(call: Call) -> Value:
    escape(call)
    return call.receiver


@dataclass(eq=False, slots=True)
class Unfolding(LibraryObject):
    """A transformer that gives a class a row of zeros with a one."""


@function("sklearn.preprocessing.OneHotEncoder", "sklearn.preprocessing.LabelBinarizer")
def _unfolding(call: Call) -> Value:
    return Unfolding(call.path, call.values(), origin=call.location)


@method(Unfolding, "fit_transform", "transform")
def _unfold(call: Call) -> Value:
    """One-hot rows; `LabelBinarizer` gives two classes one column, so nothing is known of its rows."""
    escape(call)
    is_one_hot = call.receiver.path.endswith("OneHotEncoder") if isinstance(call.receiver, Unfolding) else False
    return KerasLabels(True, origin=call.location) if is_one_hot else UNKNOWN


@method(Unfolding, "fit")
def _fit_unfolding(call: Call) -> Value:
    escape(call)
    return call.receiver


@function(*(f"sklearn.datasets.{name}" for name in MADE_UP))
def _make(call: Call) -> Value:
    """Rows and targets; several targets for each row, or more results, where the call asks for them."""
    if call.is_open or {"n_targets", "coef", "return_X_y", "shift"} & set(call.keywords) or len(call.positional) > 2:
        return LibraryObject(call.path, call.values(), origin=call.location)
    kind = MADE_UP[call.path.rpartition(".")[2]]
    rows, targets = data(call, Shape((None, None), False), "float"), data(call, Shape((None,), False), kind)
    return Sequence([rows, targets], "tuple", origin=call.location)


BUNDLED = {
    "load_iris": "int", "load_digits": "int", "load_wine": "int", "load_breast_cancer": "int", "load_diabetes": "float",
    "fetch_california_housing": "float", "fetch_covtype": "int", "load_linnerud": "float",
}  # fmt: skip
"""Data sets that come with scikit-learn, by the kind of their targets."""


@function(*(f"sklearn.datasets.{name}" for name in BUNDLED))
def _load(call: Call) -> Value:
    """`load_iris()`, which has its arrays as attributes; `load_iris(return_X_y=True)`."""
    # With `as_frame=True` the parts are frames of pandas, which have other attributes.
    if {"as_frame", "n_class"} & call.keywords.keys() or call.is_open or call.positional:
        return LibraryObject(call.path, call.values(), origin=call.location)
    kind = BUNDLED[call.path.rpartition(".")[2]]
    rows, targets = data(call, Shape((None, None), False), "float"), data(call, Shape((None,), False), kind)
    if is_true(call.value("return_X_y")):
        return Sequence([rows, targets], "tuple", origin=call.location)
    return Settings({"data": rows, "target": targets}, False, origin=call.location)


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
