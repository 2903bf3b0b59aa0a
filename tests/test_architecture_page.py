"""The pages on architecture stay short, and every path that they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGE = (DOCS / "architecture.md").read_text()
FOLDERS = {
    "architecture.md": (ROOT, ROOT / "lintrain"),
    "inside-a-check.md": (ROOT, ROOT / "lintrain"),
    "inside-a-probe.md": (ROOT, ROOT / "lintrain" / "runtime"),
}
"""Where the paths of each page start."""

PATH = re.compile(r"`([a-z_.][\w./-]*/[\w./-]*|[a-z_]+\.py)`")


@pytest.mark.parametrize("page", FOLDERS)
def test_every_path_of_the_page_exists(page: str) -> None:
    named = set(PATH.findall((DOCS / page).read_text()))
    assert len(named) > 15
    missing = {path for path in named if not any((folder / path).exists() for folder in FOLDERS[page])}
    assert missing == set()


def test_the_overview_is_read_in_one_sitting() -> None:
    lines = PAGE.splitlines()
    assert len(lines) <= 250
    assert [line for line in lines if len(line) > 100] == []


def test_the_rooms_of_the_overview_are_those_of_the_package() -> None:
    block = PAGE.partition("    lintrain/\n")[2].partition("    rules/")[0]
    described = {name for line in block.splitlines() for name in re.findall(r"\b([a-z]+)/", line[:26])}
    rooms = {path.parent.name for path in (ROOT / "lintrain").glob("*/__init__.py")}
    assert described == rooms


def test_the_report_of_the_walk_is_what_a_check_prints(capsys: pytest.CaptureFixture[str]) -> None:
    from lintrain.cli import run

    script = "fixtures/course/as_published.py"
    (shown,) = re.findall(r"^    (\d+:\d+: error\[raw-dataset\] .+)$", PAGE, flags=re.MULTILINE)
    run(["check", "--no-cache", "--select", "raw-dataset", "--output-format", "concise", str(ROOT / script)])
    assert f"{script}:{shown}" in capsys.readouterr().out
