"""Python's thresholds of garbage collection under a probe."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from lintrain.runtime.child.surroundings import RARELY, Thresholds


@pytest.fixture(autouse=True)
def _pythons_own() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_a_script_trains_with_the_thresholds_that_python_started_with() -> None:
    before = gc.get_threshold()
    thresholds = Thresholds()
    thresholds.raise_them()
    assert gc.get_threshold() == RARELY
    thresholds.put_back()
    assert gc.get_threshold() == before


def test_thresholds_that_a_script_sets_stay() -> None:
    thresholds = Thresholds()
    thresholds.raise_them()
    gc.set_threshold(100, 5, 5)
    thresholds.put_back()
    assert gc.get_threshold() == (100, 5, 5)
