"""Classes of attrs that a server defines at its start are made when they are used, and then are as those of attrs."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import attrs
import pytest

from lintrain.startup.light_attrs import light_attrs


def made(define: Any) -> Any:
    @define
    class Place:
        line: int = attrs.field()
        column: int = attrs.field(default=0)

    return Place


@pytest.fixture
def light() -> Any:
    with light_attrs():
        return made(attrs.define)


def test_objects_compare_by_their_fields_and_their_class(light: Any) -> None:
    assert light(1, 2) == light(1, 2)
    assert light(1, 2) != light(1, 3)
    assert light(1) != made(attrs.define)(1)
    assert light.__hash__ is made(attrs.define).__hash__ is None


def test_objects_show_their_fields(light: Any) -> None:
    assert repr(light(1)) == "Place(line=1, column=0)"


def test_methods_and_options_of_a_class_are_kept() -> None:
    with light_attrs():

        @attrs.define(eq=False)
        class Alone:
            line: int

        @attrs.define
        class Own:
            line: int

            def __eq__(self, other: object) -> bool:
                return True

            def __repr__(self) -> str:
                return "own"

    assert Alone(1) != Alone(1)
    assert Own(1) == Own(2)
    assert repr(Own(1)) == "own"


def fail_inside(before: object) -> None:
    with light_attrs():
        assert attrs.define is not before
        raise ValueError("inside")


def test_attrs_is_as_before_afterwards() -> None:
    before = attrs.define
    with pytest.raises(ValueError, match="inside"):
        fail_inside(before)
    assert attrs.define is before


def test_types_of_the_protocol_compare_and_show_in_the_server() -> None:
    from lsprotocol.types import Position, Range, TextEdit

    import lintrain.server  # noqa: F401 - it imports them first

    one, other = (Range(start=Position(1, 2), end=Position(3, 4)) for _ in range(2))
    assert one == other
    assert one != Range(start=Position(1, 2), end=Position(3, 5))
    assert repr(TextEdit(one, "x")) == "TextEdit(range=1:2-3:4, new_text='x')"


def test_a_class_is_made_when_something_uses_it() -> None:
    made_for: list[type] = []

    def noted(cls: type | None = None, **options: Any) -> Any:
        made_for.append(cls or object)
        return plain(cls, **options)

    plain = attrs.define
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attrs, "define", noted)
        with light_attrs():
            place = made(attrs.define)
        assert not made_for
        assert [field.name for field in attrs.fields(place)] == ["line", "column"]
        assert place(1, 2).column == 2
    assert made_for == [place]


def test_a_class_with_options_makes_its_objects_as_attrs_does() -> None:
    with light_attrs():

        @attrs.define
        class Range:
            start: object = attrs.field(validator=attrs.validators.instance_of(object))
            end: int | None = attrs.field(default=None)

        @attrs.define
        class Later(Range):
            size: int = attrs.field(default=1, converter=int)

    assert [field.name for field in attrs.fields(Later)] == ["start", "end", "size"]
    assert Later(1, size="3").size == 3
    assert Later(1) != Range(1)
    assert (Range(2).end, Range(2).start) == (None, 2)
    match Range(1, 2):
        case Range(start, end):
            assert (start, end) == (1, 2)
    with pytest.raises(TypeError):
        Range()  # type: ignore[call-arg] # what it tests


def test_threads_that_use_a_class_at_once_all_get_it_made() -> None:
    for _ in range(20):
        with light_attrs():
            place = made(attrs.define)
        gate = Barrier(4)

        def use(place: Any = place, gate: Barrier = gate) -> tuple[int, int]:
            gate.wait()
            one = place(1)
            return one.line, one.column

        with ThreadPoolExecutor(4) as pool:
            assert [each.result() for each in [pool.submit(use) for _ in range(4)]] == [(1, 0)] * 4


def test_a_server_that_starts_makes_few_of_the_classes_of_the_protocol() -> None:
    code = (
        "from lintrain.server.features import make_server; from lsprotocol import types; import lsprotocol._hooks as h;"
        "make_server(); assert h._resolved_forward_references;"
        "classes = [c for c in vars(types).values() if isinstance(c, type) and '__attrs_attrs__' in vars(c)];"
        "print(len(classes), sum(isinstance(vars(c)['__attrs_attrs__'], tuple) for c in classes))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    classes, in_use = map(int, shown.split())
    assert classes > 400
    assert in_use < 60
