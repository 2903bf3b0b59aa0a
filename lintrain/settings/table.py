"""The keys of `[tool.lintrain]`: what each may hold, its validation, and its JSON schema.

No package validates them: pydantic takes half as long to import as a script to check, and the zipapp has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from lintrain.settings.settings import FORMATS, LEVELS, MOST_JOBS, UsageError, checked_address, checked_version
from lintrain.startup.lazy_dataclass import dataclass

MOST_ENTRIES = 1_000
"""The most entries of a list or table: each pattern is matched with every file, each name with every rule."""

MOST_PROBLEMS = 20
"""The most errors that are shown at once."""

Problems = Iterator[str]
Schema = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Flag:
    """`true` or `false`."""

    def problems(self, key: str, value: object) -> Problems:
        """Why a value is refused; nothing if it is not."""
        if not isinstance(value, bool):
            yield f"`{key}`: must be a boolean, not {_as_toml(value)}"

    def schema(self) -> Schema:
        """The JSON schema of the values."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number between two bounds."""

    least: int
    most: int | None = None

    def problems(self, key: str, value: object) -> Problems:
        """As in Flag."""
        if isinstance(value, bool) or not isinstance(value, int):
            yield f"`{key}`: must be an integer, not {_as_toml(value)}"
        elif value < self.least:
            yield f"`{key}`: must be greater than or equal to {self.least}, not `{value}`"
        elif self.most is not None and value > self.most:
            yield f"`{key}`: must be less than or equal to {self.most}, not `{value}`"

    def schema(self) -> Schema:
        """As in Flag."""
        most = {} if self.most is None else {"maximum": self.most}
        return {"type": "integer", "minimum": self.least, **most}


@dataclass(frozen=True, slots=True)
class Number:
    """A number above zero."""

    def problems(self, key: str, value: object) -> Problems:
        """As in Flag."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            yield f"`{key}`: must be a number above 0, not {_as_toml(value)}"

    def schema(self) -> Schema:
        """As in Flag."""
        return {"type": "number", "exclusiveMinimum": 0}


@dataclass(frozen=True, slots=True)
class Text:
    """A string; `check` raises ValueError for one that is not accepted."""

    check: Callable[[str], object] | None = None

    def problems(self, key: str, value: object) -> Problems:
        """As in Flag."""
        if not isinstance(value, str):
            yield f"`{key}`: must be a string, not {_as_toml(value)}"
        elif self.check is not None:
            try:
                self.check(value)
            except ValueError as error:
                yield f"`{key}`: {error}"

    def schema(self) -> Schema:
        """As in Flag."""
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several strings."""

    values: tuple[str, ...]

    def problems(self, key: str, value: object) -> Problems:
        """As in Flag."""
        if value not in self.values:
            *first, last = map(repr, self.values)
            yield f"`{key}`: must be {', '.join(first)} or {last}, not {_as_toml(value)}"

    def schema(self) -> Schema:
        """As in Flag."""
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class Names:
    """A list of strings."""

    def problems(self, key: str, value: object) -> Problems:
        """As in Flag."""
        if not isinstance(value, list):
            yield f"`{key}`: must be a list, not {_as_toml(value)}"
            return
        entries = cast(list[object], value)
        if len(entries) > MOST_ENTRIES:
            yield _too_many(key, len(entries))
            return
        for number, entry in enumerate(entries):
            yield from Text().problems(f"{key}.{number}", entry)

    def schema(self) -> Schema:
        """As in Flag."""
        return {"type": "array", "items": {"type": "string"}, "maxItems": MOST_ENTRIES}


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose keys are free, with values of one kind."""

    values: Choice | Names | Text

    def problems(self, key: str, value: object) -> Problems:
        """As in Flag."""
        if not isinstance(value, dict):
            yield f"`{key}`: must be a table, not {_as_toml(value)}"
            return
        entries = cast(dict[str, object], value)
        if len(entries) > MOST_ENTRIES:
            yield _too_many(key, len(entries))
            return
        for name, entry in entries.items():
            yield from self.values.problems(f"{key}.{name}", entry)

    def schema(self) -> Schema:
        """As in Flag."""
        return {"type": "object", "additionalProperties": self.values.schema(), "maxProperties": MOST_ENTRIES}


Kind = Flag | Count | Number | Text | Choice | Names | Table


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what it may hold, its value if it is missing, what it does, and an example in TOML.

    A key that is not `for_files` counts for the whole run: that of the configuration at or above all checked paths.
    """

    name: str
    kind: Kind
    missing: str
    does: str
    example: str
    for_files: bool = True


