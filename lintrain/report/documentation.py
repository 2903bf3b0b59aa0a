"""Where the page of a rule lies, for reports that link to it."""

from __future__ import annotations


def address_of(rule: str, documentation: str | None) -> str:
    """The address of a rule's page in the documentation at this address; empty where the project names none.

    By the rule's name alone, as `tools/site` lays the pages out: links outlive a move to another stage.
    """
    return f"{documentation.rstrip('/')}/rules/{rule}.html" if documentation else ""
