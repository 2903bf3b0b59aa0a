"""Settings files of a script: JSON and plain YAML, read within bounds."""

from __future__ import annotations

import json
from pathlib import Path

from lintrain.cache.noted import note
from lintrain.knowledge.plain_yaml import read_yaml
from lintrain.knowledge.yaml_values import UNREAD, NotPlainError
from lintrain.source.plain_files import read_plain_text

LARGEST = 256 * 1024
"""Bytes: what is larger is data."""


def read_json_settings(path: Path) -> object:
    """What a JSON file holds; UNREAD where it is missing, too large or no JSON."""
    text = _text(path)
    try:
        return UNREAD if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return UNREAD


def read_yaml_settings(path: Path, *, numbers_without_point: bool = False) -> object:
    """What a YAML file holds; UNREAD where it is missing, too large, or holds more than plain settings."""
    text = _text(path)
    try:
        return UNREAD if text is None else read_yaml(text, numbers_without_point=numbers_without_point)
    except (NotPlainError, ValueError, RecursionError):
        return UNREAD


def _text(path: Path) -> str | None:
    note(path)
    try:
        return read_plain_text(path, LARGEST)
    except (OSError, ValueError):
        return None
