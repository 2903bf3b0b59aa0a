"""Where the code of lintrain is."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def folder_of_rules() -> str:
    """The folder of the rules: inside the package if installed, next to it in a checkout."""
    installed = os.path.join(PACKAGE, "rules")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(PACKAGE), "rules")
