"""The folder that the site is built from: `docs/`, and beside it the pages that are made when it is built."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from tools.site.rule_pages import INDEX, rule_pages, rule_tables_of_site, rules_by_stage
from tools.site.tables import with_tables

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIGURATION = "zensical.toml"
RULES = '"Rules"'
"""The entry of the navigation that stands for all pages of rules."""

WHOLE_FILES = {"contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md", "changelog.md": "CHANGELOG.md"}
"""Files of the project's root that are pages of the site as well, by the path of the page."""

OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#]+)(?:#[^)]*)?\)")


class SiteError(Exception):
    """A site that is not as it should be; the text says what and where."""


def stage(build: Path) -> Path:
    """Put everything together in a folder that is made anew; gives the configuration in it."""
    pages = build / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.rmtree(build / "site", ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    for file in pages.rglob("*.md"):
        filled = with_tables(file.read_text(encoding="utf-8"), {"rules": rule_tables_of_site})
        file.write_text(without_links_outside(filled), encoding="utf-8")
    for path, text in {**rule_pages(), **whole_files()}.items():
        (pages / path).parent.mkdir(exist_ok=True)
        (pages / path).write_text(text, encoding="utf-8")
    configuration = build / CONFIGURATION
    configuration.write_text(staged_configuration(), encoding="utf-8")
    refuse_lost_pages(pages, configuration)
    return configuration


def without_links_outside(text: str) -> str:
    """A page whose links to files beside `docs/` are plain words: the site holds no such file, and has no repository.

    Raises SiteError where the repository has none either.
    """

    def words(link: re.Match[str]) -> str:
        if not (ROOT / link[2]).exists():
            raise SiteError(f"[{link[1]}](../{link[2]}): there is no such file")
        return link[1]

    return OUTSIDE.sub(words, text)


def whole_files() -> dict[str, str]:
    """The pages that are files of the root: their links into `docs/` and to each other are links beside them."""
    texts = {path: (ROOT / name).read_text(encoding="utf-8") for path, name in WHOLE_FILES.items()}
    for page, name in WHOLE_FILES.items():
        texts = {path: text.replace(f"]({name}", f"]({page}") for path, text in texts.items()}
    return {path: text.replace("](docs/", "](") for path, text in texts.items()}


def staged_configuration() -> str:
    """The configuration with the pages of the rules, by stage, in its navigation."""
    stages = (f"{{ {json.dumps(name)} = {json.dumps(paths)} }}" for name, paths in rules_by_stage().items())
    entry = f"{{ {RULES} = [{json.dumps(INDEX)}, {', '.join(stages)}] }}"
    text = (ROOT / CONFIGURATION).read_text(encoding="utf-8")
    if text.count(RULES) != 1:
        raise SiteError(f"{CONFIGURATION}: the navigation names {RULES} {text.count(RULES)} times, and should once")
    return text.replace(RULES, entry)


def refuse_lost_pages(pages: Path, configuration: Path) -> None:
    """Raise SiteError for pages that nobody finds, because the navigation does not name them."""
    navigation = tomllib.loads(configuration.read_text(encoding="utf-8"))["project"]["nav"]
    there = {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")}
    if lost := there - set(_named(navigation)):
        raise SiteError(f"{CONFIGURATION}: the navigation does not name {', '.join(sorted(lost))}")


def _named(entry: object) -> Iterator[str]:
    match entry:
        case str():
            yield entry
        case dict():
            yield from _named(list(cast(dict[str, object], entry).values()))
        case list():
            for part in cast(list[object], entry):
                yield from _named(part)
        case _:
            raise SiteError(f"{CONFIGURATION}: `{entry}` is no entry of a navigation")
