"""Mistakes planted in public training code, and how many of them are reported."""
