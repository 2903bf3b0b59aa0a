"""Attacks on the promises of SECURITY.md: `python -m tests.attacks` runs them all."""
