"""The settings files of a script: JSON, TOML and YAML with limited size, and where their keys are written."""

from __future__ import annotations

import json
from pathlib import Path

from lintrain.cache.noted import note
from lintrain.configurations.document import UNREAD as UNREAD
from lintrain.configurations.document import NotReadError, Section, plain, read_document
from lintrain.source.reading import read_plain_text

LARGEST = 256 * 1024
"""Bytes: larger files are data."""


def read_yaml(text: str, *, numbers_without_point: bool = False) -> object:
    """The content of a text, with UNREAD for a value of an unsupported form; raises NotReadError.

    OmegaConf reads `1e-4` as a number: `numbers_without_point`.
    """
    return plain(read_document("", text, numbers_without_point=numbers_without_point))


def read_json_settings(path: Path) -> object:
    """The content of a JSON file; UNREAD if it is missing, too large or not JSON."""
    text = _text(path)
    try:
        return UNREAD if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return UNREAD


def read_toml_settings(path: Path) -> object:
    """The content of a TOML file; UNREAD if it is missing, too large or not TOML."""
    import tomllib

    text = _text(path)
    try:
        return UNREAD if text is None else tomllib.loads(text)
    except (ValueError, RecursionError):
        return UNREAD


def read_yaml_settings(path: Path, *, numbers_without_point: bool = False) -> object:
    """The content of a YAML file; UNREAD if it is missing, too large, or not settings."""
    text = _text(path)
    try:
        return UNREAD if text is None else read_yaml(text, numbers_without_point=numbers_without_point)
    except (NotReadError, ValueError, RecursionError):
        return UNREAD


def key_section(path: str, text: str) -> Section | None:
    """The keys of a settings file with their locations; None if the file is no section of keys."""
    try:
        document = read_document(path, text)
    except NotReadError:
        return None
    return document if isinstance(document, Section) else None


def _text(path: Path) -> str | None:
    note(path)
    try:
        return read_plain_text(path, LARGEST)
    except (OSError, ValueError):
        return None
