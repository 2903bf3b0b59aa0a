"""Probabilities are converted to integers, which makes zeros of nearly all of them.

`predict` of a network that ends with a sigmoid or softmax gives numbers from 0 to 1, and `astype(int)` drops what is
after the point. No row is ever assigned to a class, and every score of these predictions is that of a network that
always says no.

## Bad

    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
    network.compile(optimizer="adam", loss="binary_crossentropy")
    network.fit(x_train, (y_train > 0).astype("float32"), verbose=0)
    predicted = network.predict(x_train).astype(int)  # <- truncated-probabilities

## Good

    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
    network.compile(optimizer="adam", loss="binary_crossentropy")
    network.fit(x_train, (y_train > 0).astype("float32"), verbose=0)
    predicted = (network.predict(x_train) > 0.5).astype(int)

## When it is fine

Numbers that were rounded, scaled or compared before:

    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
    network.compile(optimizer="adam", loss="binary_crossentropy")
    network.fit(x_train, (y_train > 0).astype("float32"), verbose=0)
    rounded = np.round(network.predict(x_train)).astype(int)
    pixels = (network.predict(x_train) * 255).astype("uint8")

## Fix

None: for several classes `argmax(axis=1)` gives the class, and for one or several labels a threshold does.

## References

NumPy documentation, `numpy.ndarray.astype`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.rule import Finding, Level, Pipeline, Rule, one_per_location


class TruncatedProbabilities(Rule):
    level = Level.ERROR
    keywords = "predict( & astype("

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                misuse.location,
                f"`{misuse.text}` holds probabilities, and whole numbers of them are 0"
                if len(misuse.text) <= 24
                else "these are probabilities, and whole numbers of them are 0",
                help="compare them with a threshold first, or take `argmax(axis=1)`",
            )
            for misuse in pipeline.misuses
            if misuse.use == "probabilities as integers"
        )
