"""What the reader makes of configurations: command lines, classes that are filled from them, files of settings."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.pipeline.values.python import Constant, Unknown
from tests.test_reader_language import plain, value_of

PARSER = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
"""


def known(code: str) -> tuple[object, bool] | None:
    """The literal that `x` is, and whether only by default; None where it is not known."""
    value = value_of(PARSER + dedent(code))
    assert isinstance(value, Constant | Unknown)
    return (value.value, value.is_default) if isinstance(value, Constant) else None


@pytest.mark.parametrize(
    "code",
    [
        "x = parser.parse_args().lr",
        "x = parser.parse_args([]).lr",
        "x = parser.parse_known_args()[0].lr",
        "x = vars(parser.parse_args())['lr']",
        "x = parser.parse_args().__dict__['lr']",
        "x = argparse.Namespace(**vars(parser.parse_args())).lr",
        "other = argparse.ArgumentParser(parents=[parser]); x = other.parse_args().lr",
        "group = parser.add_argument_group('g'); group.add_argument('--y', default=1e-3); x = parser.parse_args().y",
        "parser.add_argument('--y'); parser.set_defaults(y=1e-3); x = parser.parse_args().y",
    ],
)
def test_an_option_is_known_as_a_default(code: str) -> None:
    assert known(code) == (1e-3, True)


def test_a_switch_with_two_forms_has_its_default() -> None:
    code = "parser.add_argument('--fp16', action=argparse.BooleanOptionalAction, default=True)"
    assert known(f"{code}\nx = parser.parse_args().fp16") == (True, True)


@pytest.mark.parametrize(
    "code",
    [
        "parser.add_argument('y', default=3)",
        "parser.add_argument('--y', default=3, required=True)",
        "parser.add_argument('--y', default=3); parser.set_defaults(**load())",
    ],
)
def test_a_default_that_is_never_used_or_may_be_replaced_is_unknown(code: str) -> None:
    assert known(f"{code}\nx = parser.parse_args().y") is None


def test_a_positional_argument_that_may_be_left_out_has_its_default() -> None:
    assert known("parser.add_argument('y', nargs='?', default=3)\nx = parser.parse_args().y") == (3, True)


@pytest.mark.parametrize(
    "change",
    ["vars(args).update(load())", "args.__dict__.update(load())", "for k, v in load(): setattr(args, k, v)"],
)
def test_options_that_something_unknown_is_written_over_are_unknown(change: str) -> None:
    assert known(f"args = parser.parse_args()\n{change}\nx = args.lr") is None


def test_options_that_known_settings_are_written_over_are_those() -> None:
    assert known("args = parser.parse_args()\nvars(args).update({'lr': 5.0})\nx = args.lr") == (5.0, False)


def test_a_dictionary_that_something_unknown_is_written_over_is_unknown() -> None:
    assert plain(value_of("x = {'a': 1, **load(), 'b': 2}")) == {"a": "unknown", "b": 2}
