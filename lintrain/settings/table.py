"""Validation of a project's settings; pydantic is imported only if there are any."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from lintrain.settings.settings import MOST_JOBS, Format, UsageError, checked_address, checked_version


def _dashed(name: str) -> str:
    return name.replace("_", "-")


MOST_ENTRIES = 1_000
"""The most entries of a list or table: each pattern is matched with every file, each name with every rule."""

Names = Annotated[list[str], Field(max_length=MOST_ENTRIES)]


class Table(BaseModel):
    """The keys of `[tool.lintrain]`; None for a missing key."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=_dashed)

    select: Names | None = None
    extend_select: Names | None = None
    ignore: Names | None = None
    per_file_ignores: Annotated[dict[str, Names], Field(max_length=MOST_ENTRIES)] | None = None
    exclude: Names | None = None
    extend_exclude: Names | None = None
    respect_gitignore: bool | None = None
    force_exclude: bool | None = None
    output_format: Format | None = None
    preview: bool | None = None
    strict: bool | None = None
    jobs: Annotated[int, Field(ge=1, le=MOST_JOBS)] | None = None
    baseline: str | None = None
    documentation: Annotated[str, AfterValidator(checked_address)] | None = None
    levels: Annotated[dict[str, Literal["error", "warning", "note"]], Field(max_length=MOST_ENTRIES)] | None = None
    target_versions: dict[str, Annotated[str, AfterValidator(checked_version)]] | None = Field(default=None)


MOST_PROBLEMS = 20
"""The most errors that are shown at once."""

KEYS = tuple(_dashed(name) for name in Table.model_fields)


def read_table(written: Mapping[str, object], named: str) -> dict[str, object]:
    """The settings in a table, by field; raises UsageError, whose text starts with the table's name."""
    try:
        table = Table.model_validate(written)
    except ValidationError as error:
        found = error.errors(include_url=False)
        problems = [f"{named}: {_describe(problem)}" for problem in found[:MOST_PROBLEMS]]
        problems += [f"{named}: {left} more errors"] if (left := len(found) - MOST_PROBLEMS) > 0 else []
        raise UsageError("\n".join(problems)) from error
    return table.model_dump(exclude_none=True)


def _describe(problem: ErrorDetails) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        near = get_close_matches(key, KEYS, n=1, cutoff=0.5)
        return f"unknown key `{key}` " + (f"(did you mean `{near[0]}`?)" if near else f"(keys are {', '.join(KEYS)})")
    if problem["type"] == "too_long":
        return f"`{key}`: {len(problem['input'])} entries, at most {MOST_ENTRIES} are allowed"
    reason = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    reason = reason.replace("should be a valid", "must be a").replace("should be", "must be")
    value = "" if problem["type"] == "value_error" else f", not {_as_toml(problem['input'])}"
    return f"`{key}`: {reason}{value}"


def _as_toml(value: object) -> str:
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
        case _:
            return f"`{value}`"
