"""Arguments and variables of the environment that a script requires and was not given: values made by type and name."""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import inspect
import linecache
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.frames import START_FOLDER, is_called_by_user, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.launcher_variables import ASKED_FOR, stand_for_a_launcher
from lintrain.runtime.stand_ins.devices import ends_if_false
from lintrain.runtime.stand_ins.known_values import own_configuration
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.packages import Nothing

NUMBERS: Mapping[str, str] = {
    r".*(learning_rate|_lr|lr)": "1e-4",
    r".*(dropout|decay|ratio|smoothing|proportion|fraction|temperature|prob|threshold).*": "0.1",
    r".*(seed|rank|fold|gpu|device).*": "0",
    r".*(max_\w*len\w*|seq_len\w*|max_length|length|block_size|max_tokens)": "128",
    r".*(epochs?|accum\w*|workers?|stage)": "1",
    r".*(steps?|samples|size_of_data|num_examples)": "100",
    r".*(hidden|embed|dim|width)\w*": "32",
}
"""By patterns of names: a number that a training can begin with."""
NUMBER = "4"
FILES = {"read_csv": "csv", "json.loads": "jsonl", "json.load": "json", "read_json": "json", "read_table": "tsv"}
"""The ending of a file of rows, by what the script's text reads it with; the first that it has."""
SECRET = re.compile(r"(?i).*(token|key|secret|password|user(name)?|entity|project)")
OF_MACHINES = re.compile(r"RANK|WORLD_SIZE|MASTER_|LOCAL_|SLURM_|CUDA_|OMP_|HOME|PATH|USER")


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Answer the parsers of arguments, and `os.environ[name]` in the script's own code."""
    owner: Any = argparse.ArgumentParser
    owner.parse_known_args = _parsing(ledger, owner.parse_known_args)
    hooks.add("click.core", lambda click: _answer_parameters(ledger, click.Parameter))
    hooks.add("click.core", lambda click: _choose_command(ledger, click.Group))
    # Since 0.26, typer has parameters and groups of its own.
    hooks.add("typer.core", lambda typer: _answer_parameters(ledger, getattr(typer, "_TyperParameter", None)))
    hooks.add("typer.core", lambda typer: _choose_command(ledger, typer.TyperGroup))
    hooks.add("fire.core", functools.partial(_answer_functions, ledger))
    _answer_variables(ledger)
    builtins.input = _answering(ledger, builtins.input)


AGREES = re.compile(r"\b(y(es)?|o(ui)?|j(a)?|s(i|im)?)\s*/\s*n", re.IGNORECASE)
"""How a question ends that is answered with yes or no; its first letter is the answer."""


def _answering(ledger: Ledger, ask: Any) -> Any:
    """`input()` without a terminal: yes to whether to go on, else the default, which is an empty line."""

    @functools.wraps(ask)
    def answered(prompt: Any = "", *args: Any) -> Any:
        try:
            return ask(prompt, *args)
        except EOFError:
            # A probe has no terminal, so every question ends with this error.
            if not is_called_by_user():
                raise
            found = AGREES.search(str(prompt))
            answer = found[0][0].lower() if found else ""
            ledger.renew(StandInKind.ARGUMENT, f"input({str(prompt).strip()!r})", repr(answer))
            return answer

    return answered


def _answer_parameters(ledger: Ledger, owner: Any) -> None:
    """Parameters of click and typer: one that is required and was not given gets a value that its type accepts."""
    if owner is None:
        return
    process = owner.process_value

    @functools.wraps(process)
    def process_value(self: Any, ctx: Any, value: Any) -> Any:
        try:
            return process(self, ctx, value)
        except Exception as error:
            name = str(self.name)
            kind = getattr(self, "type", None) or getattr(self, "type_descriptor", None)
            choices = getattr(kind, "choices", None) or ()
            if type(error).__name__ != "MissingParameter" or ctx.resilient_parsing:
                raise
            for text in (*choices, _made(ledger, name.lower()), *_numbers(name.lower())):
                several = self.nargs != 1 or getattr(self, "multiple", False)
                try:
                    found = process(self, ctx, (text,) * max(1, self.nargs) if several else text)
                except Exception:  # noqa: BLE001 - the type takes no such text: each has errors of its own
                    continue
                ledger.renew(StandInKind.ARGUMENT, name, f"{text}, as the script requires a value")
                return found
            raise

    owner.process_value = process_value


TRAINS = re.compile(r"(?i)train|fit|fine.?tune|run|main")
"""Names of commands that train, of which the first is taken."""


def _choose_command(ledger: Ledger, owner: Any) -> None:
    """A group of commands that was given none: the one whose name says that it trains."""
    parse = owner.parse_args

    @functools.wraps(parse)
    def parse_args(self: Any, ctx: Any, args: list[str]) -> Any:
        has_all = args or ctx.resilient_parsing or self.invoke_without_command
        # In the order of the script, where `list_commands` sorts them.
        name = None if has_all else chosen_command([*(self.commands or self.list_commands(ctx))])
        if name is not None:
            ledger.renew(StandInKind.ARGUMENT, "command", f"{name}, as the script requires one")
        return parse(self, ctx, [name] if name is not None else args)

    owner.parse_args = parse_args


