"""Addresses of documents and the files that they mean."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from lintrain.startup.lazy_pattern import lazy_pattern

DRIVE = lazy_pattern(r"^/[A-Za-z]:")

LONGEST_NAME = 60
"""Characters of a name that an address without a file gives: no file system takes names of any length."""

VIRTUAL = lazy_pattern(r"[/\\]\.virtual_documents(?=[/\\]|$)")
"""The folder that JupyterLab names in the address of each notebook, whose true place is the same without it."""


def file_of(uri: str) -> str | None:
    """The absolute path of a `file:` address; None where it is another kind (an untitled document).

    An address of another computer (`file://host/share`) means a file on Windows alone.
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
    """The address of a file."""
    return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100 - as above


def name_of(uri: str) -> str:
    """A file name for a document that lies nowhere."""
    return re.sub(r"\W+", "-", unquote(uri.partition(":")[2])).strip("-")[:LONGEST_NAME] or "untitled"
