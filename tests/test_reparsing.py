"""A tree that was made of an earlier one is the tree of the text."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks.keystroke_project import script_text
from lintrain.check.one_file import check_source
from lintrain.knowledge.versions import TargetVersions
from lintrain.rulebook import RuleFile, load_rules
from lintrain.source.latest_tree import LatestTree, tree_of
from lintrain.source.parsing import parse
from lintrain.source.source import Source

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path for folder in ("fixtures", "rules") for path in (ROOT / folder).rglob("*.py"))
TYPED = [
    "",
    "x",
    " ",
    "#",
    "(",
    ")",
    '"',
    "'''",
    "\\",
    ";",
    ":",
    "= 1",
    "else:",
    "@",
    "    y",
    "ü",
    "\r",
    "\f",
    "f'{x}'",
    "\n",
    "\n\nz = 1\n",
    "\n    ",
]

TEXT = """import os  # the first
x = 1; y = 2

@decorated
def f(a,
      b):
    return a + b

if x:
    pass
else:
    z = f(1, 2)
text = '''
a = 1
'''
last = 3
"""


def parsed_or_error(text: str) -> str:
    """A tree with all its locations, or the error of a text that has none."""
    try:
        return ast.dump(parse(text), include_attributes=True)
    except (SyntaxError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def reparsed_or_error(latest: LatestTree, text: str) -> str:
    with latest.serving("train.py"):
        try:
            return ast.dump(tree_of("train.py", text), include_attributes=True)
        except (SyntaxError, ValueError) as error:
            return f"{type(error).__name__}: {error}"


def kept_of(text: str, after: str) -> int:
    """How many statements of a text are taken over when it is edited."""
    latest = LatestTree()
    reparsed_or_error(latest, text)
    before = latest.tree
    assert reparsed_or_error(latest, after) == parsed_or_error(after)
    assert before is not None
    return len({id(each) for each in before.body} & {id(each) for each in (latest.tree or before).body})


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("# the first", "# the very first", 6),
        ("last = 3", "last = 34", 6),
        ("return a + b", "return a - b", 6),
        ("@decorated", "@decorator", 6),
        ("pass", "x = 2", 6),
        ("y = 2\n\n", "y = 2\n#\n", 7),
        ("y = 2\n\n", "y = 2\nw\n", 7),
        ("y = 2", "y = 3", 5),
        ("a = 1\n", "b = 1\n", 6),
        ("y = 2\n\n", "y = 2 \\\n- 3\n", 5),
        ("y = 2\n\n", "y = 2 \\\n\n", 5),
        ("y = 2\n\n", "y = 2\n    w\n", 7),
        ("y = 2\n\n", "y = 2\n\n\n", 7),
        ("'''\na", '"""\na', 7),
        ("y = 2\n\n", "y = 2\nw\nw\n\n", 7),
        ("y = 2\n\n", "y = 2\n", 7),
        ("y = 2\n\n", "y = 2\n\n\n# a\n\n", 7),
        ("    return a + b\n", "    c = a\n    return c + b\n", 6),
        ("if x:\n    pass\nelse:\n    z = f(1, 2)\n", "", 6),
        ("last = 3\n", "", 6),
        ("import os  # the first\n", "", 6),
        ("import os", "import re\nimport os", 7),
        ("x = 1; y = 2\n", "x = 1;\ny = 2\n", 5),
        ("a = 1\n", "\na = 1\n", 6),
        ("else:", "elif y:\n    pass\nelse:", 6),
        ("last = 3", "else:\n    last = 3", 7),
        ("\n@decorated", "\n@first\n@decorated", 0),
        ("last = 3", "last = (", 7),
        ("last = 3", "last = 3\\", 7),
    ],
)
def test_statements_around_an_edit_are_taken_over(old: str, new: str, kept: int) -> None:
    assert kept_of(TEXT, TEXT.replace(old, new)) == kept


def test_a_line_that_goes_on_has_what_follows_parsed_with_it() -> None:
    text = "x = 1 \\\n\ny = 2\n"
    assert kept_of(text, "x = 1 \\\n- 2\ny = 2\n") == 0


def test_a_text_that_parses_again_is_held_against_the_last_that_did() -> None:
    latest = LatestTree()
    for text in (TEXT, TEXT.replace("last = 3", "last = ("), TEXT.replace("last = 3", "last = (4)")):
        assert reparsed_or_error(latest, text) == parsed_or_error(text)


def test_any_edits_of_any_scripts_give_the_tree_of_the_text() -> None:
    chosen = random.Random(5)
    for path in chosen.sample(SCRIPTS, 25):
        latest, text = LatestTree(), path.read_text()
        reparsed_or_error(latest, text)
        for _ in range(40):
            start = chosen.randrange(len(text) + 1)
            end = min(len(text), start + chosen.choice([0, 0, 0, 1, 2, 9]))
            after = text[:start] + chosen.choice(TYPED) + text[end:]
            assert reparsed_or_error(latest, after) == parsed_or_error(after), (path, start, end)
            text = after if chosen.random() < 0.3 else text