def chosen_command(names: Sequence[str]) -> str | None:
    """The first command that trains, else the first one; None without any."""
    return next(filter(TRAINS.search, names), next(iter(names), None))


def _answer_functions(ledger: Ledger, module: Any) -> None:
    """`fire.Fire(main)`: parameters of the function without a default that the command does not give."""
    run = module.Fire

    @functools.wraps(run)
    def answered(component: Any = None, command: Any = None, *args: Any, **kwargs: Any) -> Any:
        if inspect.isfunction(component) and command is None:
            sys.argv += _options(ledger, component, sys.argv[1:])
        return run(component, command, *args, **kwargs)

    module.Fire = answered


def _options(ledger: Ledger, function: Any, words: Sequence[str]) -> list[str]:
    """Options for the parameters that a command leaves out: by position first, as Fire does."""
    named = {word.lstrip("-").partition("=")[0].replace("-", "_") for word in words if word.startswith("-")}
    has_values = [word for word in words if not word.startswith("-")]
    wanted = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty and each.name not in named and each.kind is not each.VAR_KEYWORD
    ]
    made: list[str] = []
    # A word may be the value of an option (`--lr 1e-3`), so words count by position only where there is no option.
    for each in wanted[0 if named else len(has_values) :]:
        if each.kind is each.VAR_POSITIONAL:
            continue
        is_number = each.annotation in (int, float, "int", "float")
        guessed = _numbers(each.name.lower())[0] if is_number else guess(each.name, ledger.script)
        value = _made(ledger, each.name.lower()) if isinstance(guessed, str) and not is_number else guessed
        ledger.renew(StandInKind.ARGUMENT, each.name, f"{value}, as the script requires a value")
        made.append(f"--{each.name}={value}")
    return made


def _parsing(ledger: Ledger, parse: Any) -> Any:
    @functools.wraps(parse)
    def parse_known_args(self: Any, args: Any = None, namespace: Any = None) -> Any:
        is_of_command = args is None or [*args] == sys.argv[1:]
        if not is_of_command or not is_called_by_user("argparse", "hf_argparser", "trl/"):
            return parse(self, args, namespace)
        kept: list[tuple[Any, dict[str, Any]]] = [
            (each, {**vars(each)}) for each in (*self._actions, *self._mutually_exclusive_groups)
        ]
        try:
            made = _without_requirements(ledger, self)
            found: Any = parse(self, _with_command(ledger, self), namespace)
        finally:
            for each, before in kept:
                each.__dict__.update(before)
        for name, (dest, value) in made.items():
            if getattr(found[0], dest, None) == value:
                ledger.renew(StandInKind.ARGUMENT, name, f"{value}, as the script requires a value")
        return found

    return parse_known_args


def _with_command(ledger: Ledger, parser: Any) -> list[str]:
    """The words of the command, with one of the parser's own commands where it requires one and none is given."""
    words = sys.argv[1:]
    for action in parser._actions:
        if type(action).__name__ == "_SubParsersAction" and action.required:
            choices: list[str] = [*action.choices]
            name = None if {*words} & {*choices} else chosen_command(choices)
            if name is not None:
                ledger.renew(StandInKind.ARGUMENT, action.dest, f"{name}, as the script requires one")
                words = [*words, name]
    return words


def _without_requirements(ledger: Ledger, parser: Any) -> dict[str, tuple[str, Any]]:
    """Give every argument that is required a value; returns them with the names of arguments."""
    made: dict[str, tuple[str, Any]] = {}
    of_groups = [group._group_actions[0] for group in parser._mutually_exclusive_groups if group.required]
    corrections = ledger.corrections
    optional = [each for each in parser._actions if each.default is None and each.option_strings and not each.required]
    corrections.optional_arguments |= {each.dest for each in optional if each.type in (None, str)}
    needed = [each for each in optional if each.dest in corrections.needed_arguments]
    for action in [*parser._actions, *of_groups]:
        if not (action.required or action in [*of_groups, *needed]) or isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            continue
        is_positional = not action.option_strings
        if is_positional and action.nargs not in (None, "+"):
            continue
        value = _values(ledger, parser, action)
        action.required, action.default = False, value
        if is_positional:
            action.nargs = "?" if action.nargs is None else "*"
        name = action.dest if is_positional else max(action.option_strings, key=len)
        made[name] = (action.dest, value)
    for group in parser._mutually_exclusive_groups:
        group.required = False
    return made


def _values(ledger: Ledger, parser: Any, action: Any) -> Any:
    """The value of an argument, of its type; several where it takes several."""
    if action.nargs == 0:
        return action.const
    value = _value(ledger, parser, action)
    if action.nargs in (None, "?"):
        return value
    return [value] * (action.nargs if isinstance(action.nargs, int) else 1)


