"""`lintrain explain`: the documentation of one rule, the rules of a stage or about a text, or the cause of an error."""

from __future__ import annotations

import sys
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lintrain.cli.completion import complete_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lintrain.report.text.pages import Page

UNBOUNDED = 1_000
"""Columns if the output is not a terminal: one line per rule."""

LONGEST_NAME = 200

NEAR = 0.8
"""From here on, a text that is no rule is a misspelt one."""


class ExplainCommand(click.Command):
    """Takes a text that begins with a dash as the text: messages do, such as `--bf16 requires …`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments; raises CommandError for an unknown option, with what to write if it is a text."""
        from lintrain.cli._output import CommandError

        # No option contains a space, and after `--` everything is text.
        texts = [each for each in args if each.startswith("-") and " " in each]
        if texts and "--" not in args:
            args = [*(each for each in args if each not in texts), "--", *texts]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:  # a misspelt option
                raise
            name = error.option_name
            raise CommandError(
                f"`{name}` is no option of explain; a text that begins with a dash follows `--`:"
                f" `lintrain explain -- {name}`"
            ) from error


@click.command(cls=ExplainCommand, short_help="Explain a rule, a stage or an error.")
@click.argument("rule", metavar="RULE|STAGE|TEXT|FILE", shell_complete=complete_rules)
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", help="Format of the page.")
def command(rule: str, output_format: str) -> None:
    """Explain RULE: the mistake, its consequence, examples, and when it is fine.

    STAGE (`data`, `loop`, ...) lists the rules of a stage of training. The TEXT of an error, or a FILE with a traceback
    (`-` is stdin), is explained by its likely causes, in order. Any other text lists the rules whose pages contain its
    words.
    """
    import json

    from lintrain.check.own_rules import project_rules
    from lintrain.check.selection import nearest
    from lintrain.cli._output import CommandError, write_report
    from lintrain.report.text.pages import address_of, as_plain_page, page_text, pages, pages_about
    from lintrain.report.text.style import style_of
    from lintrain.rulebook import RuleFileError
    from lintrain.settings.loading import load_settings
    from lintrain.settings.settings import UsageError

    try:
        settings = load_settings(["."])
        all_pages = pages(project_rules(settings))
    except (UsageError, RuleFileError) as error:
        raise CommandError(str(error)) from error
    by_name = {page.name: page for page in all_pages}
    page = by_name.get(rule.strip().lower().replace("_", "-"))
    about = pages_about(rule, all_pages)
    if page is None and not about.is_stage and (text := _error_text(rule)) is not None:
        try:
            _explain_error(text, output_format)
        except CommandError:
            if not about.pages or Path(rule[:LONGEST_NAME]).is_file():
                raise
            _list(about.pages, output_format)
        return
    near = "" if page else nearest(rule, by_name)
    is_misspelt = near and SequenceMatcher(None, rule, near).ratio() > NEAR
    if page is None and about.pages and (about.is_stage or not is_misspelt):
        _list(about.pages, output_format)
        return
    if page is None:
        hint = f"did you mean `{near}`?" if near else "`lintrain rules` lists all rules"
        raise CommandError(f"unknown rule `{rule}` ({hint})")
    address = address_of(page.name, settings.documentation)
    if output_format == "json":
        write_report(json.dumps(as_plain_page(page, address), indent=2) + "\n")
    else:
        write_report(page_text(page, style_of(sys.stdout), address))


def _list(listed: Sequence[Page], output_format: str) -> None:
    """Write the names and titles of rules, as `lintrain rules` does."""
    import json

    from lintrain.cli._output import write_report
    from lintrain.report.text.pages import as_plain, table
    from lintrain.report.text.style import style_of

    if output_format == "json":
        write_report(json.dumps([as_plain(page) for page in listed], indent=2) + "\n")
        return
    style = style_of(sys.stdout)
    if not sys.stdout.isatty():
        style = replace(style, width=UNBOUNDED)
    write_report("\n".join([*table(listed, style), "", "`lintrain explain RULE` shows a page"]) + "\n")


def _error_text(argument: str) -> str | None:
    """The text of an error: given as it is, or in a file; None for what can only be the name of a rule."""
    from lintrain.verdicts.endings.explaining import kinds

    if argument == "-":
        return sys.stdin.read()
    if any(kind.name == argument for kind in kinds()):
        return argument
    is_name = argument.replace("-", "").replace("_", "").isalnum()
    try:
        if Path(argument).is_file():
            return Path(argument).read_text("utf-8", "replace")
    except (OSError, ValueError):  # a message may be too long for a path, or hold a NUL
        pass
    return None if is_name else argument


def _explain_error(text: str, output_format: str) -> None:
    """Write what is known of an error; raises CommandError if nothing is."""
    import json

    from lintrain.cli._output import CommandError, write_report
    from lintrain.report.text.causes import NotExplainedError, error_document, error_lines
    from lintrain.report.text.style import style_of

    try:
        document = error_document(text)
    except NotExplainedError as error:
        raise CommandError(str(error)) from error
    style = style_of(sys.stdout)
    shown = json.dumps(document, indent=2) if output_format == "json" else "\n".join(error_lines(document, style))
    write_report(shown + "\n")
