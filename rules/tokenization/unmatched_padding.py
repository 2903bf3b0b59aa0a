"""Held-out sequences are padded or cut at another end than those of the training.

`pad_sequences` pads and cuts at the start of a text by default. If `padding="post"` or
`truncating="post"` is passed for the training texts only, the network is tested on texts that are arranged in another
way: their words are at other positions, or the other half of a long text is left. The scores are too low, and no error
is raised.

## Bad

    sequences, test_sequences = [[1, 2, 3, 4, 5, 6, 7]] * 8, [[7, 8]] * 4
    padded = keras.utils.pad_sequences(sequences, maxlen=6, truncating="post")
    test_padded = keras.utils.pad_sequences(test_sequences, maxlen=6)  # <- unmatched-padding
    network = keras.Sequential([keras.layers.Embedding(50, 8), keras.layers.Flatten(), keras.layers.Dense(1)])
    network.compile(optimizer="adam", loss="mse")
    network.fit(padded, np.zeros(len(padded)), validation_data=(test_padded, np.zeros(len(test_padded))), verbose=0)

## Good

    sequences, test_sequences = [[1, 2, 3, 4, 5, 6, 7]] * 8, [[7, 8]] * 4
    padded = keras.utils.pad_sequences(sequences, maxlen=6, truncating="post")
    test_padded = keras.utils.pad_sequences(test_sequences, maxlen=6, truncating="post")
    network = keras.Sequential([keras.layers.Embedding(50, 8), keras.layers.Flatten(), keras.layers.Dense(1)])
    network.compile(optimizer="adam", loss="mse")
    network.fit(padded, np.zeros(len(padded)), validation_data=(test_padded, np.zeros(len(test_padded))), verbose=0)

## When it is fine

The inputs of an encoder and of a decoder may be padded at different ends:

    sequences = [[1, 2, 3, 4, 5, 6, 7]] * 8
    encoder_padded = keras.utils.pad_sequences(sequences, maxlen=6, padding="pre")
    decoder_padded = keras.utils.pad_sequences(sequences, maxlen=6, padding="post")

## Fix

None: which of the two ends is meant is not certain.

## References

Keras documentation, `keras.utils.pad_sequences`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import padded_labels
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class UnmatchedPadding(Rule):
    level = Level.WARNING
    keywords = "pad_sequences & post"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, padded_labels.padded_at_other_end(pipeline.source)))

    def _report(self, found: padded_labels.OtherEnd) -> Finding:
        here, there = ("start", "end") if found.end == "pre" else ("end", "start")
        verb = "padded" if found.setting == "padding" else "cut"
        names = (f"`{found.name}`", f"`{found.other}`") if len(found.name + found.other) <= 32 else ("this", "training")
        return self.finding(
            found.location,
            f"{names[0]} is {verb} at its {here}, but {names[1]} at its {there}",
            related=[Related(found.trained, f"{verb} at the {there}", "padded")],
            help=f'pass the same `{found.setting}`, which is "pre" by default',
        )
