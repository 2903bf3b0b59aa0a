"""The labels are shuffled without their rows, or the rows without their labels.

Both are then read in their own order, so each row has the label of another one. Training runs without an error, and
the network learns at best how frequent each label is.

Keras shuffles the images of a directory by default, in each pass. `predict(images)` then gives its rows in another
order than `images.classes`, and a report of both shows an accuracy near chance.

The labels of another split are those of other rows, too. If both splits have equally many rows, nothing fails.

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

The labels of another split:

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_val, verbose=0)  # <- shuffled-labels
    # raises Data cardinality is ambiguous
    network.evaluate(x_val, y_val, verbose=0)
    network.evaluate(x_train, y_train, verbose=0)

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

from lintrain.analysis import pair_order, pass_order, sorted_apart
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location

LONGEST = 20
"""Characters of a name that a message shows."""

WHY_MIXED = (
    "Each row gets the label of another one: training learns at best how frequent each label is, and a score says "
    "nothing. An error is raised only if the two splits have different numbers of rows."
)
WHY_PREDICTIONS = (
    "Keras shuffles the images of a directory by default. Each prediction is compared with the label of another image, "
    "so a correct model scores near chance. No error is raised."
)


class ShuffledLabels(Rule):
    level = Level.ERROR
    keywords = "sorted|sort(|shuffle|permutation|predict|fit|evaluate|TensorDataset|from_tensor_slices"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        found = (pass_order.shuffled_predictions, pair_order.mixed_splits, sorted_apart.sorted_apart)
        return any(any(find(source)) for find in found)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report(found) for found in pair_order.parted(pipeline.source))
        yield from one_per_location(self._report_mixed(found) for found in pair_order.mixed_splits(pipeline.source))
        yield from one_per_location(map(self._report_sorted, sorted_apart.sorted_apart(pipeline.source)))
        found = pass_order.shuffled_predictions(pipeline.source)
        yield from one_per_location(map(self._report_predictions, found))

    def _report_sorted(self, found: sorted_apart.SortedApart) -> Finding:
        name, other = (each if len(each) <= LONGEST else "one part" for each in (found.name, found.other))
        return self.finding(
            found.location,
            f"`{name}` is sorted without `{other}`, so rows have the labels of others",
            related=[Related(found.returned, "returned as parts of the same rows", "training")],
            help="sort the rows before they are taken apart: `batch.sort(key=lambda row: len(row[0]))`",
        )

    def _report_mixed(self, found: pair_order.Mixed) -> Finding:
        inputs, labels = (each if len(each) <= LONGEST else "…" for each in (found.inputs, found.labels))
        return self.finding(
            found.location,
            f"`{labels}` are labels of other rows than `{inputs}`",
            why=WHY_MIXED,
            help=f"pass `{found.right}`",
        )

    def _report_predictions(self, found: pass_order.OutOfOrder) -> Finding:
        images = f"`{found.images}`" if len(found.images) <= LONGEST else "the images"
        if found.is_read_again:
            text = f"each pass over {images} has another order than this one"
            remedy = "pass `shuffle=False`, or predict in the same loop that collects the labels"
        else:
            text, remedy = (
                f"these labels are in the order of the files, but {images} is shuffled",
                "pass `shuffle=False`",
            )
        related = [Related(found.made, "made here", "origin")]
        return self.finding(found.location, text, related=related, why=WHY_PREDICTIONS, help=remedy)

    def _report(self, found: pair_order.Parted) -> Finding:
        name, other = (each if len(each) <= LONGEST else "one part" for each in (found.name, found.other))
        return self.finding(
            found.location,
            f"`{name}` is shuffled without `{other}`, so rows have the labels of others",
            related=[Related(found.trained, "read as pairs here", "training")],
            help="index both with one permutation, or leave the order to `fit` or the loader",
        )
