"""Passes over one script next to each other: what is the same in them and what is not."""
