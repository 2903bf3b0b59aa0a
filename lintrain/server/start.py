"""The server on standard input and output."""

from __future__ import annotations

import gc
import logging
import sys

from lintrain.server.features import make_server


def serve(*, verbose: bool) -> None:
    """Serve one client until it leaves."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO if verbose else logging.CRITICAL, format="%(name)s: %(message)s"
    )
    talk = sys.stdout.buffer
    sys.stdout = sys.stderr  # what anything prints must not get between the messages
    server = make_server()
    # A collection in the middle of a check costs a fifth of it: the worker collects when nobody waits.
    gc.freeze()
    gc.set_threshold(1_000_000, 20, 100)
    server.start_io(sys.stdin.buffer, talk)
