"""Edits with libcst: `apply` applies fixes to a text and leaves every other character unchanged.

To apply several fixes of one text separately, parse it once (`read_tree`) and pass the tree to `apply_to`.
"""

from lintrain.fix.apply import FixError as FixError
from lintrain.fix.apply import apply as apply
from lintrain.fix.apply import apply_to as apply_to
from lintrain.fix.apply import changed_statement as changed_statement
from lintrain.fix.tree import Tree as Tree
from lintrain.fix.tree import read_tree as read_tree

__all__ = ["FixError", "Tree", "apply", "apply_to", "changed_statement", "read_tree"]
