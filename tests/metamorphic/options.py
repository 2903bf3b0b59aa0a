"""Literals turned into options: of a command line, of a dataclass, of a YAML file."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.metamorphic.editing import after_imports, literal, name_of_call, outside_strings, replaced
from tests.metamorphic.script import Line, Script

Value = int | float | str | bool
USUAL = re.compile(
    r"lr$|rate|seed|epochs|steps|batch_size|length|warmup|decay|gamma|momentum|labels|ratio|dropout|norm$|patience|alpha"
    r"|strategy|metric|_dir|workers|classes|smoothing|buffer_size|(test|step)_size"
)
"""Arguments that are usually options."""
CONFIGURES = re.compile(r"(Arguments|Config)$")
"""Calls all of whose arguments are options."""
NAMED = {
    "from_pretrained": ("checkpoint",),
    "load_dataset": ("dataset", "task"),
    "manual_seed": ("seed",),
    "set_seed": ("seed",),
    "seed_everything": ("seed",),
    "TrainingArguments": ("output_dir",),
    "Seq2SeqTrainingArguments": ("output_dir",),
}
"""The names of positional arguments."""
DECLARES = ("field", "add_argument")
CONFIGURED = re.compile(r"argparse|ArgumentParser|sys\.argv|\byaml\b|\bjson\b")
LONGEST = 60
NAMES = ("options", "opt", "given_values")
"""The variable for the options is the first of these that the script does not contain."""
FILE = "options.yaml"


@dataclass(frozen=True, slots=True)
class Option:
    """A literal, the name of its option, and its value."""

    node: ast.expr
    name: str
    value: Value


Declaring = Callable[[str, Sequence[Option]], list[str]]
"""Returns the lines that create the options in a variable of this name."""


def take_options_from_argparse(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with its literals as defaults of command-line options."""
    return _taken(script, _parser, "{}.{}")


def take_options_from_dataclass(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with its literals as fields of a dataclass."""
    return _taken(script, _dataclass, "{}.{}")


def take_options_from_parsed_dataclass(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with its literals as fields of a dataclass that `HfArgumentParser` fills."""
    return _taken(script, _parsed_dataclass, "{}.{}")


def take_options_from_yaml(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with its literals in a YAML file."""
    made = _taken(script, _reading, '{}["{}"]')
    if made is None:
        return None
    beside = tuple(Line(f"{one.name}: {_in_yaml(one.value)}") for one in _distinct(_options(script)))
    return replace(made, beside={**made.beside, FILE: beside})


def _taken(script: Script, declare: Declaring, use: str) -> Script | None:
    options = _options(script)
    if not script.is_entry or not options or CONFIGURED.search(script.text):
        return None
    name = next(each for each in NAMES if each not in script.text)
    made = replaced(script, {one.node: use.format(name, one.name) for one in options})
    return after_imports(made, declare(name, _distinct(options)))


def _options(script: Script) -> list[Option]:
    """The literals that become options; if two with one name differ, the second gets a number."""
    values: dict[str, Value] = {}
    options: list[Option] = []
    for node, name in _candidates(script.tree):
        value = literal(node)
        if value is None or (isinstance(value, str) and not 0 < len(value) <= LONGEST):
            continue
        free = (f"{name}{number}" for number in ["", *(f"_{more}" for more in range(2, 99))])
        chosen = next(each for each in free if each not in values or _is_same(values[each], value))
        values[chosen] = value
        options.append(Option(node, chosen, value))
    return options


def _is_same(one: Value, other: Value) -> bool:
    return type(one) is type(other) and one == other


def _distinct(options: Sequence[Option]) -> list[Option]:
    return list({one.name: one for one in options}.values())


def _candidates(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Expressions that may become options, with their names."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if names.count(name) == 1:
                if literal(value) is not None:
                    yield value, name.lower()
            case _:
                pass
    for node in outside_strings(tree):
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[number])):
                if re.search("epoch|^_$", name):
                    yield number, "epochs"
            case ast.Call() if name_of_call(node) not in DECLARES:
                yield from _arguments(node)
            case _:
                pass


def _arguments(call: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    function = name_of_call(call)
    yield from zip(call.args, NAMED.get(function, ()), strict=False)
    for keyword in call.keywords:
        is_usual = USUAL.search(keyword.arg or "") and not isinstance(literal(keyword.value), bool)
        if keyword.arg and (is_usual or CONFIGURES.search(function)):
            yield keyword.value, keyword.arg


def _parser(name: str, options: Sequence[Option]) -> list[str]:
    declared = [f'    parser.add_argument("--{one.name}", {_kind(one.value)}default={one.value!r})' for one in options]
    return [
        "import argparse",
        "",
        "",
        "def parse_options():",
        "    parser = argparse.ArgumentParser()",
        *declared,
        "    return parser.parse_args()",
        "",
        "",
        f"{name} = parse_options()",
    ]


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "action=argparse.BooleanOptionalAction, "
    return "" if isinstance(value, str) else f"type={type(value).__name__}, "


def _dataclass(name: str, options: Sequence[Option]) -> list[str]:
    fields = [f"    {one.name}: {type(one.value).__name__} = {one.value!r}" for one in options]
    head = ["import dataclasses", "", "", "@dataclasses.dataclass", "class Options:"]
    return [*head, *fields, "", "", f"{name} = Options()"]


def _parsed_dataclass(name: str, options: Sequence[Option]) -> list[str]:
    *declared, _ = _dataclass(name, options)
    parsed = f"({name},) = transformers.HfArgumentParser(Options).parse_args_into_dataclasses()"
    return ["import transformers", *declared, parsed]


def _reading(name: str, options: Sequence[Option]) -> list[str]:
    return ["import yaml", "", f'with open("{FILE}") as file:', f"    {name} = yaml.safe_load(file)"]


def _in_yaml(value: Value) -> str:
    """A value as PyYAML reads it: `2e-05` would be text, `2.0e-05` is a number."""
    if isinstance(value, float):
        mantissa, _, exponent = repr(value).partition("e")
        return mantissa if not exponent else f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
