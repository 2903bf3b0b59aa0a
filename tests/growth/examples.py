"""Every rule's own examples, each again and again in one file."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.rulebook import load_rules
from tests.growth.form import Form
from tests.pages.assembly import assemble

HEADINGS = ("Bad", "Good", "When it is fine")


def example_forms() -> list[Form]:
    """A form for each heading of each rule's page."""
    return [form for rule in load_rules() if rule.reads_text for form in _forms(rule.name, rule.manual.examples)]


def _forms(rule: str, examples: object) -> Iterator[Form]:
    assert callable(examples)
    for heading in HEADINGS:
        texts = [assemble(example).text for example in examples(heading)]
        if texts:
            name = f"page-{rule}-{heading.split()[0].lower()}"
            yield Form(name, lambda count, texts=texts: _repeated(texts, count))  # type: ignore[misc]


def _repeated(texts: list[str], count: int) -> str:
    """So many examples one below the other."""
    return "".join(texts[number % len(texts)] + "\n" for number in range(count))
