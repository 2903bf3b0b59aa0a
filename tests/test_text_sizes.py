"""Numbers as a reader needs them: those that are not finite by name, large ones without digits that mean nothing."""

from __future__ import annotations

import math

import pytest

from lintrain.text import rounded, show_number, show_share


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.69314, "0.693"),
        (-12.5, "-12.500"),
        (697642189267973.0, "6.98e+14"),
        (math.nan, "NaN"),
        (math.inf, "infinity"),
        (-math.inf, "-infinity"),
    ],
)
def test_a_number_is_short_and_named_if_it_is_not_finite(number: float, text: str) -> None:
    assert show_number(number) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.1234, "12%"), (9.5, "950%"), (6976421892679.73, "6.98e+12 times"), (math.nan, "NaN"), (math.inf, "infinity")],
)
def test_a_share_of_many_times_the_whole_is_a_multiple(share: float, text: str) -> None:
    assert show_share(share) == text


@pytest.mark.parametrize(
    ("number", "text"), [(1.2345, "1.23"), (12345.6, "12,346"), (math.nan, "NaN"), (math.inf, "infinity")]
)
def test_a_rounded_number_is_named_if_it_is_not_finite(number: float, text: str) -> None:
    assert rounded(number) == text
