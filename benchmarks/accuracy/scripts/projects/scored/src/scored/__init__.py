"""Opinions with a score."""
