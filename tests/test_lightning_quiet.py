"""The arguments of a Lightning Trainer in a probe."""

from __future__ import annotations

from collections import UserList
from types import SimpleNamespace
from typing import Any

import pytest

from lintrain.runtime.frameworks.lightning.quiet import quiet_arguments


class RichProgressBar:
    """A callback that Lightning refuses beside `enable_progress_bar=False`."""


@pytest.mark.parametrize(
    ("callbacks", "is_off"),
    [(None, True), ([object()], True), ([RichProgressBar()], False), (UserList([RichProgressBar()]), False)],
)
def test_a_progress_bar_among_the_callbacks_is_kept(callbacks: Any, *, is_off: bool) -> None:
    session: Any = SimpleNamespace(processes=1, device="cpu", folder=lambda _name: "out", shorten=lambda _text: None)
    arguments: dict[str, Any] = {"callbacks": callbacks, "logger": None}
    quiet_arguments(session, object(), arguments)
    assert ("enable_progress_bar" in arguments) is is_off
