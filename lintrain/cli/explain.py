"""`lintrain explain`: the documentation of one rule."""

from __future__ import annotations

import sys

import click

from lintrain.cli.completion import complete_rules


@click.command(short_help="Explain one rule.")
@click.argument("rule", shell_complete=complete_rules)
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", help="Format of the page.")
def command(rule: str, output_format: str) -> None:
    """Explain RULE: the mistake, its consequence, examples, and when it is fine."""
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
