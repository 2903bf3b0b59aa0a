"""Edits with libcst: `apply` writes the fixes of a text, and keeps every other character as it is.

Who writes several fixes of one text, each by itself, reads its tree once (`read_tree`) and gives it to `apply_to`.
"""

from lintrain.fix.apply import FixError as FixError
from lintrain.fix.apply import apply as apply
from lintrain.fix.apply import apply_to as apply_to
from lintrain.fix.apply import changed_statement as changed_statement
from lintrain.fix.tree import Tree as Tree
from lintrain.fix.tree import read_tree as read_tree

__all__ = ["FixError", "Tree", "apply", "apply_to", "changed_statement", "read_tree"]
