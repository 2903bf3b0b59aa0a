"""Events that lintrain's own code signs in the probed process, and those that it did not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lintrain.runtime.child.channel import EVENTS, Channel, Signer, take_key, take_named_key
from lintrain.runtime.parent.events import EventFile, UntrustworthyError


@pytest.fixture
def events(tmp_path: Path) -> EventFile:
    return EventFile(tmp_path, senders=2)


def channel(folder: Path) -> Channel:
    found = Channel(str(folder / EVENTS))
    found.signer = take_key(str(folder))
    return found


def test_each_sender_takes_a_key_of_its_own_and_no_key_is_left(tmp_path: Path, events: EventFile) -> None:
    first, second, third = (channel(tmp_path) for _ in range(3))
    for each in (first, second, third):
        each.send("started", pid=1)
    assert [event["pid"] for event in events.new_events()] == [1, 1]
    assert third.signer is None
    assert [path.name for path in tmp_path.iterdir()] == [EVENTS]


def test_a_key_that_was_passed_on_twice_signs_as_well(tmp_path: Path, events: EventFile) -> None:
    for depth in range(3):
        sender = channel(tmp_path)
        for path in tmp_path.glob("key-*"):
            path.unlink()
        sender.send("started", pid=depth)
        assert sender.signer is not None
        sender.signer.leave_keys(str(tmp_path), 1)
    assert [event["pid"] for event in events.new_events()] == [0, 1, 2]


def test_a_key_for_a_program_is_taken_once_and_by_its_name(tmp_path: Path, events: EventFile) -> None:
    giver = take_key(str(tmp_path))
    take_key(str(tmp_path))
    assert giver is not None
    [name, other] = giver.leave_named_keys(str(tmp_path), 2)
    assert take_key(str(tmp_path)) is None
    assert take_named_key(str(tmp_path), [f"../{tmp_path.name}/{name}"]) is None
    sender = Channel(str(tmp_path / EVENTS))
    sender.signer = take_named_key(str(tmp_path), [name])
    sender.send("started", pid=7)
    assert take_named_key(str(tmp_path), [name]) is None
    sender.signer = take_named_key(str(tmp_path), [name, other])
    sender.send("started", pid=8)
    assert [event["pid"] for event in events.new_events()] == [7, 8]


def changed(line: bytes, number: int) -> bytes:
    return line[:number] + bytes([line[number] ^ 1]) + line[number + 1 :]


def test_no_byte_of_a_signed_line_can_be_another(tmp_path: Path, events: EventFile) -> None:
    channel(tmp_path).send("started", pid=1)
    line = (tmp_path / EVENTS).read_bytes()
    events.close()
    key_file = tmp_path / EVENTS
    for number in range(len(line) - 1):
        key_file.unlink()
        other = EventFile(tmp_path, senders=0)
        other._signatures = events._signatures  # pyright: ignore[reportPrivateUsage]
        key_file.write_bytes(changed(line, number))
        with pytest.raises(UntrustworthyError, match="not signed"):
            other.new_events()
        other.close()


def test_a_line_that_comes_again_is_seen(tmp_path: Path, events: EventFile) -> None:
    channel(tmp_path).send("started", pid=1)
    line = (tmp_path / EVENTS).read_bytes()
    with (tmp_path / EVENTS).open("ab") as opened:
        opened.write(line)
    with pytest.raises(UntrustworthyError, match="event 2 came twice"):
        events.new_events()


@pytest.mark.parametrize("name", ["0.x", "0.", ".1", "7", "", "0.²", "é", "0.1" + ".1" * 100])
def test_a_name_that_no_key_has_signs_nothing(tmp_path: Path, events: EventFile, name: str) -> None:
    line = Signer("0", b"\0" * 32).signed(json.dumps({"event": "started", "pid": 1}).encode())
    mark, _, said = line.partition(b" ")
    (tmp_path / EVENTS).write_bytes(mark + b" " + name.encode() + said[1:] + b"\n")
    with pytest.raises(UntrustworthyError, match="not signed"):
        events.new_events()
