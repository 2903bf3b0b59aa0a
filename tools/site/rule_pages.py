"""The pages of the rules, made of the rule files, and the list of all by stage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from lintrain.report.markdown import fenced
from lintrain.report.text.pages import OPTIONS_OF, Page, pages
from lintrain.rulebook import RuleFile, load_rules
from tests.pages.assembly import MARK, marked_rules
from tools.site.example import said_of_bad

INDEX = "rules/index.md"
PREVIEW = '\n!!! note "In preview"\n    Runs only with `--preview`, and may still change.\n'
FIXES = {"safe": "safe", "unsafe": "unsafe", "either": "safe or unsafe"}
REPOSITORIES = {
    "transformers": "huggingface/transformers",
    "datasets": "huggingface/datasets",
    "accelerate": "huggingface/accelerate",
    "peft": "huggingface/peft",
    "trl": "huggingface/trl",
    "course": "huggingface/course",
    "pytorch": "pytorch/pytorch",
    "Lightning": "Lightning-AI/pytorch-lightning",
    "scikit-learn": "scikit-learn/scikit-learn",
}
ISSUE = re.compile(rf"\b({'|'.join(REPOSITORIES)})#(\d+)")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPECIAL = re.compile(r"[\\*_<>\[\]{}]")


def rule_pages() -> dict[str, str]:
    """The Markdown of the page of every rule, by its path in the site."""
    files = {rule.name: rule for rule in load_rules()}
    return {path_of(page): rule_page(page, files.get(page.name)) for page in pages(load_rules())}


def rules_by_stage() -> dict[str, list[str]]:
    """The paths of the rules' pages under each stage."""
    return {stage: [path_of(page) for page in group] for stage, group in by_stage(pages(load_rules()))}


def by_stage(listed: Iterable[Page]) -> Iterator[tuple[str, list[Page]]]:
    """Each stage with its pages."""
    for stage, group in groupby(listed, lambda page: page.stage):
        yield stage, list(group)


def path_of(page: Page) -> str:
    """Where a rule's page lies: by its name alone, so that links outlive a move to another stage."""
    return f"rules/{page.name}.md"


def rule_tables() -> str:
    """The list of all rules, linked to their files: a table for each stage."""
    files = {rule.name: f"../../rules/{rule.stage}/{rule.path.name}" for rule in load_rules()}
    return "\n".join(_tables(files))


def rule_tables_of_site() -> str:
    """The same list, linked to the pages of the site."""
    return "\n".join(_tables({page.name: f"{page.name}.md" for page in pages(load_rules())}))


def _tables(targets: Mapping[str, str]) -> Iterator[str]:
    for stage, group in by_stage(pages(load_rules())):
        yield f"\n## {stage}\n\n| rule | mistake | level | found by | fix |\n|---|---|---|---|---|"
        for page in group:
            target = targets.get(page.name)
            link = (f"[{page.name}]({target})" if target else page.name) + (" (preview)" if page.preview else "")
            mistake = prose(page.manual.title.removesuffix(".")).replace("|", "\\|")
            yield f"| {link} | {mistake} | {page.level.value} | {_finders(page)} | {FIXES.get(page.fix, '')} |"


def rule_page(page: Page, rule: RuleFile | None) -> str:
    """One rule: its facts, why it hurts, what is said of its example, and its sections."""
    said = said_of_bad(rule) if rule else ""
    shown = f"## What lintrain says\n\n```text\n{said}\n```" if said else ""
    parts = [_head(page), prose(fenced(page.manual.why))]
    for heading, text in page.manual.sections.items():
        parts.append(f"## {heading}\n\n{prose(highlighted(fenced(text), page.name))}")
        if heading == "Bad" and shown:
            parts.append(shown)
    return "\n\n".join([*parts, _silence(page), ""])


def _head(page: Page) -> str:
    title = prose(page.manual.title)
    fix = f"{FIXES[page.fix]}: {OPTIONS_OF[page.fix]}" if page.fix else "by hand"
    preview = PREVIEW if page.preview else ""
    stage = f"[{page.stage}](index.md#{page.stage})"
    rows = f"| stage | level | found by | [fix](index.md) |\n|---|---|---|---|\n| {stage} | {page.level.value} |"
    return f"# {page.name}\n\n**{title}**\n{preview}\n{rows} {_finders(page)} | {fix} |"


def _finders(page: Page) -> str:
    return " · ".join(name for name, has in (("text", page.text), ("probe", page.probe)) if has)


def _silence(page: Page) -> str:
    comment = f"# lintrain: ignore[{page.name}] -- why it is fine here"
    return f"## Where it is meant\n\nOn the line of the finding:\n\n```python\n{comment}\n```"


def highlighted(text: str, name: str) -> str:
    """Fenced code in which the lines that are marked for a rule are highlighted in place of their marks."""
    return BLOCK.sub(lambda block: _without_marks(block[1], name), text)


def _without_marks(code: str, name: str) -> str:
    lines = code.split("\n")
    marked = [str(number) for number, line in enumerate(lines, start=1) if name in marked_rules(line)]
    lit = f' hl_lines="{" ".join(marked)}"' if marked else ""
    return f"```python{lit}\n" + "\n".join(MARK.sub("", line).rstrip() for line in lines) + "```"


def prose(text: str) -> str:
    """Text in which nothing but code, links to issues and fences means anything to Markdown."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("`") else _linked(SPECIAL.sub(r"\\\g<0>", part)) for part in parts)


def _linked(text: str) -> str:
    return ISSUE.sub(lambda found: f"[{found[0]}]({_address(found[1], found[2])})", text)


def _address(repository: str, number: str) -> str:
    return f"https://github.com/{REPOSITORIES[repository]}/issues/{number}"
