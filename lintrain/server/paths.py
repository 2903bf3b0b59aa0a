"""URIs of documents and their files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from lintrain.startup.lazy_pattern import lazy_pattern

DRIVE = lazy_pattern(r"^/[A-Za-z]:")

LONGEST_NAME = 60
"""The longest file name made from the URI of a document without a file."""

VIRTUAL = lazy_pattern(r"[/\\]\.virtual_documents(?=[/\\]|$)")
"""A folder that JupyterLab adds to the URI of each notebook."""


def file_of(uri: str) -> str | None:
    """The absolute path of a `file:` URI; None for other URIs (an untitled document).

    A URI with a host (`file://host/share`) is a file on Windows only.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file":
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if DRIVE.match(path):
        path = path[1:]
    if parts.netloc and parts.netloc.lower() != "localhost":
        if os.name != "nt":
            return None
        path = f"//{parts.netloc}{path}"
    path = VIRTUAL.sub("", path)
    return os.path.abspath(path) if path and "\0" not in path else None  # noqa: PTH100 - `resolve` would follow links


def uri_of(path: str) -> str:
    """The URI of a file."""
    return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100 - as above


def name_of(uri: str) -> str:
    """A file name for a document without a file."""
    return re.sub(r"\W+", "-", unquote(uri.partition(":")[2])).strip("-")[:LONGEST_NAME] or "untitled"
