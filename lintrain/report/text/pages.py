"""The documentation of rules and built-in findings: the table of all, and the page of one.

The effective settings as TOML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import groupby
from typing import cast

from lintrain.builtin import BUILTINS, Builtin
from lintrain.check.selection import Selection
from lintrain.model.level import Level
from lintrain.model.manual import Manual
from lintrain.report.text.style import ACCENT, Style, clip, columns, wrap
from lintrain.rulebook import RuleFile
from lintrain.settings.settings import Settings
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import trusted


@dataclass(frozen=True, slots=True)
class Page:
    """One rule or built-in finding: what finds it (the text, a probe), how safe its fix is, and its manual page.

    `fix` is `safe`, `unsafe`, or `either` if it depends on the script; empty without a fix. A `preview` rule runs on
    request only.
    """

    name: str
    stage: str
    level: Level
    text: bool
    probe: bool
    fix: str
    manual: Manual
    preview: bool = False

    @property
    def frameworks(self) -> list[str]:
        """The libraries that its examples use; the built-in findings are about every file."""
        code = "".join(each for heading in ("Bad", "Good") for each in self.manual.examples(heading))
        return [name for name, words in FRAMEWORKS.items() if re.search(words, code)]


FRAMEWORKS = {
    "transformers": r"\b(?:transformers|Trainer|TrainingArguments|DataCollator|Auto[A-Z]|SentenceT)|okenizer"
    r"|chat_template",
    "trl": r"\btrl\b|\b(?:SFT|DPO|GRPO|PPO|Reward|KTO|ORPO|CPO)[A-Z]\w*",
    "peft": r"\bpeft\b|\b(?:Lora|PromptTuning|PrefixTuning)\w*Config\b",
    "accelerate": r"\baccelerate\b|\bAccelerator\b|\baccelerator\b",
    "datasets": r"\bdatasets\b|\bload_dataset\b|\bDatasetDict\b",
    "lightning": r"\blightning\b|\bL\.|\bLightning[A-Z]",
    "keras": r"\bkeras\b",
    "torch": r"\btorch\b|\bnn\.|\bF\.|\.backward\(|\bDataLoader\b|\boptimizer\b",
    "sklearn": r"\bsklearn\b|\btrain_test_split\b",
}
"""The words by which an example shows which library it uses."""


OPTIONS_OF = {
    "safe": "`--fix`",
    "unsafe": "`--fix --unsafe-fixes`",
    "either": "`--fix`, in some scripts with `--unsafe-fixes`",
}
"""The options that apply a fix, by its safety."""


def pages(rules: Iterable[RuleFile]) -> list[Page]:
    """The pages of all rules, followed by the built-in findings."""
    return [*map(_of_rule, rules), *map(_of_builtin, BUILTINS.values())]


def _of_rule(rule: RuleFile) -> Page:
    return Page(
        rule.name,
        rule.stage,
        rule.rule.level,
        rule.reads_text,
        rule.reads_evidence,
        rule.fix_safety,
        rule.manual,
        rule.is_preview,
    )


def _of_builtin(found: Builtin) -> Page:
    fix = "safe" if found.has_fix else ""
    return Page(found.name, found.stage, found.level, text=True, probe=False, fix=fix, manual=found.manual)


def table(all_pages: Iterable[Page], style: Style) -> Iterator[str]:
    """The lines of the table: the rules of each stage with level, finder and title.

    If a title does not fit next to its rule, all titles go below their rules.
    """
    listed = list(all_pages)
    names = max((len(page.name) for page in listed), default=0)
    longest = max((columns(page.manual.title) + 10 * page.preview for page in listed), default=0)
    stage = None
    for page in listed:
        if page.stage != stage:
            if stage is not None:
                yield ""
            yield style.paint(page.stage, bold=True)
            stage = page.stage
        marks = _marks(page)
        level = style.level(page.level, f"{page.level.value:<7}")
        line = f"  {page.name:<{names}}  {level}  {style.paint(marks, dim=True)}"
        room = style.width - names - len(marks) - 15
        title = f"{page.manual.title} (preview)" if page.preview else page.manual.title
        if longest <= room:
            yield f"{line}  {title}"
        else:
            yield line.rstrip()
            yield f"    {clip(title, style.width - 4)}"


def _marks(page: Page) -> str:
    fix = f"{page.fix} fix" if page.fix in ("safe", "unsafe") else "fix" if page.fix else ""
    return f"{'text' if page.text else '':4} {'probe' if page.probe else '':5} {fix:10}"


MOST_ABOUT = 12
"""Rules that are listed for a text."""


@dataclass(frozen=True, slots=True)
class About:
    """The rules of a stage, or those whose pages contain the words of a text, the nearest first."""

    pages: tuple[Page, ...]
    is_stage: bool


def pages_about(text: str, all_pages: Iterable[Page]) -> About:
    """The rules that a stage or a text is about."""
    listed = list(all_pages)
    of_stage = tuple(page for page in listed if page.stage == text.strip().lower())
    if of_stage:
        return About(of_stage, is_stage=True)
    wanted = {word.rstrip("s") for word in re.findall(r"[a-z0-9]{3,}", text.lower())}
    scored = ((_score(page, wanted), page) for page in listed) if wanted else iter(())
    found = sorted((one for one in scored if one[0]), key=lambda one: (-one[0], one[1].name))
    return About(tuple(page for _, page in found[:MOST_ABOUT]), is_stage=False)


def _score(page: Page, wanted: set[str]) -> int:
    """0 if a word is not on the page; words in the name and the title count more."""
    whole = f"{page.manual.title} {page.manual.why} {' '.join(page.manual.sections.values())}".lower()
    head = f"{page.name} {page.manual.title}".lower()
    if not all(re.search(rf"\b{word}", f"{page.name} {whole}") for word in wanted):
        return 0
    return 1 + sum(2 + (word in page.name) for word in wanted if re.search(rf"\b{word}", head))


def as_plain(page: Page) -> dict[str, object]:
    """The summary of a page as JSON."""
    return {
        "name": page.name,
        "stage": page.stage,
        "level": page.level.value,
        "text": page.text,
        "probe": page.probe,
        "fix": page.fix,
        "preview": page.preview,
        "frameworks": page.frameworks,
        "title": page.manual.title,
    }


def as_plain_page(page: Page, address: str = "") -> dict[str, object]:
    """A whole page as JSON, with its address if the project has a documentation site."""
    link = {"address": address} if address else {}
    return {**as_plain(page), "why": page.manual.why, "sections": page.manual.sections, **link}


def page_text(page: Page, style: Style, address: str = "") -> str:
    """A page as text: the mistake, its consequence, examples, when it is fine, and its address."""
    lines = [f"{style.paint(page.name, bold=True)}: {style.code(page.manual.title)}", "", *_facts(page, style), ""]
    lines.extend(_prose(page.manual.why, style))
    for heading, text in page.manual.sections.items():
        lines.extend(["", style.paint(heading, ACCENT, bold=True), "", *_prose(text, style)])
    return "\n".join([*lines, *(["", address] if address else []), ""])


def _facts(page: Page, style: Style) -> Iterator[str]:
    yield f"stage: {page.stage}    level: {style.level(page.level, page.level.value)}"
    finders = [name for name, has in (("`lintrain check`", page.text), ("`lintrain probe`", page.probe)) if has]
    verb = "found by" if page.text or not page.probe else "found only by"
    fixable = f"; fixable with {OPTIONS_OF[page.fix]}" if page.fix else ""
    yield style.code(f"{verb} {' and judged by '.join(finders)}{fixable}")
    if page.preview:
        yield style.code("preview rule: runs only with `--preview`, and may still change")


def _prose(text: str, style: Style) -> Iterator[str]:
    """Paragraphs wrapped to the width, code unchanged."""
    for kind, group in groupby(text.strip("\n").split("\n"), _kind):
        lines = list(group)
        match kind:
            case "code":
                yield from _code("\n".join(lines), style)
            case "prose":
                yield from map(style.code, wrap(" ".join(line.strip() for line in lines), 0, 0, style.width))
            case _:
                yield ""


def _kind(line: str) -> str:
    if not line.strip():
        return "blank"
    return "code" if line.startswith("    ") else "prose"


def _code(code: str, style: Style) -> list[str]:
    """The lines of a block of code, highlighted if colours are available."""
    if not style.coloured:
        return code.split("\n")
    from rich.console import Console
    from rich.syntax import Syntax

    console = Console(width=1000, color_system="standard", force_terminal=True, highlight=False, markup=False)
    with console.capture() as capture:
        console.print(Syntax("", "python", theme="ansi_dark").highlight(code), end="")
    return trusted(capture.get()).rstrip("\n").split("\n")


def address_of(rule: str, documentation: str | None) -> str:
    """The address of a rule's page on a documentation site; empty without a site.

    It depends on the name only, as in `tools/site`: links survive a move to another stage.
    """
    return f"{documentation.rstrip('/')}/rules/{rule}.html" if documentation else ""


def settings_text(settings: Settings, selection: Selection) -> str:
    """The settings as TOML, with their file and the selected rules as comments."""
    lines = [f"# from {settings.file}" if settings.file else "# no configuration file, defaults only"]
    tables: list[str] = []
    for field in fields(settings):
        if field.name in ("root", "file", "sources"):
            continue
        key, value = field.name.replace("_", "-"), getattr(settings, field.name)
        if isinstance(value, Mapping):
            table = cast(Mapping[str, object], value)
            tables.extend(["", f"[{key}]", *(f"{_toml(name)} = {_toml(item)}" for name, item in table.items())])
        elif value is not None:
            lines.append(f"{key} = {_toml(value)}")
    rules = "".join(f"\n#   {name}" for name in sorted(selection.names))
    return "\n".join([*lines, *tables, "", f"# selected rules:{rules}", ""])


def _toml(value: object) -> str:
    """A value as TOML; its strings, lists and booleans are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)
