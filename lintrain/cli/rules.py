"""`lintrain rules`: the list of all rules, and `lintrain rules new`: a rule of the project's own."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lintrain.cli._output import CommandError, write_contents, write_report
from lintrain.settings.settings import LEVELS

if TYPE_CHECKING:
    from lintrain.report.text.pages import Page

UNBOUNDED = 1_000
"""Columns if the output is not a terminal: one line per rule."""

FIXABLE = ("safe", "unsafe", "any")


FILTERS = (
    click.option("--stage", multiple=True, metavar="STAGE", help="Only rules of this stage."),
    click.option("--level", type=click.Choice(LEVELS), help="Only rules of this level."),
    click.option("--framework", metavar="LIBRARY", help="Only rules whose examples use this library."),
    click.option("--fixable", type=click.Choice(FIXABLE), help="Only rules with such a fix."),
    click.option("--text", metavar="TEXT", help="Only rules whose name or description contains this text."),
    click.option("--json", "as_json", is_flag=True, help="Print the rules as JSON."),
)


def _filtered(function: Callable[..., None]) -> Callable[..., None]:
    """A command with the filters of the list."""
    for option in reversed(FILTERS):
        function = option(function)
    return function


class RulesGroup(click.Group):
    """A group in which a word that names no command asks for the rules about it: `lintrain rules labels`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The named command, else the list of rules about the words."""
        if self.get_command(ctx, args[0]) is None:
            return args[0], about, args
        return super().resolve_command(ctx, args)


@click.group(
    cls=RulesGroup,
    invoke_without_command=True,
    short_help="List the rules, or write a rule of your own.",
    subcommand_metavar="[WORD]... | COMMAND [ARGS]...",
)
@_filtered
@click.pass_context
def command(context: click.Context, /, **wanted: Any) -> None:  # Any: click passes the options above
    """List the rules by stage, with their level, what finds them (text, probe) and the safety of their fix.

    WORDs list the rules of a stage (`data`), or those whose description contains them (`labels`, `learning rate`).
    """
    if context.invoked_subcommand is None:
        _list("", wanted)


@click.command("about")
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@_filtered
@click.pass_context
def about(context: click.Context, /, words: tuple[str, ...], **wanted: Any) -> None:  # Any: as above
    """List the rules about WORDs."""
    before = context.parent.params if context.parent else {}
    _list(" ".join(words), {name: value or before.get(name) for name, value in wanted.items()})


def _list(words: str, wanted: Mapping[str, Any]) -> None:  # Any: the values of the options above
    """Print the rules about some words that pass every filter."""
    import json

    from lintrain.report.text.pages import as_plain, table
    from lintrain.report.text.style import style_of

    listed = [page for page in _about(words, _pages(wanted)) if _is_wanted(page, wanted)]
    if wanted["as_json"]:
        write_report(json.dumps([as_plain(page) for page in listed], indent=2) + "\n")
        return
    style = style_of(sys.stdout)
    if not sys.stdout.isatty():
        style = replace(style, width=UNBOUNDED)
    write_report("".join(f"{line}\n" for line in table(listed, style)) if listed else "no rule matches\n")


def _about(words: str, found: list[Page]) -> list[Page]:
    """The rules of the stage that is named, else those whose name and description contain all words."""
    if any(page.stage == words.lower() for page in found):
        return [page for page in found if page.stage == words.lower()]
    wanted = [re.compile(rf"\b{re.escape(word.rstrip('s'))}") for word in re.findall(r"[\w-]+", words.lower())]
    texts = {page.name: f"{page.name} {page.manual.title} {page.manual.why}".lower() for page in found}
    return [page for page in found if all(word.search(texts[page.name]) for word in wanted)]


def _pages(wanted: Mapping[str, Any]) -> list[Page]:
    """The pages of all rules, the project's own among them; raises CommandError for an unknown stage or library."""
    from lintrain.check.own_rules import project_rules
    from lintrain.report.text.pages import FRAMEWORKS, pages
    from lintrain.rulebook import RuleFileError
    from lintrain.settings.loading import load_settings
    from lintrain.settings.settings import UsageError

    try:
        found = pages(project_rules(load_settings(["."])))
    except (UsageError, RuleFileError) as error:
        raise CommandError(str(error)) from error
    _demand_known("stage", wanted["stage"], {page.stage: None for page in found})
    _demand_known("framework", filter(None, [wanted["framework"]]), FRAMEWORKS)
    return found


