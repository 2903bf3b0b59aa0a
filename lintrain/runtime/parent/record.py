"""The record of a probe: the evidence of every run, how the script ended, and the findings of its text."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, cast

from lintrain.evidence.run import Evidence
from lintrain.evidence.stages import Ending
from lintrain.model.finding import Finding
from lintrain.source.reading import read_plain
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.validators import validator_of
from lintrain.text import plain as plain

LARGEST_EVIDENCE = 256 * 2**20

SCHEMA = 3
"""Incremented when a field of the evidence changes its meaning or is removed."""


@dataclass(frozen=True, slots=True)
class Record:
    """One probe of one script, as `--evidence` writes it."""

    schema: int
    lintrain: str
    script: str
    script_sha256: str
    python: str
    ending: Ending
    runs: tuple[Evidence, ...] = ()
    findings: tuple[Finding, ...] = ()
    arguments: tuple[str, ...] = ()


class EvidenceFileError(Exception):
    """A file that holds no evidence which this lintrain can read; the text names the file and what to do."""


def write_record(record: Record, path: Path) -> None:
    """Write a record as JSON; NaN and infinities as strings."""
    path.write_bytes(record_json(record))


def record_json(record: Record) -> bytes:
    """A record as indented JSON; NaN and infinities as the strings "NaN", "Infinity" and "-Infinity"."""
    text = json.dumps(plain(dataclasses.asdict(record)), indent=2, ensure_ascii=False)
    return text.encode(errors="replace")  # half a character, which a row may hold, has no UTF-8


def read_record(path: Path) -> Record:
    """Read a record; raises EvidenceFileError for anything else."""
    try:
        text = read_plain(path, LARGEST_EVIDENCE).decode("utf-8")
        found: Any = json.loads(text)  # Any: whatever JSON holds
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceFileError(f"{path}: cannot be read as evidence ({error})") from error
    schema = cast("dict[str, object]", found).get("schema") if isinstance(found, dict) else None
    # Before the fields: an older record would fail on its first missing field, with a message that
    # does not say what to do.
    if schema != SCHEMA:
        raise EvidenceFileError(_wrong_schema(path, schema))
    return _validated(path, text)


def _wrong_schema(path: Path, schema: object) -> str:
    if isinstance(schema, int):
        which = "a newer" if schema > SCHEMA else "an older"
        problem = f"evidence schema {schema} comes from {which} lintrain; this one reads {SCHEMA}"
        return f"{path}: {problem}; probe the script again"
    return f"{path}: has no `schema` number; `lintrain probe SCRIPT --evidence FILE` writes evidence"


def _validated(path: Path, text: str) -> Record:
    from pydantic import ValidationError

    try:
        return validator_of(Record).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise EvidenceFileError(f"{path}: `{where}`: {first['msg'].lower()}") from error
