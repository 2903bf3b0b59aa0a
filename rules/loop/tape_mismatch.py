"""The gradients of a `tf.GradientTape` are none, are never applied, or are applied to other weights.

A tape only knows what runs inside of its `with` block: a network that runs before it has gradients of None. Gradients
change nothing until an optimizer gets them with the weights that they belong to. TensorFlow raises an error for
gradients of None; the other two train nothing, or the wrong network.

## Bad

    import tensorflow as tf

    network = keras.Sequential([keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    for x, y in batches:
        predicted = network(x, training=True)  # <- tape-mismatch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((predicted - y) ** 2)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))

Gradients of the generator for the weights of the critic:

    import tensorflow as tf

    generator, critic = (keras.Sequential([keras.layers.Dense(1)]) for _ in range(2))
    optimizer = keras.optimizers.SGD(0.1)
    for noise in batches:
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(critic(generator(noise)))
        gradients = tape.gradient(loss, generator.trainable_variables)
        optimizer.apply_gradients(zip(gradients, critic.trainable_variables))  # <- tape-mismatch

## Good

    import tensorflow as tf

    network = keras.Sequential([keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    for x, y in batches:
        with tf.GradientTape() as tape:
            predicted = network(x, training=True)
            loss = tf.reduce_mean((predicted - y) ** 2)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))

and

    import tensorflow as tf

    generator, critic = (keras.Sequential([keras.layers.Dense(1)]) for _ in range(2))
    optimizer = keras.optimizers.SGD(0.1)
    for noise in batches:
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(critic(generator(noise)))
        gradients = tape.gradient(loss, generator.trainable_variables)
        optimizer.apply_gradients(zip(gradients, generator.trainable_variables))

## When it is fine

Features of a frozen network may be computed before the tape:

    import tensorflow as tf

    encoder, head = (keras.Sequential([keras.layers.Dense(4)]) for _ in range(2))
    optimizer = keras.optimizers.SGD(0.1)
    for x, y in batches:
        features = encoder(x)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((head(features) - y) ** 2)
        gradients = tape.gradient(loss, head.trainable_variables)
        optimizer.apply_gradients(zip(gradients, head.trainable_variables))

## Fix

None: which statements belong into the block is not certain.

## References

TensorFlow documentation, "Introduction to gradients and automatic differentiation", "Getting a gradient of None".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import gradient_tapes
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class TapeMismatch(Rule):
    level = Level.ERROR
    keywords = "GradientTape"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(gradient_tapes.tape_mistakes(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, gradient_tapes.tape_mistakes(pipeline.source)))

    def _report(self, found: gradient_tapes.TapeMistake) -> Finding:
        related = [Related(found.other, found.about, "other")] if found.about else []
        return self.finding(found.location, found.problem, related=related, help=found.remedy)
