"""Notebooks made for tests."""

from __future__ import annotations

import json


def notebook(*cells: str, indent: int | None = 1, as_lists: bool = True, language: str = "python") -> str:
    """The text of a notebook; a cell that starts with `#md ` is a Markdown cell."""
    return json.dumps(
        {
            "cells": [_cell(cell, as_lists) for cell in cells],
            "metadata": {"kernelspec": {"name": "k", "display_name": "k", "language": language}},
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        indent=indent,
    )


def _cell(text: str, as_lists: bool) -> dict[str, object]:
    source: object = text.splitlines(keepends=True) if as_lists else text
    if text.startswith("#md "):
        return {"cell_type": "markdown", "metadata": {}, "source": source}
    outputs = [{"output_type": "stream", "name": "stdout", "text": ['"source": ["no"]', "cells"]}]
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {"source": "no"},
        "outputs": outputs,
        "source": source,
    }
