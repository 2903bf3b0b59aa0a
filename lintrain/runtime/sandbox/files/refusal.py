"""Errors that the kernel raised for lintrain, not for the user: what the script wrote past the guard."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator

from lintrain.runtime.sandbox.files import real

REFUSED = (errno.EACCES, errno.EPERM, errno.EXDEV, errno.EROFS)
WORDS = re.compile(
    r"permission denied|os error 13|errno 13|cannot be opened|can't be opened|unable to open|failed to open",
    re.IGNORECASE,
)
NAMELESS = re.compile(r"permission denied|os error 13|errno 13", re.IGNORECASE)
PATH = re.compile(r"""(?:/[^\s'"`:;,()<>]+)+|(?<=['"`])[^'"`\n]+(?=['"`])""")


def refused_path(error: BaseException, is_free: Callable[[str], bool]) -> str | None:
    """What the script wanted to write and the user may write, but a probe may not; None for any other error.

    A library that says "permission denied" and not to what may mean either: that is no error of the script for sure.
    """
    for link in _chain(error):
        text = str(link)
        # Libraries in Rust and C++ wrap the system's error in one of their own, with its text alone: the words are
        # all there is.
        if getattr(link, "errno", None) in REFUSED or WORDS.search(text):
            named = [getattr(link, name, None) for name in ("filename", "filename2")]
            for path in [*named, *PATH.findall(text)]:
                if isinstance(path, str) and _may_be_written(path) and not is_free(os.path.abspath(path)):
                    return f"`{path}`"
            if not isinstance(link, OSError) and NAMELESS.search(text) and not PATH.search(text):
                return "a file that the library does not name"
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    # Errors may be chained in a circle when a script raises one again that it caught before.
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _may_be_written(path: str) -> bool:
    """Whether the user has the right to write: if not, the refusal is not the probe's."""
    if real.exists(path):
        return real.access(path, os.W_OK | os.R_OK)
    above = os.path.dirname(os.path.abspath(path))
    return real.is_folder(above) and real.access(above, os.W_OK)
