"""Runs of Keras on TensorFlow, Keras 3 and the Keras of before: their own training step, eagerly, on a few batches."""
