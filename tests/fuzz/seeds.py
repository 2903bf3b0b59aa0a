"""What real scripts lend to the generated ones: the examples of all pages, the fixtures, the benchmark's scripts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random

from lintrain.rulebook import load_rules
from tests.pages.assembly import assemble

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("fixtures", "benchmarks/accuracy/scripts")
LONGEST_SHIPPED = 6_000
"""Bytes of a fixture: longer ones are read alone, by the tests of fixtures."""

EXAMPLES = ("Bad", "Good", "When it is fine")


@cache
def examples() -> tuple[str, ...]:
    """The examples of all pages as whole scripts: their first lines are those that the page takes for granted."""
    return tuple(
        assemble(example).text
        for rule in load_rules()
        for heading in EXAMPLES
        for example in rule.manual.examples(heading)
    )


@cache
def shipped() -> tuple[tuple[str, bytes], ...]:
    """Scripts and notebooks that lie in the repository: the ending of each name, and the bytes."""
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if _is_seed(path))
    return tuple((path.suffix, path.read_bytes()) for path in files)


def _is_seed(path: Path) -> bool:
    return path.suffix in (".py", ".ipynb") and "assets" not in path.parts and path.stat().st_size < LONGEST_SHIPPED


@cache
def scripts() -> tuple[str, ...]:
    """Every seed that is plain Python."""
    plain = (raw.decode("utf-8") for suffix, raw in shipped() if suffix == ".py")
    return (*examples(), *plain)


@cache
def _bodies() -> tuple[tuple[str, ...], ...]:
    """The statements of every example, each as a text of its own."""
    return tuple(tuple(ast.unparse(each) for each in ast.parse(text).body) for text in examples())


@cache
def _expressions() -> Sequence[str]:
    """Expressions of the examples, each once, longer ones left out."""
    nodes = (node for text in examples() for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr))
    found = dict.fromkeys(text for node in nodes if len(text := ast.unparse(node)) < 60 and "\n" not in text)
    return tuple(text for text in found if _stands_alone(text))


def _stands_alone(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False  # a slice, a starred argument
    return True


def page(random: Random) -> str:
    """The statements of an example: all, or all but some, in their order."""
    body = random.choice(_bodies())
    if random.random() < 0.6:
        return "\n".join(body)
    return "\n".join(_some(random, body)) or body[-1]


def _some(random: Random, body: Sequence[str]) -> Iterator[str]:
    for statement in body:
        if random.random() < 0.8:
            yield statement
        if random.random() < 0.1:
            yield random.choice(random.choice(_bodies()))


def donor(random: Random) -> str:
    """An expression of some example."""
    return f"({random.choice(_expressions())})"
