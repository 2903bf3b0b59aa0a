"""`python -m lintrain`."""

import os
import sys


def leave_working_folder_out() -> None:
    """Remove the current folder, which `python -m` adds, from the path: its modules are checked, not imported."""
    try:
        here = os.getcwd()  # noqa: PTH109 - `pathlib` would be searched in that folder
    except OSError:
        return  # it was deleted, so Python added none
    if sys.path[:1] == [here] and not sys.flags.safe_path:
        del sys.path[0]


if __name__ == "__main__":
    leave_working_folder_out()
    from lintrain.cli import main

    main()
