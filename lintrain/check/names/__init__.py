"""Undefined names, found by ruff, which runs on the same files at the same time."""
