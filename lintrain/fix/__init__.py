"""Edits with libcst: `apply` writes the fixes of a text, and keeps every other character as it is."""

from lintrain.fix.apply import FixError as FixError
from lintrain.fix.apply import apply as apply

__all__ = ["FixError", "apply"]
