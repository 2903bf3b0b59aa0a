"""Which Python runs the commands of lintrain in a test."""

from __future__ import annotations

import os
import sys

WARM_COMMANDS = "LINTRAIN_TESTS_COMMANDS"
"""Names the Python that runs the commands of lintrain, where it is not the one that runs the tests."""


def commands_python() -> str:
    """The Python for `-m lintrain`: one that has lintrain imported in a test with such a fixture."""
    return os.environ.get(WARM_COMMANDS, sys.executable)
