"""How lintrain ends a probed process."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

END = os._exit
"""The original: the script's own call of it is watched."""


def end_process() -> NoReturn:
    """End at once: no `finally:` and no exit handler of the script runs.

    It must not save a checkpoint of two steps over a real one, or report success.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # a stream that the script closed or replaced
            stream.flush()
    END(0)
