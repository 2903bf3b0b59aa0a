"""Write the generated tables into the Markdown files: `python -m tools.site.tables` (`--check` only compares).

A table is between `<!-- table: NAME -->` and `<!-- end of table -->`. Its rows come from the code and pyproject.toml.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from lintrain.knowledge.tables import COVERED_PACKAGES, REMOVED_FROM, covered_versions
from lintrain.settings.table import KEYS, Choice, Count, Flag, Key, Names, Table
from tests.diagnoses.reading import Diagnosis, Question, diagnoses, questions
from tools.site.example import report_of
from tools.site.rule_pages import rule_tables

ROOT = Path(__file__).resolve().parent.parent.parent
END = "<!-- end of table -->"
TABLE = re.compile(rf"<!-- table: ([a-z-]+) -->\n(.*?){END}", re.DOTALL)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
PURPOSES = {
    "probe": "`lintrain probe` in this environment",
    "parquet": "`lintrain check` of scripts that read Parquet files: their columns",
    "watch": "`lintrain check --watch`",
    "lsp": "`lintrain server`, for editors",
}
"""What the extras for users are for; the others are for work on lintrain itself."""

MOST_NAMED = 5
"""Values of a key that its line lists; output formats have a page of their own."""

TRAINING = ("torch", "transformers", "datasets", "accelerate", "trl", "peft", "lightning", "keras")
PINNED = re.compile(r"([\w-]+)(?:\[[\w,]*\])?(==|>=)([\w.]+)")


def main(arguments: Sequence[str]) -> int:
    """Write the tables of every page; 1 if `--check` finds one that is out of date."""
    stale = [path for path in pages_with_tables() if with_tables(text := _read(path)) != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: its tables are out of date")
        if "--check" not in arguments:
            path.write_text(with_tables(_read(path)), encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


def pages_with_tables() -> list[Path]:
    """The Markdown files with a generated table."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in pages if TABLE.search(_read(path))]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def with_tables(markdown: str, tables: Mapping[str, Callable[[], str]] | None = None) -> str:
    """A page with fresh tables; KeyError for an unknown name."""
    known = {**TABLES, "example": lambda: _report(markdown), **(tables or {})}

    def fresh(found: re.Match[str]) -> str:
        return f"<!-- table: {found[1]} -->\n\n{known[found[1]]().strip()}\n\n{END}"

    return TABLE.sub(fresh, markdown)


def _report(markdown: str) -> str:
    """What a check prints for the first Python code of a page."""
    (script, *_) = CODE.findall(markdown)
    return f"```text\n{report_of(script)}\n```"


def versions() -> str:
    """The versions of each library whose names and signatures are known."""
    known = {package: covered_versions(package) for package in sorted((*COVERED_PACKAGES, *REMOVED_FROM))}
    return _table(
        ("library", "from", "up to", "versions"),
        ((name, _written(all_[0]), _written(all_[-1]), str(len(all_))) for name, all_ in known.items()),
    )


def extras() -> str:
    """The extras for users."""
    offered = _extras()
    shown = [name for name in offered if name in PURPOSES]
    return _table(
        ("extra", "brings", "for"),
        ((f"`{name}`", ", ".join(_names(offered[name])), PURPOSES[name]) for name in shown),
    )


def tested() -> str:
    """The libraries of training that the tests run on."""
    pinned = {name: version for name, sign, version in _pins("test") if sign == "=="}
    return _table(("library", "version"), ((name, pinned[name]) for name in TRAINING))


def needed() -> str:
    """The oldest libraries that a probe runs on."""
    return _table(("library", "from"), ((name, version) for name, _, version in _pins("probe")))


def shown_diagnoses() -> str:
    """What users ask for, with the command that shows it."""
    return _table(("", "question", "command", "shows"), map(_diagnosis, diagnoses()))


def _diagnosis(one: Diagnosis) -> tuple[str, str, str, str]:
    shows = f"`{one.planted.rule}`" if one.planted.rule else "; ".join(one.planted.texts)
    where = f"[{one.number}](../tests/diagnoses/{one.name}.md)"
    return where, one.title.replace("|", "\\|"), f"`{one.shown_command}`", shows.replace("|", "\\|")


def also_shown() -> str:
    """What users may ask for as well, with the rules and texts that answer."""
    return _table(("about", "question", "command", "shows"), map(_question, questions()))


def _question(one: Question) -> tuple[str, str, str, str]:
    shows = "; ".join([", ".join(f"`{rule}`" for rule in one.rules), *one.texts] if one.rules else one.texts)
    return one.about, one.asks.replace("|", "\\|"), f"`{one.command}`", shows.replace("|", "\\|")


def settings() -> str:
    """The keys of the configuration that count for files, and those that count for a run."""
    return "\n\n".join(
        f"{title}\n\n{_table(('key', 'holds', 'if missing', 'does'), map(_row, keys))}"
        for title, keys in (
            ("### Of each file", [key for key in KEYS if key.for_files]),
            ("### Of the run", [key for key in KEYS if not key.for_files]),
        )
    )


def _row(key: Key) -> tuple[str, str, str, str]:
    return f"`{key.name}`", f"{_kind(key.kind)}, such as `{key.example}`", key.missing, key.does


def _kind(kind: object) -> str:
    match kind:
        case Flag():
            return "a boolean"
        case Count():
            return "a number"
        case Names():
            return "a list"
        case Table():
            return "a table"
        case Choice(values=values) if len(values) < MOST_NAMED:
            return "one of " + ", ".join(f'`"{value}"`' for value in values)
        case _:
            return "a string"


TABLES: dict[str, Callable[[], str]] = {
    "also": also_shown,
    "diagnoses": shown_diagnoses,
    "extras": extras,
    "needed": needed,
    "rules": rule_tables,
    "settings": settings,
    "tested": tested,
    "versions": versions,
}


@cache
def _extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return dict(project["optional-dependencies"])


def _pins(extra: str) -> list[tuple[str, str, str]]:
    found = (PINNED.match(requirement) for requirement in _extras()[extra])
    return [(match[1], match[2], match[3]) for match in found if match]


def _names(requirements: Iterable[str]) -> list[str]:
    return [f"`{re.split(r'[^A-Za-z0-9_.-]', requirement)[0]}`" for requirement in requirements]


def _written(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
