"""Tables that pages ask for with `<!-- table: NAME -->`, made of what the code and the project's file say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from lintrain.knowledge.tables import COVERED_PACKAGES, covered_versions
from tools.site.rule_pages import rule_tables

ROOT = Path(__file__).resolve().parent.parent.parent
REQUEST = re.compile(r"<!-- table: ([a-z-]+) -->")
PURPOSES = {
    "probe": "`lintrain probe` in this environment",
    "parquet": "a check that looks into the Parquet files which a script names",
    "watch": "`lintrain check --watch`",
    "lsp": "`lintrain server`, for editors",
}
"""What the extras for users are for; the others are for work on lintrain itself."""

TRAINING = ("torch", "transformers", "datasets", "accelerate", "trl", "peft", "lightning", "keras")
PINNED = re.compile(r"([\w-]+)(?:\[[\w,]*\])?(==|>=)([\w.]+)")


def with_tables(markdown: str) -> str:
    """A page with its tables filled in; KeyError for a name that there is not."""
    return REQUEST.sub(lambda found: TABLES[found[1]](), markdown)


def versions() -> str:
    """The versions of each library whose names and signatures are known."""
    known = {package: covered_versions(package) for package in COVERED_PACKAGES}
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


TABLES: dict[str, Callable[[], str]] = {
    "extras": extras,
    "needed": needed,
    "rules": rule_tables,
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
