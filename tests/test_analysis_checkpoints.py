"""Statements that load weights without a check of the missing ones."""

from __future__ import annotations

import pytest

from lintrain.analysis import checkpoints
from lintrain.source.source import Source


def loads_in(code: str) -> list[tuple[str, str | None]]:
    """The code of each unchecked load, and of the call that reads its file."""
    found = checkpoints.unchecked_loads(Source("train.py", code))
    return [(each.call.code, each.read.code if each.read else None) for each in found]


def test_a_load_without_a_check_comes_with_the_call_that_reads_its_file() -> None:
    code = "saved = torch.load( 'a.pt' )\nnet.load_state_dict(saved['net'], strict=False)\n"
    assert loads_in(code) == [("net.load_state_dict(saved['net'], strict=False)", "torch.load('a.pt')")]


def test_the_file_of_a_load_may_be_unknown() -> None:
    code = "self.net.load_state_dict(strict=False)\nnet.load_state_dict(state, strict=False)\n"
    assert [read for _, read in loads_in(code)] == [None, None]


@pytest.mark.parametrize(
    "code",
    [
        "net.load_state_dict(saved)",
        "net.load_state_dict(saved, strict=True)",
        "net.load_state_dict(saved, strict=0)",
        "net.load_state_dict(saved, other=False)",
        "keys = net.load_state_dict(saved, strict=False)",
        "net.load(saved, strict=False)",
        "net.head.load_state_dict(saved, strict=False)",
    ],
)
def test_other_loads_are_not_unchecked_loads_of_a_whole_model(code: str) -> None:
    assert loads_in(code) == []
