"""`python -m lintrain`."""

import os
import sys


def leave_working_folder_out() -> None:
    """Take the folder that `python -m` puts first off the path: what lies there is to be read, and not to be run."""
    try:
        here = os.getcwd()  # noqa: PTH109 - `pathlib` would be looked for in that folder
    except OSError:
        return  # it is gone, and Python has put none
    if sys.path[:1] == [here] and not sys.flags.safe_path:
        del sys.path[0]


if __name__ == "__main__":
    leave_working_folder_out()
    from lintrain.cli import main

    main()
