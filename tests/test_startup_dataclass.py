"""Classes whose methods are written late are the dataclasses that the standard library makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, replace
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter

from lintrain.model.location import Location
from lintrain.startup import lazy_dataclass

Decorator = Callable[..., Any]


def family(dataclass: Decorator) -> tuple[Any, Any, Any]:
    """A frozen class with slots, one that inherits of it, and one of the other kind with a subclass's `__init__`."""

    @dataclass(frozen=True, slots=True)
    class Batch:
        """Rows."""

        kinds: ClassVar[int] = 2
        rows: int
        names: list[str] = field(default_factory=list[str])
        size: int = 3

        @property
        def cells(self) -> int:
            return self.rows * self.size

    @dataclass(frozen=True, slots=True)
    class Padded(Batch):
        size: int = 5
        side: str = "right"

    @dataclass(frozen=True, slots=True)
    class Last(Padded):
        """One that adds no field."""

    @dataclass(eq=False)
    class Seen:
        steps: int
        losses: list[float] = field(default_factory=list[float])

    class Started(Seen):
        def __init__(self) -> None:
            super().__init__(7)  # pyright: ignore[reportUnknownMemberType]

    return Batch, Last, Started


def shown(dataclass: Decorator) -> list[object]:
    batch, padded, started = family(dataclass)
    one, other = padded(1, side="left"), padded(1, side="left")
    return [
        [(each.name, each.type, each.kw_only) for each in dataclasses.fields(padded)],
        (padded.__match_args__, padded.__slots__, batch.__slots__, batch.kinds, batch.__doc__),
        (repr(one), one == other, one == batch(1), one.cells, dataclasses.asdict(one)),
        (replace(one, rows=2), copy.copy(one) == one, hasattr(one, "__dict__")),
        hash(dataclass(frozen=True, slots=True)(type("Two", (), {"__annotations__": {"a": "int"}}))(4)),
        (repr(started()).rpartition(".")[2], started() == started(), "losses" in vars(started.__mro__[1])),
    ]


def test_every_kind_of_class_is_what_the_standard_library_makes() -> None:
    assert str(shown(lazy_dataclass.dataclass)) == str(shown(dataclasses.dataclass))


@pytest.mark.parametrize("options", [{"order": True, "slots": True}, {"slots": True}, {"order": True}, {}])
def test_comparing_and_hashing_are_what_the_standard_library_writes(options: dict[str, bool]) -> None:
    def answers(dataclass: Decorator) -> list[object]:
        annotations = {"a": "int", "work": "object"}
        made: Any = dataclass(**options)(
            type("Queued", (), {"__annotations__": annotations, "work": field(compare=False, default=None)})
        )
        ordered = sorted([made(2, 1), made(1, 2)]) if options.get("order") else []
        return [made(1, 2) == made(1, 3), made(1) == made(2), made.__hash__, [each.a for each in ordered]]

    assert answers(lazy_dataclass.dataclass) == answers(dataclasses.dataclass)


@pytest.mark.parametrize("name", ["rows", "unheard_of"])
def test_a_frozen_instance_cannot_be_changed(name: str) -> None:
    batch, *_ = family(lazy_dataclass.dataclass)
    with pytest.raises((FrozenInstanceError, TypeError)):
        setattr(batch(1), name, 2)


def test_nothing_is_written_of_a_class_without_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    by_library: Decorator = dataclasses.dataclass

    def dataclass(**options: bool) -> Callable[[type], type]:
        def noted(cls: type) -> type:
            written.append(cls.__name__)
            return by_library(cls, **options)  # type: ignore[no-any-return]

        return noted

    monkeypatch.setattr(dataclasses, "dataclass", dataclass)
    batch, padded, _ = family(lazy_dataclass.dataclass)
    assert not written
    padded(1)
    padded(2)
    assert sorted(written) == ["Batch", "Last", "Padded"]
    assert batch(1).rows == 1
    assert len(written) == 3
    assert batch(1) == batch(1)
    assert written[3:] == ["Batch"]


def test_an_instance_of_another_process_is_whole() -> None:
    location = Location("train.py", 3, 1, 3, 9)
    program = (
        "import pickle, sys; place = pickle.load(sys.stdin.buffer); print(place == pickle.loads(pickle.dumps(place)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(location), capture_output=True, check=True
    )
    assert told.stdout == b"True\n"


def test_a_schema_reads_such_a_class() -> None:
    assert TypeAdapter(Location).validate_python(dataclasses.asdict(Location("a.py", 1, 2, 3, 4))) == Location(
        "a.py", 1, 2, 3, 4
    )


def test_a_pattern_takes_such_a_class_apart() -> None:
    match Location("a.py", 1, 2, 3, 4):
        case Location(path, line):
            assert (path, line) == ("a.py", 1)


def test_what_cannot_wait_is_made_at_once() -> None:
    @lazy_dataclass.dataclass(frozen=True)
    class Named:
        name: str

    @lazy_dataclass.dataclass
    class Counted:
        given: dataclasses.InitVar[int]
        count: int = 0

        def __post_init__(self, given: int) -> None:
            self.count = given

    assert Counted(4).count == 4
    with pytest.raises(FrozenInstanceError):
        Named("a").name = "b"  # type: ignore[misc]
