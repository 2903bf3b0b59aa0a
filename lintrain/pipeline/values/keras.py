"""What Keras trains towards: labels by the form in which they are written."""

from __future__ import annotations

from lintrain.pipeline.values.python import Value
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class KerasLabels(Value):
    """Labels of classes: `is_one_hot` where each is a row of zeros with a one, else each is the number of its class."""

    is_one_hot: bool = False
    classes: int | None = None


@dataclass(eq=False, slots=True)
class LabelledBatches(Value):
    """Batches of inputs with such labels, as the loaders of folders give them."""

    is_one_hot: bool = False
