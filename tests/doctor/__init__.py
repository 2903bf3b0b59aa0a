"""Runs that were really trained, with a mistake and without it, and what they left in the form of each framework."""
