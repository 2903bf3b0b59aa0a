"""A `fit` on TensorFlow under measurement: what Keras 3 and the Keras of before have in places of their own."""

from __future__ import annotations

from typing import Any

from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.keras.keras_run import UNKNOWN_LENGTH, KerasRun


class TensorFlowRun(KerasRun):
    """A model of Keras 3; `waiting` is what its first training step wanted gradients of."""

    @property
    def model(self) -> Any:
        """The model of Keras itself."""
        return self.keras

    @property
    def scale(self) -> float:
        """The loss scale of the optimizer in mixed precision."""
        optimizer = self.keras.optimizer
        found = getattr(optimizer, "dynamic_scale", None) or getattr(optimizer, "loss_scale", None)
        return float(found or 1.0)

    def new_iterator(self) -> Any:
        """The iterator over an epoch, as `fit` makes it."""
        names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "shuffle", "class_weight")
        return library("keras.src.backend.tensorflow.trainer").TFEpochIterator(
            distribute_strategy=self.keras.distribute_strategy,
            steps_per_execution=1,
            **{name: self.given[name] for name in names},
        )

    def dataset(self) -> Any:
        """The `tf.data.Dataset` of batches behind the iterator."""
        return self.iterator._get_iterator()


class OlderRun(TensorFlowRun):
    """A model of `tf_keras`, as the TensorFlow models of transformers 4 are."""

    @property
    def package(self) -> str:
        """The package of the model."""
        return "tf_keras"

    @property
    def adapters(self) -> Any:
        """The module of the library that reads what `fit` is given."""
        return library("tf_keras.src.engine.data_adapter")

    @property
    def slicing(self) -> Any:
        """The module of the library that splits validation rows from arrays."""
        return self.adapters

    @property
    def planned_steps(self) -> int:
        """Steps of all epochs; `UNKNOWN_LENGTH` for an epoch whose length is not known."""
        length: int | None = getattr(self.iterator, "inferred_steps", None)
        epochs: int = self.given["epochs"]
        return max(1, int(length or UNKNOWN_LENGTH) * epochs)

    @property
    def collator(self) -> Any:
        """The data adapter of Keras."""
        return getattr(self.iterator, "_adapter", None)

    def parts(self, batch: Any) -> tuple[Any, Any, Any]:
        """Inputs, targets and sample weights of a batch."""
        x, y, weights = self.adapters.unpack_x_y_sample_weight(batch)
        return x, y, weights

    def new_iterator(self) -> Any:
        """The handler of the data, as `fit` makes it."""
        names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "shuffle", "class_weight")
        return self.adapters.get_data_handler(
            **{name: self.given[name] for name in names},
            epochs=1,
            model=self.keras,
            steps_per_execution=library("tensorflow").constant(1),
        )

    def dataset(self) -> Any:
        """The `tf.data.Dataset` of batches behind the handler."""
        return self.iterator._dataset
