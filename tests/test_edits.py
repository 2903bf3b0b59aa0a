"""What a fix changes, as edits of the file itself."""

from __future__ import annotations

import json

import pytest

from lintrain.check.fixing import TextEdits
from lintrain.fix import Tree, read_tree
from lintrain.model.fixes import AddImport, Fix, InsertBefore, RemoveArgument, Replace
from lintrain.model.location import Location
from lintrain.source.reading import read_bytes
from lintrain.source.source import Source
from tests.support.notebooks import notebook


def edited(source: Source, fix: Fix) -> str:
    """The file with the edits put in from the last to the first, as a program does that gets them in a report."""
    lines = source.file_text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    text = source.file_text
    for edit in reversed(TextEdits()(source, fix)):
        start = starts[edit.location.line - 1] + edit.location.column - 1
        end = starts[edit.location.end_line - 1] + edit.location.end_column - 1
        text = text[:start] + edit.text + text[end:]
    return text


def test_an_edit_is_only_what_changes() -> None:
    source = read_bytes("t.py", b"x = 1\nf(a, lr=1)\n")
    (edit,) = TextEdits()(source, Fix.of("less", RemoveArgument(Location("t.py", 2, 1, 2, 11), "lr"), safe=True))
    assert (edit.location, edit.text) == (Location("t.py", 2, 4, 2, 10), "")


def test_a_fix_in_two_places_is_two_edits() -> None:
    source = read_bytes("t.py", "import os\n\nx = '😀é\x0c'; mistake()\n".encode())
    fix = Fix.of("two", AddImport("math"), Replace(Location("t.py", 3, 12, 3, 21), "math.right()"), safe=True)
    assert len(TextEdits()(source, fix)) == 2
    assert edited(source, fix) == "import math\nimport os\n\nx = '😀é\x0c'; math.right()\n"


def test_lines_that_are_put_in_end_as_those_of_the_file() -> None:
    source = read_bytes("t.py", b"a\r\nb\r\n")
    (edit,) = TextEdits()(source, Fix.of("more", InsertBefore(Location("t.py", 2, 1, 2, 2), "c"), safe=True))
    assert (edit.location, edit.text) == (Location("t.py", 2, 1, 2, 1), "c\r\n")


@pytest.mark.parametrize("ascii_only", [True, False])
def test_edits_of_a_notebook_are_those_of_its_json(ascii_only: bool) -> None:
    cells = json.loads(notebook("#md x", "a = '\"😀'\n!ls\nmistake('é')"))
    source = read_bytes("n.ipynb", json.dumps(cells, ensure_ascii=ascii_only, indent=1).encode())
    fix = Fix.of("right", Replace(Location("n.ipynb", 4, 1, 4, 13), 'right("é")'), safe=True)
    after = json.loads(edited(source, fix))
    assert "".join(after["cells"][1]["source"]) == 'a = \'"😀\'\n!ls\nright("é")'
    assert len(TextEdits()(source, fix)[0].text) < 40


def test_a_fix_that_cannot_be_written_has_no_edits() -> None:
    source = read_bytes("t.py", b"f()\n")
    assert TextEdits()(source, Fix.of("broken", Replace(Location("t.py", 1, 1, 1, 4), "f("), safe=True)) == ()


def test_the_tree_of_a_file_is_read_once_for_all_its_fixes(monkeypatch: pytest.MonkeyPatch) -> None:
    import lintrain.fix

    read: list[str] = []

    def counted(text: str) -> Tree:
        read.append(text)
        return read_tree(text)

    monkeypatch.setattr(lintrain.fix, "read_tree", counted)
    one, other = read_bytes("t.py", b"f(a)\ng(a)\n"), read_bytes("u.py", b"f(b)\n")
    edits = TextEdits()
    first, second = Location("t.py", 1, 3, 1, 4), Location("t.py", 2, 3, 2, 4)
    texts = [edits(one, Fix.of("new", Replace(location, "c"), safe=True)) for location in (first, second)]
    assert [[(edit.location, edit.text) for edit in each] for each in texts] == [[(first, "c")], [(second, "c")]]
    edits(other, Fix.of("new", Replace(first, "c"), safe=True))
    assert read == [one.text, other.text]
