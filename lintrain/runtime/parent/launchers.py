"""Commands that launch a training script on several processes or machines, read for the one process that is probed."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MODULE = ("-m", "--module")
TORCHRUN_FLAGS = frozenset(
    {*MODULE, "-h", "--help", "--standalone", "--no-python", "--run-path", "--virtual-local-rank"}
)
"""Options of torchrun without a value (torch 2.13); every other one takes the next word."""

ACCELERATE_FLAGS = frozenset(
    {
        *(*MODULE, "-h", "--help", "-q", "--quiet", "--cpu", "--debug", "--downcast-bf16", "--dynamo-use-dynamic"),
        *("--dynamo-use-fullgraph", "--dynamo-use-regional-compilation", "--enable-cpu-affinity", "--multi-gpu"),
        *("--fp8-use-autocast-during-eval", "--no-python", "--no-tpu-cluster", "--same-network", "--tpu"),
        *("--tpu-cluster", "--tpu-use-sudo", "--use-deepspeed", "--use-fsdp", "--use-megatron-lm"),
        "--use-parallelism-config",
    }
)
"""The same of `accelerate launch` (accelerate 1.15)."""

PYTHON_OPTIONS = lazy_pattern(r"-[bBdEhiIOqsSuvVx]+")
PYTHON_OPTIONS_WITH_VALUE = ("-W", "-X")
LAUNCHING_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate launch",
}
PRECISIONS_ON_CPU = ("no", "bf16")


class LaunchError(Exception):
    """A command that names no script to run; the text says so."""


@dataclass(frozen=True, slots=True)
class Launched:
    """What a command starts, without its launcher: a script or a module, its arguments, what the launcher sets."""

    script: str | None
    module: str | None
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    shortcuts: tuple[str, ...] = ()


def read_launch(words: Sequence[str]) -> Launched | None:
    """What a command starts, or None if its first word is no launcher's; raises LaunchError."""
    program = Path(words[0]).name.removesuffix(".exe") if words else ""
    if program == "torchrun":
        return _torchrun(words[1:])
    if program == "accelerate-launch":
        return _accelerate(words[1:])
    if program == "accelerate" and words[1:2] == ["launch"]:
        return _accelerate(words[2:])
    return _python(words[1:]) if re.fullmatch(r"python[\d.]*", program) else None


def _python(words: Sequence[str]) -> Launched:
    while words and (PYTHON_OPTIONS.fullmatch(words[0]) or words[0] in PYTHON_OPTIONS_WITH_VALUE):
        words = words[2 if words[0] in PYTHON_OPTIONS_WITH_VALUE else 1 :]
    if words[:1] != ["-m"]:
        return _started("python", words, is_module=False)
    match LAUNCHING_MODULES.get(words[1] if len(words) > 1 else ""):
        case "torchrun":
            return _torchrun(words[2:])
        case "accelerate launch":
            return _accelerate(words[2:])
        case _:
            return _started("python -m", words[1:], is_module=True)


def _torchrun(words: Sequence[str]) -> Launched:
    options, rest = _parted(words, TORCHRUN_FLAGS)
    started = _started("torchrun", rest, is_module=any(option in MODULE for option in options))
    return Launched(started.script, started.module, started.arguments, one_process(), _left_out("torchrun", options))


def _accelerate(words: Sequence[str]) -> Launched:
    options, rest = _parted(words, ACCELERATE_FLAGS)
    started = _started("accelerate launch", rest, is_module=any(option in MODULE for option in options))
    precision = _value(options, "--mixed-precision")
    environment = {"ACCELERATE_MIXED_PRECISION": precision} if precision in PRECISIONS_ON_CPU else {}
    return Launched(
        started.script, started.module, started.arguments, environment, _left_out("accelerate launch", options)
    )


def _left_out(launcher: str, options: Sequence[str]) -> tuple[str, ...]:
    return (f"one process is probed, without `{' '.join([launcher, *options])}`",)


def _parted(words: Sequence[str], flags: frozenset[str]) -> tuple[list[str], list[str]]:
    """The launcher's own options, and the words from the script on."""
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] != "--":
        takes_value = "=" not in words[index] and _hyphened(words[index]) not in flags
        index += 2 if takes_value else 1
    return list(words[:index]), list(words[index + (words[index : index + 1] == ["--"]) :])


def _hyphened(option: str) -> str:
    """An option as it is listed here; both launchers take underscores too."""
    return option.replace("_", "-")


def _value(options: Sequence[str], name: str) -> str | None:
    for index, option in enumerate(options):
        given, equals, value = option.partition("=")
        if _hyphened(given) == name:
            return value if equals else next(iter(options[index + 1 :]), None)
    return None


def _started(launcher: str, words: Sequence[str], *, is_module: bool) -> Launched:
    if not words:
        raise LaunchError(f"`{launcher}` names no script to run")
    first, arguments = words[0], tuple(words[1:])
    return Launched(None, first, arguments) if is_module else Launched(first, None, arguments)


def one_process() -> dict[str, str]:
    """The variables that torchrun sets (torch 2.13), for one process on this machine."""
    with socket.socket() as opened:
        # The system chooses a free port; it may be taken before torch binds it, which is rare and ends in torch's own
        # error.
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
    ranks = dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "TORCHELASTIC_RESTART_COUNT"), "0")
    sizes = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"), "1")
    elastic = {"TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RUN_ID": "none", "ROLE_NAME": "default"}
    return {**ranks, **sizes, **elastic, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
