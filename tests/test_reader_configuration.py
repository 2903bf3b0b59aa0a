"""What the reader makes of configurations: command lines, classes that are filled from them, files of settings."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.pipeline.values.python import Constant, Sequence, Unknown
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
    return (value.value, bool(value.default)) if isinstance(value, Constant) else None


@pytest.mark.parametrize(
    "code",
    [
        "x = parser.parse_args().lr",
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


def test_an_option_that_nobody_can_pass_is_its_default() -> None:
    assert known("x = parser.parse_args([]).lr") == (1e-3, False)


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


MAIN = """
def main(lr, size=3):
    global x
    x = (lr, size)
"""


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ("@click.command()\n@click.option('--lr', '-l', default=0.1)", 0.1),
        ("@click.command()\n@click.option('--learning-rate', 'lr', default=0.1, type=float)", 0.1),
        ("@click.command()\n@click.option('--lr', default=0.1, required=True)", "unknown"),
        ("@click.command()\n@click.option('--lr', type=float)", "unknown"),
    ],
)
def test_a_click_option_gives_its_parameter_a_default(marks: str, expected: object) -> None:
    value = value_of(f"import click\n{marks}{MAIN}\nmain()", "x[0]")
    assert plain(value) == expected
    assert not isinstance(value, Constant) or value.default


def test_a_typer_option_is_a_default() -> None:
    code = "import typer\ndef main(lr: float = typer.Option(0.1), name: str = typer.Option(...)): return (lr, name)\n"
    value = value_of(f"{code}x = main()")
    assert plain(value) == (0.1, "unknown")
    assert isinstance(value, Sequence)
    assert isinstance(value.items[0], Constant)
    assert value.items[0].default


@pytest.mark.parametrize(
    ("head", "is_default"),
    [
        ("from pydantic import BaseModel\nclass C(BaseModel):", False),
        ("from pydantic_settings import BaseSettings\nclass C(BaseSettings):", True),
        ("import attrs\n@attrs.define\nclass C:", False),
    ],
)
def test_fields_that_the_environment_may_give_are_defaults(head: str, is_default: bool) -> None:
    value = value_of(f"{head}\n    lr: float = 0.1\n    size: int = 2\nx = C(size=3)", "x.lr")
    assert isinstance(value, Constant)
    assert (value.value, bool(value.default)) == (0.1, is_default)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("c = OmegaConf.create({'a': {'b': 1}}); x = c.a.b", 1),
        ("c = OmegaConf.create({'a': 1, 'b': '${a}', 'c': '???'}); x = (c.a, c.b, c['c'])", (1, "unknown", "unknown")),
        ("x = OmegaConf.merge({'a': 1, 'b': {'c': 2, 'd': 3}}, {'b': {'c': 4}}).b", {"c": 4, "d": 3}),
        ("x = OmegaConf.to_container(OmegaConf.create({'a': 1}))", {"a": 1}),
        ("x = OmegaConf.merge({'a': 1}, load())", "unknown"),
        ("c = OmegaConf.create({'a': 1}); c.a = 2; x = c.a", 2),
        ("x = EasyDict(a=1).a", 1),
        ("c = EasyDict({'a': 1}); c.b = 2; x = (c.a, c.b, c.get('a'))", (1, 2, 1)),
    ],
)
def test_settings_are_attributes(code: str, expected: object) -> None:
    assert plain(value_of(f"from omegaconf import OmegaConf\nfrom easydict import EasyDict\n{code}")) == expected


def test_settings_that_the_command_line_is_merged_into_are_defaults() -> None:
    code = "from omegaconf import OmegaConf\nx = OmegaConf.merge({'a': 1}, OmegaConf.from_cli()).a"
    value = value_of(code)
    assert isinstance(value, Constant)
    assert (value.value, bool(value.default)) == (1, True)