def _value(ledger: Ledger, parser: Any, action: Any) -> Any:
    if action.choices is not None:
        return next(iter(action.choices))
    make = parser._registry_get("type", action.type, action.type)
    for text in (_made(ledger, action.dest.lower()), *_numbers(action.dest.lower())):
        if make is str or make is None:
            return text
        if make in (int, float) and text not in _numbers(action.dest.lower()):
            continue
        try:
            return make(text)
        except (ValueError, TypeError, argparse.ArgumentTypeError):
            continue
    return NUMBER


def _numbers(name: str) -> list[str]:
    found = next((number for pattern, number in NUMBERS.items() if re.fullmatch(pattern, name)), NUMBER)
    return [found, NUMBER, "true"]


def guess(name: str, script: str) -> int | float | str:
    """A number for a setting whose name is that of one, else a text."""
    found = next((number for pattern, number in NUMBERS.items() if re.fullmatch(pattern, name.lower())), None)
    if found is None:
        return _text(name.lower(), script)
    return int(found) if found.isdigit() else float(found)


def _made(ledger: Ledger, name: str) -> str:
    """The text for an argument: one that an error has shown to be known to the script, else one by its name."""
    known = ledger.corrections.arguments.get(name)
    text = known or own_configuration(name, Path(START_FOLDER, ledger.session.script)) or _text(name, ledger.script)
    ledger.corrections.made_arguments[name] = text
    return text


def _text(name: str, script: str) -> str:
    """A text for an argument of this name: a checkpoint, a data set or file of rows, a folder, a secret."""
    if SECRET.fullmatch(name) and "tokenizer" not in name:
        return "stand-in"
    if re.search(r"out|save|log|result|cache", name):
        return "stand-in-output"
    if re.search(r"model|tokenizer|checkpoint|ckpt|backbone|teacher|student|encoder|decoder", name):
        return "stand-in/model"
    if re.search(r"data|train|valid|test|eval|dev|rows|file|path|csv|json|corpus|input|dir", name):
        return _data(name, script)
    return "stand-in"


def _data(name: str, script: str) -> str:
    """A data set of the hub where the script's text loads one, else a file of rows of the kind that it reads."""
    named = re.search(r"csv|jsonl|json|tsv|txt|parquet", name)
    ending = named[0] if named else next((ending for reader, ending in FILES.items() if reader in script), "")
    is_loaded = re.search(r"load_dataset\(|load_from_disk\(", script)
    if ending and not (is_loaded and re.search(r"dataset|dir", name)):
        return f"stand-in.{ending}"
    return "stand-in/data"


def _answer_variables(ledger: Ledger) -> None:
    """A variable that the script's own code takes for granted; a question that allows for none gets none."""
    environment: Any = type(os.environ)
    read, write = environment.__getitem__, environment.__setitem__

    @functools.wraps(read)
    def getitem(self: Any, name: Any) -> Any:
        try:
            return read(self, name)
        except KeyError:
            is_needed = is_called_by_user() and not _is_tried(users_frame())
            if not is_needed or not isinstance(name, str) or OF_MACHINES.match(name):
                raise
            value = _made(ledger, name.lower())
            ledger.renew(StandInKind.ARGUMENT, f"${name}", f"{value}, as the script requires a value")
            return value

    @functools.wraps(write)
    def setitem(self: Any, name: Any, value: Any) -> None:
        write(self, name, "stand-in" if isinstance(value, Nothing) else value)

    environment.__getitem__, environment.__setitem__ = getitem, setitem
    get = environment.get

    @functools.wraps(get)
    def getting(self: Any, name: Any, default: Any = None) -> Any:
        found = get(self, name, default)
        if found is None and name in ASKED_FOR and _is_counted(name, users_frame()):
            stand_for_a_launcher(ledger.session)
            return get(self, name, default)
        if (
            found is not None
            or not isinstance(name, str)
            or OF_MACHINES.match(name)
            or not is_called_by_user("os.py", "<frozen os>")
        ):
            return found
        if not ends_if_false(users_frame()):
            return found
        value = _made(ledger, name.lower())
        ledger.renew(StandInKind.ARGUMENT, f"${name}", f"{value}, as the script requires a value")
        return value

    environment.get = getting


def _is_counted(name: str, frame: FrameType | None) -> bool:
    """Whether the line of a frame takes a launcher's variable for a number: `int(os.environ.get("RANK"))`."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno) if frame is not None else ""
    return re.search(rf"\bint\(os\.(environ\.get|getenv)\(['\"]{name}['\"]\)\)", line) is not None


def _is_tried(frame: FrameType | None) -> bool:
    """Whether the line of a frame is in a `try`, so that its error may be part of the script's way."""
    if frame is None:
        return False
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except SyntaxError:
        return False
    tried = (node for node in ast.walk(tree) if isinstance(node, ast.Try))
    bodies: Sequence[Any] = [each for node in tried for each in node.body]
    return any(each.lineno <= frame.f_lineno <= (each.end_lineno or each.lineno) for each in bodies)
