"""Keras: data, layers, training."""
