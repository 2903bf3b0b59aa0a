"""Where the code of lintrain is."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

RULES_OF_CHECKOUT = os.path.join(os.path.dirname(PACKAGE), "rules")
"""Where a checkout has the rules; what runs beside a script compares paths with it and asks no file system, since the
script or a stand-in may have replaced the functions for that."""


def folder_of_rules() -> str:
    """The folder of the rules: inside the package if installed, next to it in a checkout."""
    installed = os.path.join(PACKAGE, "rules")
    return installed if os.path.isdir(installed) else RULES_OF_CHECKOUT
