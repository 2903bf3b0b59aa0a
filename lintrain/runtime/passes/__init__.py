"""Passes over one script beside one another: what is the same in them and what is not."""
