"""`lintrain explain`: the documentation of one rule, or the cause of an error."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lintrain.cli.completion import complete_rules


@click.command(short_help="Explain one rule, or an error.")
@click.argument("rule", metavar="RULE|ERROR|FILE", shell_complete=complete_rules)
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", help="Format of the page.")
def command(rule: str, output_format: str) -> None:
    """Explain RULE: the mistake, its consequence, examples, and when it is fine.

    The text of an ERROR, or a FILE with a traceback (`-` is stdin), is explained by its likely causes, in order.
    """
    import json

    from lintrain.check.selection import nearest
    from lintrain.cli._output import CommandError, write_report
    from lintrain.report.text.pages import address_of, as_plain_page, page_text, pages
    from lintrain.report.text.style import style_of
    from lintrain.rulebook import load_rules
    from lintrain.settings.loading import load_settings
    from lintrain.settings.settings import UsageError

    by_name = {page.name: page for page in pages(load_rules())}
    page = by_name.get(rule.strip().lower().replace("_", "-"))
    if page is None and (text := _error_text(rule)) is not None:
        _explain_error(text, output_format)
        return
    if page is None:
        near = nearest(rule, by_name)
        hint = f"did you mean `{near}`?" if near else "`lintrain rules` lists all rules"
        raise CommandError(f"unknown rule `{rule}` ({hint})")
    try:
        address = address_of(page.name, load_settings(["."]).documentation)
    except UsageError as error:
        raise CommandError(str(error)) from error
    if output_format == "json":
        write_report(json.dumps(as_plain_page(page, address), indent=2) + "\n")
    else:
        write_report(page_text(page, style_of(sys.stdout), address))


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
