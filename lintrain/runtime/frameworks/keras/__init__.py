"""Runs of Keras 3 on torch: intercepted at `Model.fit`, its own training step driven on a few batches."""
