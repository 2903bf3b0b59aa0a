"""Classes of attrs that a server makes at its start compare and show as those of attrs do."""

from __future__ import annotations

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