def test_the_tree_of_another_file_is_its_own(tmp_path: Path) -> None:
    latest = LatestTree()
    with latest.serving("a.py"):
        tree = Source("a.py", "x = 1\n").tree
        assert Source("a.py", "x = 1\n").tree.body[0] is tree.body[0]
        assert Source("b.py", "x = 1\n").tree.body[0] is not tree.body[0]
    assert Source("a.py", "x = 1\n").tree.body[0] is not tree.body[0]
    with latest.serving("b.py"):
        assert latest.tree is None


def test_another_text_of_the_file_in_the_same_check_leaves_its_tree_as_it_is() -> None:
    latest = LatestTree()
    for text in ("x = 1\ny = 2\n", "x = 1\n\ny = 2\n"):
        with latest.serving("a.py"):
            source, other = Source("a.py", text), Source("a.py", f"\n{text}")
            before = ast.dump(source.tree, include_attributes=True)
            assert other.tree.body[0] is not source.tree.body[0]
            assert ast.dump(source.tree, include_attributes=True) == before == parsed_or_error(text)


def test_a_statement_that_gets_other_lines_forgets_what_held_the_old_ones() -> None:
    latest, asked = LatestTree(), list[str]()

    def lines(statement: ast.stmt) -> list[int]:
        asked.append("lines")
        return [statement.lineno]

    def calls(statement: ast.stmt) -> list[tuple[str, ast.AST]]:
        asked.append("calls")
        return [(ast.unparse(node), node) for node in ast.walk(statement) if isinstance(node, ast.Call)]

    found = list[tuple[list[int], list[str], int]]()
    for text in ("f(1)\n", "\n\nf(1)\n", "\nf(1)\n"):
        with latest.serving("a.py"):
            source = Source("a.py", text)
            called = source.gathered(calls)
            line = source.location(source.nodes_of(ast.Call)[0]).line
            found.append((source.gathered(lines), [code for code, _ in called], line))
    assert found == [([1], ["f(1)"], 1), ([3], ["f(1)"], 3), ([2], ["f(1)"], 2)]
    assert asked == ["calls", "lines", "lines", "lines"]


def test_a_location_moves_with_its_node_and_that_of_a_result_does_not() -> None:
    latest, rules = LatestTree(), load_rules()
    text = (ROOT / "fixtures" / "course" / "as_published.py").read_text()
    with latest.serving("train.py"):
        source = Source("train.py", text)
        node = source.tree.body[-1]
        location = source.location(node)
        reading = check_source(source, rules, TargetVersions)
        before, line = repr(reading), location.line
    with latest.serving("train.py"):
        source = Source("train.py", f"\n{text}")
        assert source.location(source.tree.body[-1]) is location
        assert location.line == line + 1
    assert reading.reported
    assert reading.training
    assert repr(reading) == before


@pytest.mark.parametrize("seed", range(4))
def test_findings_with_kept_statements_are_those_of_the_text_alone(seed: int) -> None:
    chance, rules, latest = random.Random(seed), load_rules(), LatestTree()
    lines = script_text().split("\n")[: 400 + 100 * seed]
    for _ in range(12):
        number = chance.randrange(len(lines))
        before = lines[number]
        lines[number : number + chance.choice([1, 1, 1, 2, 5])] = [chance.choice(EDITED)(before)]
        with latest.serving("train.py"):
            kept = findings("\n".join(lines), rules)
        assert kept == findings("\n".join(lines), rules)
        lines[number] = chance.choice([before, lines[number]])


@pytest.mark.parametrize("seed", range(3))
def test_findings_of_a_course_with_kept_statements_are_those_of_the_text_alone(seed: int) -> None:
    chance, rules, latest = random.Random(seed), load_rules(), LatestTree()
    course = sorted((ROOT / "fixtures" / "course").glob("*.py"))
    lines = "\n".join(path.read_text() for path in chance.sample(course, 3)).split("\n")
    for _ in range(16):
        number = chance.randrange(len(lines))
        before = lines[number]
        lines[number : number + chance.choice([1, 1, 1, 2, 5])] = [chance.choice([*EDITED, *UNRULY])(before)]
        text = "\n".join(lines)
        with latest.serving("train.py"):
            kept = findings(text, rules)
        assert kept == findings(text, rules)
        lines[number] = chance.choice([before, lines[number]])


UNRULY: list[Callable[[str], str]] = [
    lambda line: f"{line}; loss.backward()",
    lambda line: f"{line}\n",
    lambda line: line.lstrip(),
    lambda line: f'{line}"',
    lambda line: line.replace("model", "modèle"),
    lambda line: line[: len(line) // 2],
    lambda line: f"{line}.detach()",
]
"""Edits that may leave no code, or other code than a statement of their own."""

EDITED: list[Callable[[str], str]] = [
    lambda line: f"{line}  # typed",
    lambda line: f"\n{line}",
    lambda line: f"{line[: len(line) - len(line.lstrip())]}count = 1\n{line}",
    lambda line: "",
    lambda line: line.replace("loss", "total"),
    lambda line: line.replace("1e-4", "5.0").replace("step()", "item()"),
    lambda line: line.replace("=", "+=", 1),
    lambda line: f"{line[: len(line) - len(line.lstrip())]}optimizer.zero_grad()",
]


def findings(text: str, rules: Sequence[RuleFile]) -> list[str]:
    reading = check_source(Source("train.py", text), rules, TargetVersions)
    assert not reading.crashes
    return sorted(map(repr, reading.reported))
