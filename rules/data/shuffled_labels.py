"""The labels are shuffled without their rows, or the rows without their labels.

Both are then read in their own order, so each row has the label of another one. Training runs without an error, and
the network learns at best how frequent each label is.

## Bad

    import numpy as np

    inputs, labels = x_train.copy(), y_train.copy()
    np.random.shuffle(labels)  # <- shuffled-labels
    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(inputs, labels, verbose=0)

In torch:

    inputs = torch.randn(96, 8).numpy()
    labels = torch.randint(0, 3, (96,)).numpy()
    inputs = np.random.permutation(inputs)  # <- shuffled-labels
    inputs = torch.from_numpy(inputs)
    labels = torch.from_numpy(labels)
    for x, y in DataLoader(TensorDataset(inputs, labels), batch_size=16):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    import numpy as np

    labels = y_train.copy()
    inputs = x_train
    order = np.random.permutation(len(labels))
    inputs, labels = inputs[order], labels[order]
    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(inputs, labels, verbose=0)

## When it is fine

Labels of a test that needs them out of order, and rows whose labels are made afterwards:

    import numpy as np

    permuted = y_train.copy()
    np.random.shuffle(permuted)
    inputs = x_train.copy()
    np.random.shuffle(inputs)
    labels = (inputs.sum(axis=1) > 0).astype(int)
    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(inputs, labels, verbose=0)
    network.fit(x_train, permuted, verbose=0)

## Fix

None: whether both need a new order is a choice; `fit` and `DataLoader` shuffle pairs by themselves.

## References

NumPy documentation, `numpy.random.Generator.permutation`; scikit-learn documentation, `sklearn.utils.shuffle`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import pair_order
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class ShuffledLabels(Rule):
    level = Level.ERROR
    keywords = "shuffle|permutation"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report(found) for found in pair_order.parted(pipeline.source))

    def _report(self, found: pair_order.Parted) -> Finding:
        name, other = (each if len(each) <= 20 else "one part" for each in (found.name, found.other))
        return self.finding(
            found.location,
            f"`{name}` is shuffled without `{other}`, so rows have the labels of others",
            related=[Related(found.trained, "read as pairs here", "training")],
            help="index both with one permutation, or leave the order to `fit` or the loader",
        )