def _demand_known(option: str, given: Iterable[str], known: Mapping[str, object]) -> None:
    for name in given:
        if name not in known:
            raise CommandError(f"--{option} {name}: one of {', '.join(known)} is expected")


def _is_wanted(page: Page, wanted: Mapping[str, Any]) -> bool:
    """Whether a rule passes every filter."""
    text = (wanted["text"] or "").lower()
    return (
        (not wanted["stage"] or page.stage in wanted["stage"])
        and wanted["level"] in (None, page.level.value)
        and (wanted["framework"] is None or wanted["framework"] in page.frameworks)
        and (wanted["fixable"] is None or _is_fixable(page.fix, wanted["fixable"]))
        and any(text in each.lower() for each in (page.name, page.manual.title, page.manual.why))
    )


def _is_fixable(fix: str, wanted: str) -> bool:
    return bool(fix) if wanted == "any" else fix in (wanted, "either")


@command.command(short_help="Write a rule of your own and its test.")
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("lint", "rules"),
    help="Where to write it (default: lint/rules).",
)
def new(name: str, folder: Path) -> None:
    """Write a rule called NAME, such as `no-tracker`, and a test that runs the examples of its page.

    The rule works as it is written: change its page first, then its code until the test passes.
    """
    rule = name.lower().replace("_", "-")
    if not all(part.isalnum() and part.isascii() for part in rule.split("-")):
        raise CommandError(f"`{name}`: a name has words of letters and digits with dashes between them")
    file = folder / f"{rule.replace('-', '_')}.py"
    test = folder / f"test_{rule.replace('-', '_')}.py"
    if existing := next((each for each in (file, test) if each.exists()), None):
        raise CommandError(f"{existing}: exists already")
    folder.mkdir(parents=True, exist_ok=True)
    title = "".join(word.title() for word in rule.split("-"))
    texts = {
        file: TEMPLATE.replace("NAME", rule).replace("Title", title),
        test: TEST.replace("FILE", file.name).replace("test_it", test.stem),
    }
    write_contents({str(path): text.encode() for path, text in texts.items()})
    write_report(
        f"wrote {file} and {test}; next:\n"
        f"  pytest {test}\n"
        f'  name the folder in the configuration, relative to its file: `rules = ["{folder.as_posix()}"]`\n'
        f"  lintrain trust {folder}\n"
    )


TEMPLATE = '''"""A run is reported to no tracker.

Write here why it matters: what happens to a run, and when one notices.

## Bad

    from transformers import TrainingArguments

    args = TrainingArguments("out", report_to="none")  # <- NAME

## Good

    from transformers import TrainingArguments

    args = TrainingArguments("out", report_to="tensorboard")

## When it is fine

The value is decided when the script runs, so the text cannot tell:

    import os
    from transformers import TrainingArguments

    args = TrainingArguments("out", report_to=os.environ["TRACKER"])
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.values.python import literal
from lintrain.rule import ArgumentsRule, Finding, Level, Pipeline, TrainingArguments


class Title(ArgumentsRule):
    level = Level.WARNING
    keywords = "report_to"
    needs_training = False

    def judge(self, arguments: TrainingArguments, pipeline: Pipeline) -> Iterator[Finding]:
        location = arguments.locations.get("report_to")
        if location is not None and literal(arguments.value("report_to")) == "none":
            yield self.finding(
                location,
                '`report_to="none"`: the run appears in no tracker',
                help='pass `report_to="tensorboard"`',
            )
'''
"""A rule that works, with a page whose examples its test runs."""

TEST = '''"""The examples of the rule's page: Bad is found on the marked lines, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_it(lintrain_rule: Any) -> None:
    lintrain_rule(Path(__file__).with_name("FILE"))
'''
