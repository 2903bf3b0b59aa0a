"""The documentation site: it is built whole, finds its rules, leads nowhere wrong, and loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lintrain.builtin import BUILTINS
from lintrain.report.text.pages import address_of
from lintrain.rulebook import load_rules
from tools.site.__main__ import build
from tools.site.agents import write_for_agents
from tools.site.loads import loads_from_elsewhere
from tools.site.rule_pages import prose
from tools.site.stage import ROOT, SiteError, refuse_lost_pages, stage, without_links_outside
from tools.site.tables import END, pages_with_tables, with_tables

NAMES = sorted([*(rule.name for rule in load_rules()), *BUILTINS])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site")).parent


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_every_rule_has_its_page_at_the_address_that_reports_link_to(site: Path) -> None:
    addresses = {name: address_of(name, site.as_uri() + "/") for name in NAMES}
    assert addresses["raw-dataset"].endswith("/site/rules/raw-dataset.html")
    assert [name for name in NAMES if not (site / "rules" / f"{name}.html").is_file()] == []
    assert [name for name in NAMES if addresses[name] != (site / "rules" / f"{name}.html").as_uri()] == []


def test_the_list_names_every_rule(site: Path) -> None:
    listed = text_of(site / "rules" / "index.html")
    assert [name for name in NAMES if f'href="{name}.html"' not in listed.replace('href="./', 'href="')] == []


def test_a_page_shows_what_a_check_says_of_its_example(site: Path) -> None:
    page = text_of(site / "rules" / "missing-zero-grad.html")
    assert "error[missing-zero-grad]" in page
    assert "train.py:3:5" in page
    assert "&lt;- missing-zero-grad" not in page


def test_the_search_knows_every_rule_without_a_network(site: Path) -> None:
    script = text_of(site / "search.js")
    index: dict[str, Any] = json.loads(script[script.index("{") : script.rindex("}") + 1])
    titles = {item["title"] for item in index["items"]}
    assert set(NAMES) - titles == set()
    assert "iframe-worker.js" in text_of(site / "rules" / "raw-dataset.html")


def test_a_page_that_would_load_something_from_elsewhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="https://a.example/x.js"></script><link rel="stylesheet" href="//b.example/x.css">'
        '<style>@import url("https://c.example/f.css");</style><a href="https://d.example">read</a><img src="b.png">'
    )
    found = loads_from_elsewhere(tmp_path)
    assert [line.removeprefix("a.html loads ") for line in found] == [
        "//b.example/x.css",
        "https://a.example/x.js",
        "https://c.example/f.css",
    ]


def test_a_page_that_no_menu_names_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    for name in ("a.md", "lost.md"):
        (tmp_path / "pages" / name).touch()
    (tmp_path / "zensical.toml").write_text('[project]\nnav = [{ "A" = ["a.md"] }]\n')
    with pytest.raises(SiteError, match=r"does not name lost\.md"):
        refuse_lost_pages(tmp_path / "pages", tmp_path / "zensical.toml")


def test_text_of_a_rule_means_nothing_to_markdown_and_issues_are_links() -> None:
    assert prose("`a_b` is a_b*, <c>; transformers#22119") == (
        r"`a_b` is a\_b\*, \<c\>; [transformers#22119](https://github.com/huggingface/transformers/issues/22119)"
    )


def test_a_link_to_a_file_beside_the_pages_becomes_words() -> None:
    assert without_links_outside("see [the readme](../README.md#use).") == "see the readme."
    with pytest.raises(SiteError, match=r"nothing\.md"):
        without_links_outside("[it](../nothing.md)")


def test_agents_find_a_list_and_a_twin_of_each_page(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    configuration = stage(tmp_path)
    (tmp_path / "site").mkdir(exist_ok=True)
    write_for_agents(tmp_path / "pages", tmp_path / "site", configuration)
    listed = text_of(tmp_path / "site" / "llms.txt")
    assert listed.startswith("# lintrain\n\n> ")
    linked = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", listed, re.MULTILINE)
    assert sorted(linked) == sorted(
        path.relative_to(tmp_path / "pages").as_posix() for path in (tmp_path / "pages").rglob("*.md")
    )
    assert [path for path in linked if not text_of(tmp_path / "site" / path).startswith("#")] == []
    assert "- [raw-dataset](rules/raw-dataset.md): " in listed


def test_the_tables_in_the_repository_are_fresh() -> None:
    """`python -m tools.site.tables` writes them."""
    stale = [path.name for path in pages_with_tables() if with_tables(text := text_of(path)) != text]
    assert stale == []
    assert len(pages_with_tables()) >= 4


def test_a_table_with_an_unknown_name_is_an_error() -> None:
    assert "| transformers | 4.40 |" in with_tables(f"<!-- table: versions -->\n{END}")
    with pytest.raises(KeyError):
        with_tables(f"<!-- table: nothing -->\n{END}")


def test_a_page_of_the_repository_links_to_rule_files(site: Path) -> None:
    listed = text_of(ROOT / "docs" / "rules" / "index.md")
    links = re.findall(r"\]\((\.\./\.\./rules/[^)]+)\)", listed)
    assert len(links) == len(load_rules())
    assert [link for link in links if not (ROOT / "docs" / "rules" / link).is_file()] == []
    assert "../../rules/" not in text_of(site / "rules" / "index.html")
