"""A network is made before a loop over folds, so each fold goes on with the weights of the one before.

The test rows of the second fold were training rows of the first. The score of each fold after the first is too good,
and their mean says nothing about new rows. Estimators of scikit-learn start again at each `fit`; networks do not. No
error is raised.

A Trainer that is made for each of several settings, with one model for all of them, is reported as a warning.

## Bad

    from sklearn.model_selection import KFold

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    scores = []
    for kept, held_out in KFold(2).split(x_train):
        network.fit(x_train[kept], y_train[kept], verbose=0)  # <- model-across-folds
        scores.append(network.evaluate(x_train[held_out], y_train[held_out], verbose=0))

## Good

    from sklearn.model_selection import KFold


    def build():
        network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
        network.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        return network


    scores = []
    for kept, held_out in KFold(2).split(x_train):
        network = build()
        network.fit(x_train[kept], y_train[kept], verbose=0)
        scores.append(network.evaluate(x_train[held_out], y_train[held_out], verbose=0))

## When it is fine

The weights are put back before each fold:

    from sklearn.model_selection import KFold

    network = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    first = network.get_weights()
    for kept, held_out in KFold(2).split(x_train):
        network.set_weights(first)
        network.fit(x_train[kept], y_train[kept], verbose=0)

## Fix

None: where the network is made may be a function, or several statements.

## References

scikit-learn documentation, "Cross-validation: evaluating estimator performance".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import fold_models
from lintrain.rule import Finding, Level, Pipeline, Related, Rule


class ModelAcrossFolds(Rule):
    level = Level.ERROR
    keywords = "KFold|ShuffleSplit|LeaveOne|LeaveP|Trainer(|fold & split|train("

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in fold_models.fold_models(pipeline):
            shown = f"`{found.name}`" if len(found.name) <= 20 else "what trains here"
            yield self.finding(
                found.location,
                f"{shown} is made before the folds, so it has trained on their test rows",
                related=[Related(found.made, "made here", "origin"), Related(found.loop, "the folds", "loop")],
                help="make the network and its optimizer inside of the loop",
            )
        for found in fold_models.swept_models(pipeline.source):
            yield self.finding(
                found.location,
                f"each run goes on with the weights that `{found.name}` has after the one before",
                related=[Related(found.made, "made here", "origin"), Related(found.loop, "the runs", "loop")],
                help="make the model inside of the loop, or pass `model_init`",
                level=Level.WARNING,
            )