NAMES = Names()
KEYS = (
    Key(
        "extend", Text(), "none", "A configuration whose settings apply where this one says nothing.", '"../base.toml"'
    ),
    Key("select", NAMES, '`["ALL"]`', "The rules to run: names, stages or `ALL`.", '["data", "raw-dataset"]'),
    Key("extend-select", NAMES, "none", "Rules to run in addition to the selected ones.", '["loop"]'),
    Key("ignore", NAMES, "none", "Rules to skip: names or stages.", '["missing-eval-dataset"]'),
    Key(
        "per-file-ignores", Table(NAMES), "none", "Rules to skip in files that match a pattern.", '{"old/*" = ["loop"]}'
    ),
    Key(
        "levels",
        Table(Choice(LEVELS)),
        "the rules' own",
        "The level of findings by rule, stage or `ALL`.",
        '{memory = "note"}',
    ),
    Key("preview", Flag(), "`false`", "Also run preview rules, which may still change.", "true"),
    Key(
        "target-versions",
        Table(Text(checked_version)),
        "found by itself",
        "The versions of libraries that the scripts run with.",
        '{transformers = ">=4.40,<5"}',
    ),
    Key(
        "exclude",
        NAMES,
        "common names",
        "Files and folders to skip; replaces the patterns that always apply.",
        '["vendor"]',
    ),
    Key(
        "extend-exclude",
        NAMES,
        "none",
        "Files and folders to skip in addition to `exclude`.",
        '["third_party", "*_old.py"]',
    ),
    Key(
        "rules",
        NAMES,
        "none",
        "Folders or files with rules of your own, which run once you trust them.",
        '["lint/rules"]',
    ),
    Key(
        "fail-on",
        Choice(LEVELS),
        '`"note"`',
        "The lowest level of findings that ends a check with 1.",
        '"error"',
        for_files=False,
    ),
    Key("max-warnings", Count(0), "none", "The most warnings that do not end a check with 1.", "20", for_files=False),
    Key("strict", Flag(), "`false`", "End with 3 if a file was not judged by every rule.", "true", for_files=False),
    Key(
        "baseline",
        Text(),
        "the nearest",
        "The file of findings to hide, written by `lintrain baseline`.",
        '"ci/known.json"',
        for_files=False,
    ),
    Key(
        "output-format",
        Choice(FORMATS),
        "`full` or `concise`",
        "The format of the report.",
        '"grouped"',
        for_files=False,
    ),
    Key(
        "documentation",
        Text(checked_address),
        "none",
        "The website of these pages, for links from reports.",
        '"https://docs.example.org/lintrain"',
        for_files=False,
    ),
    Key("jobs", Count(1, MOST_JOBS), "one per CPU", "The largest number of processes.", "2", for_files=False),
    Key("respect-gitignore", Flag(), "`true`", "Skip files that git ignores.", "false", for_files=False),
    Key(
        "force-exclude",
        Flag(),
        "`false`",
        "Skip excluded files even if the command line names them.",
        "true",
        for_files=False,
    ),
)
"""Every key, in the order of the reference page."""

BY_NAME = {key.name: key for key in KEYS}


def read_table(written: Mapping[str, object], named: str) -> dict[str, object]:
    """The settings in a table, by field; raises UsageError, whose text starts with the table's name."""
    found = [problem for name, value in written.items() for problem in _problems(name, value)]
    if found:
        problems = [f"{named}: {problem}" for problem in found[:MOST_PROBLEMS]]
        problems += [f"{named}: {left} more errors"] if (left := len(found) - MOST_PROBLEMS) > 0 else []
        raise UsageError("\n".join(problems))
    return {name.replace("-", "_"): value for name, value in written.items()}


def settings_schema() -> dict[str, object]:
    """The JSON schema of a lintrain.toml, and of the table `[tool.lintrain]`."""
    properties = {key.name: {**key.kind.schema(), "description": key.does} for key in KEYS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "lintrain",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _problems(name: str, value: object) -> Problems:
    if key := BY_NAME.get(name):
        yield from key.kind.problems(name, value)
        return
    from difflib import get_close_matches

    near = get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
    yield f"unknown key `{name}` " + (f"(did you mean `{near[0]}`?)" if near else f"(keys are {', '.join(BY_NAME)})")


def _too_many(key: str, number: int) -> str:
    return f"`{key}`: {number} entries, at most {MOST_ENTRIES} are allowed"


def _as_toml(value: object) -> str:
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
        case _:
            return f"`{value}`"
