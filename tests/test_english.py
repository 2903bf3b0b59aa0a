"""The old words of the glossary in CONTRIBUTING.md are in no message, help, document, docstring, comment and name."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from pkgutil import iter_modules

import click
import pytest

from lintrain.rulebook import RuleFile
from tests.support.stages import EVERY_STAGE

ROOT = Path(__file__).parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
GLOSSARY = re.compile(r"<!-- glossary -->\n(.*?)<!-- end of glossary -->", re.DOTALL)
ROW = re.compile(r"^\| (?!not |-)(.+?) \|", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|^(?: {4,}|\t).*$|``.*?``|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
"""What is no English on a page: code, and the targets of links."""

QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|'[^']*'")
SENTENCE = re.compile(r"[a-z]{2,},? [a-z]{2,}", re.IGNORECASE)
"""Two words in a row: a text for people, not a name."""

Hit = tuple[str, str]


@cache
def entries() -> tuple[str, ...]:
    """Everything in the left column, one entry each."""
    (table,) = GLOSSARY.findall(CONTRIBUTING)
    return tuple(entry.strip() for cell in ROW.findall(table) for entry in cell.split(","))


@cache
def phrases() -> re.Pattern[str]:
    """The entries that are phrases, as whole words; `stands in for` is another verb than `stands in`."""
    words = sorted((entry for entry in entries() if not entry.startswith("`")), key=len, reverse=True)
    spaced = (r"\s+".join(map(re.escape, phrase.split())) for phrase in words)
    return re.compile(rf"(?<![\w-])(?:{'|'.join(spaced)})(?![\w-])(?!(?<=in)\s+for\b)", re.IGNORECASE)


@cache
def is_old(name: str) -> bool:
    """Whether a name matches an entry in backticks, or one of its parts is an entry of one word."""
    plain = name.lower()
    patterns = (entry.strip("`") for entry in entries() if entry.startswith("`"))
    return any(fnmatch(plain, pattern) for pattern in patterns) or not set(plain.split("_")).isdisjoint(entries())


def hits(where: str, text: str) -> Iterator[Hit]:
    for found in phrases().finditer(text):
        around = text[max(0, found.start() - 30) : found.end() + 30]
        yield where, " ".join(around.split())


def shown(found: Iterable[Hit]) -> str:
    """Every hit in one line, and how many there are."""
    lines = [f"{where}: … {text} …" for where, text in found]
    return "\n".join([*lines, f"{len(lines)} texts contain words of the glossary"]) if lines else ""


def messages(path: Path) -> Iterator[Hit]:
    """The texts for people in a file: its string literals of several words that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    where = path.relative_to(ROOT).as_posix()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in silent and "\\" not in text and SENTENCE.search(text):
                yield from hits(f"{where}:{node.lineno}", QUOTED.sub("", text))
            case _:
                pass


@EVERY_STAGE
def test_a_rule_speaks_plain_english(rules: list[RuleFile]) -> None:
    pages = [(rule, [rule.manual.title, rule.manual.why, *rule.manual.sections.values()]) for rule in rules]
    found = [hit for rule, texts in pages for text in texts for hit in hits(f"{rule.name}: page", CODE.sub("", text))]
    assert shown([*found, *(hit for rule in rules for hit in messages(rule.path))]) == ""


ROOMS = sorted({path.relative_to(ROOT).parts[1] for path in (ROOT / "lintrain").rglob("*.py")})


@pytest.mark.parametrize("room", ROOMS)
def test_the_messages_of_a_room_are_plain_english(room: str) -> None:
    assert shown(hit for path in sources(room) for hit in messages(path)) == ""


def prose(path: Path) -> Iterator[Hit]:
    """The docstrings and the comments of a file, without the code in them."""
    text = path.read_text(encoding="utf-8")
    where = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                yield from hits(f"{where}:{node.lineno}", CODE.sub("", docstring))
            case _:
                pass
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from hits(f"{where}:{token.start[0]}", CODE.sub("", token.string))


def sources(room: str) -> list[Path]:
    """The files of a part of lintrain."""
    folder = ROOT / "lintrain" / room
    return [folder] if folder.is_file() else sorted(folder.rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_and_comments_are_plain_english(room: str) -> None:
    assert shown(hit for path in sources(room) for hit in prose(path)) == ""


OTHER_MEANINGS = {"words", "reasons", "epochs_told"}
"""The words of a command or of an identifier, the reasons of verdicts, and a key of the evidence, which stays."""


def names(path: Path) -> Iterator[str]:
    """The names that a file gives to classes, functions, parameters, variables and attributes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


@pytest.mark.parametrize("room", ROOMS)
def test_names_are_plain_english(room: str) -> None:
    found = {name for name in {*chain.from_iterable(map(names, sources(room)))} if is_old(name)}
    assert {name for name in found if name.lower().strip("_") not in OTHER_MEANINGS} == set()


@EVERY_STAGE
def test_names_in_a_rule_are_plain_english(rules: list[RuleFile]) -> None:
    found = {(rule.name, name) for rule in rules for name in names(rule.path) if is_old(name)}
    assert {(rule, name) for rule, name in found if name not in OTHER_MEANINGS} == set()


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, groups included."""
    from lintrain.cli._group import group

    pending: list[tuple[str, click.Command]] = [("lintrain", group)]
    while pending:
        name, command = pending.pop()
        yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            inner = ((each, command.get_command(context, each)) for each in command.list_commands(context))
            pending.extend((f"{name} {each}", found) for each, found in inner if found is not None)


def test_help_is_plain_english() -> None:
    texts = {name: command.get_help(click.Context(command, info_name=name)) for name, command in commands()}
    assert len(texts) > 8
    assert shown(hit for name, text in texts.items() for hit in hits(name, text)) == ""


DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "editors/vscode/README.md",
        ROOT / "tests/pages/README.md",
    ]
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_document_is_plain_english(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for part in (GLOSSARY, re.compile(r"<!-- table: .*?<!-- end of table -->", re.DOTALL), CODE):
        text = part.sub("", text)
    assert shown(hits(path.name, text)) == ""


def public_names() -> Iterator[tuple[str, str]]:
    """The names that rules use: of `lintrain.rule` and `lintrain.analysis`, with those of their classes."""
    package = import_module("lintrain.analysis")
    modules = [
        "lintrain",
        "lintrain.rule",
        *(f"lintrain.analysis.{each.name}" for each in iter_modules(package.__path__)),
    ]
    for name in modules:
        module = import_module(name)
        for public, value in vars(module).items():
            if public.startswith("_") or inspect.ismodule(value) or getattr(value, "__module__", name) != name:
                continue
            yield name, public
            if inspect.isclass(value):
                yield from ((f"{name}.{public}", each) for each in vars(value) if not each.startswith("_"))


def test_public_names_are_plain_english() -> None:
    found = [f"{where}.{name}" for where, name in public_names() if is_old(name)]
    assert found == []


def test_the_glossary_is_read() -> None:
    assert len(entries()) > 40
    assert next(hits("", "it says: nobody heard of it"))
    assert next(hits("", "train.py:3: no call stands here"))
    assert [*hits("", "In place of a word, it stands in for the tokenizer")] == []
    assert [name for name in ("words", "says_all", "NOBODY_ASKED", "glance", "words_of") if is_old(name)] == [
        "words",
        "says_all",
        "NOBODY_ASKED",
        "glance",
    ]
