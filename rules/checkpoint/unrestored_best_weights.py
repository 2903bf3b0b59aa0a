"""A training knows its best epoch, and the weights of a later one are evaluated or saved.

`EarlyStopping` of Keras ends a training `patience` epochs after the best one. Without `restore_best_weights=True` the
network keeps the weights of the last epoch, which did worse on the validation data. If the epochs run out before that,
the last one may be the best, but nothing ensures it. Lightning's `trainer.test(model)` also uses the weights that the
model has, though `ModelCheckpoint` has kept the best ones.

## Bad

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=5)  # <- unrestored-best-weights
    network.fit(x_train, y_train, validation_data=(x_val, y_val), epochs=3, callbacks=[stop], verbose=0)
    print(network.evaluate(x_val, y_val, verbose=0))

## Good

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=5, restore_best_weights=True)
    network.fit(x_train, y_train, validation_data=(x_val, y_val), epochs=3, callbacks=[stop], verbose=0)
    print(network.evaluate(x_val, y_val, verbose=0))

## When it is fine

A training that nothing uses afterwards, and one that watches its own loss, whose last value is near the best:

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    stop = keras.callbacks.EarlyStopping(monitor="loss", patience=5)
    network.fit(x_train, y_train, epochs=3, callbacks=[stop], verbose=0)
    print(network.evaluate(x_val, y_val, verbose=0))

## Fix

None: evaluating the last weights may be meant, and a checkpoint may be loaded elsewhere.

## References

Keras documentation, `EarlyStopping`; Lightning documentation, `Trainer.test`: `ckpt_path`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import callback_weights
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class UnrestoredBestWeights(Rule):
    level = Level.WARNING
    keywords = "EarlyStopping|ModelCheckpoint"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        source = pipeline.source
        yield from one_per_location(map(self._of_keras, callback_weights.stopped_late(source)))
        yield from one_per_location(map(self._of_lightning, callback_weights.tested_late(source)))

    def _of_keras(self, found: callback_weights.LastWeights) -> Finding:
        return self.finding(
            found.callback,
            f"`{found.way}` uses the weights of the last epoch, which may not be the best one",
            related=[Related(found.used, "used here", "use")],
            help="pass `restore_best_weights=True`",
        )

    def _of_lightning(self, found: callback_weights.LastWeights) -> Finding:
        return self.finding(
            found.used,
            "this tests the weights of the last epoch, not those of the best checkpoint",
            related=[Related(found.callback, "the best ones are kept here", "callback")],
            help='pass `ckpt_path="best"`',
        )
