"""Pairs of sentences."""

from .data import load_pairs
from .scores import compute_metrics

__all__ = ["compute_metrics", "load_pairs"]
