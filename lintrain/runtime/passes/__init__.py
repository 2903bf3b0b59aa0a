"""Passes over one script next to each other: what is equal in them and what is not."""
