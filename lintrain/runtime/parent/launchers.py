"""Commands that start a training script, read for the one process that is probed: launchers of several processes,
runners of environments, and variables in front of a command.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
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

DEEPSPEED_FLAGS = frozenset(
    {
        *("-h", "--help", "--module", "--no-python", "--no-local-rank", "--no-ssh", "--no-ssh-check", "--save-pid"),
        *("--force-multi", "--elastic-training", "--bind-cores-to-rank"),
    }
)
"""The same of `deepspeed` (`deepspeed/launcher/runner.py`, DeepSpeed 0.17)."""

PYTHON_OPTIONS = lazy_pattern(r"-[bBdEhiIOqsSuvVx]+")
PYTHON_OPTIONS_WITH_VALUE = ("-W", "-X")
PRECISIONS_ON_CPU = ("no", "bf16")
TRL_COMMANDS = ("distillation", "dpo", "grpo", "kto", "reward", "rloo", "sft")
"""The commands of `trl` that train (TRL 1.16), each with a module of its name in `trl.scripts`."""

LAUNCH_OPTION = lazy_pattern(
    r"--(?:accelerate-config|num-(?:processes|machines)|machine-rank|main-process-(?:port|ip)|gpu-ids|zero-stage)"
)
LAUNCH_FLAG = lazy_pattern(r"--(?:multi-gpu|use-deepspeed|use-fsdp|same-network)")
"""Options of accelerate among those of `trl`, with a value and without."""

ASSIGNED = lazy_pattern(r"([A-Za-z_]\w*)=(.*)")
RUN_BY_PYTHON = (".py", ".pyw", ".ipynb", ".yaml", ".yml", ".json")
STARTS_AGAIN = "FORCE_TORCHRUN"
"""With this variable LLaMA-Factory starts itself again under torchrun."""


class LaunchError(Exception):
    """A command that names no script to run; the text says so."""


@dataclass(frozen=True, slots=True)
class Launched:
    """What a command starts, without its launcher: a script or a module, its arguments, what the launcher sets.

    `variables` are written in front of the command, `python` is a Python that it names by its path. `configuration` is
    the file that the module is run for, which is checked in its place; `package` is what has to be installed for it.
    """

    script: str | None
    module: str | None
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    shortcuts: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    python: str | None = None
    configuration: str | None = None
    package: str = ""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A command that runs the command behind its own options and some `operands`.

    An option in `values` takes the next word, one in `pairs` the next two. Where `flags` are given, they alone take
    none.
    """

    values: frozenset[str] = frozenset()
    flags: frozenset[str] | None = None
    pairs: frozenset[str] = frozenset()
    operands: int = 0

    def words_of(self, option: str) -> int:
        """The words that an option takes, itself included."""
        if "=" in option or re.fullmatch(r"-[A-Za-z]\d+", option):
            return 1
        if option in self.pairs:
            return 3
        takes_value = option in self.values if self.flags is None else _hyphened(option) not in self.flags
        return 2 if takes_value else 1


MPI = Wrapper(
    flags=frozenset(
        {
            *("--allow-run-as-root", "--oversubscribe", "--tag-output", "--display-map", "--report-bindings", "-q"),
            *("--quiet", "-v", "--verbose", "--display-allocation", "--nooversubscribe", "--bind-to-core", "-l"),
            *("--display", "--use-hwthread-cpus", "--timestamp-output", "--merge-stderr-to-stdout", "--prepend-rank"),
        }
    ),
    pairs=frozenset({"-mca", "--mca", "-gmca", "--gmca", "-genv", "-env", "--prtemca", "--pmixmca"}),
)
CONDA = Wrapper(frozenset({"-n", "--name", "-p", "--prefix", "--cwd", "-e", "--env"}))
WRAPPERS = {
    "uv run": Wrapper(
        frozenset(
            {
                *("--with", "-w", "--with-editable", "--with-requirements", "--extra", "--no-extra", "--group"),
                *("--no-group", "--only-group", "--python", "-p", "--env-file", "--directory", "--project"),
                *("--package", "--index", "--default-index", "--index-url", "-i", "--extra-index-url", "--color"),
                *("--find-links", "-f", "--upgrade-package", "-P", "--config-file", "--cache-dir", "--link-mode"),
                *("--resolution", "--prerelease", "--exclude-newer", "--index-strategy", "--refresh-package"),
            }
        )
    ),
    "poetry run": Wrapper(),
    "pdm run": Wrapper(frozenset({"-p", "--project", "--venv", "-c", "--config"})),
    "pipenv run": Wrapper(),
    "hatch run": Wrapper(),
    "rye run": Wrapper(),
    "pixi run": Wrapper(frozenset({"-e", "--environment", "--manifest-path", "--color"})),
    "conda run": CONDA,
    "mamba run": CONDA,
    "micromamba run": CONDA,
    "srun": Wrapper(
        flags=frozenset(
            {
                *("-l", "--label", "-u", "--unbuffered", "--overlap", "--pty", "--exact", "--contiguous", "-O"),
                *("--overcommit", "-s", "--oversubscribe", "--exclusive", "-Q", "--quiet", "-v", "--verbose", "-X"),
                *("-K", "--kill-on-bad-exit", "-k", "--no-kill", "-E", "--preserve-env", "--spread-job", "-Z"),
                *("--multi-prog", "--disable-status", "--no-allocate", "--use-min-nodes", "-H", "--hold", "--reboot"),
            }
        )
    ),
    "mpirun": MPI,
    "mpiexec": MPI,
    "horovodrun": Wrapper(flags=frozenset({"--verbose", "--gloo", "--mpi", "--disable-cache"})),
    "env": Wrapper(frozenset({"-u", "--unset", "-C", "--chdir"})),
    "nohup": Wrapper(),
    "exec": Wrapper(),
    "time": Wrapper(frozenset({"-f", "--format", "-o", "--output"})),
    "nice": Wrapper(frozenset({"-n", "--adjustment"})),
    "ionice": Wrapper(frozenset({"-c", "--class", "-n", "--classdata"})),
    "timeout": Wrapper(frozenset({"-s", "--signal", "-k", "--kill-after"}), operands=1),
    "stdbuf": Wrapper(frozenset({"-i", "-o", "-e"})),
    "taskset": Wrapper(operands=1),
    "numactl": Wrapper(flags=frozenset({"-l", "--localalloc", "-a", "--all", "-b", "--balancing"})),
}
"""Commands in front of another one (uv 0.9, Slurm 24, Open MPI 5, MPICH 4, coreutils 9)."""

VENV_TOOLS = ("uv run", "pdm run", "rye run")
VENV_PYTHONS = (".venv/bin/python", ".venv/Scripts/python.exe")

RANK_VARIABLES = {
    "srun": {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS": "1", "SLURM_NNODES": "1"},
    "mpirun": {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
}
"""What a script may ask for its rank under other launchers than torch's."""

LAUNCHERS = ("torchrun", "accelerate launch", "deepspeed", "trl", "llamafactory-cli", "axolotl", "python")
KNOWN = (*LAUNCHERS, *WRAPPERS)


def read_launch(words: Sequence[str]) -> Launched | None:
    """What a command starts, or None if its first word is a file; raises LaunchError."""
    variables: dict[str, str] = {}
    while words and (match := ASSIGNED.fullmatch(words[0])):
        variables[match[1]] = match[2]
        words = words[1:]
    if variables:
        variables.pop(STARTS_AGAIN, None)
        started = _of_command(words, ", ".join(f"`{name}=…`" for name in variables) or "the variables")
        return replace(started, variables={**variables, **started.variables})
    return _launched(words)


def _of_command(words: Sequence[str], wrapper: str) -> Launched:
    """What follows a wrapper: a launcher's command or a script."""
    if not words:
        raise LaunchError(f"{wrapper}: no command follows")
    return read_launch(words) or Launched(words[0], None, tuple(words[1:]))


def _launched(words: Sequence[str]) -> Launched | None:
    program = Path(words[0]).name.removesuffix(".exe") if words else ""
    name = next((each for each in (" ".join([program, *words[1:2]]), program) if each in WRAPPERS), "")
    if name:
        return _wrapped(name, words[len(name.split()) :])
    match program:
        case "torchrun":
            return _torchrun(words[1:])
        case "accelerate-launch":
            return _accelerate(words[1:])
        case "accelerate" if words[1:2] == ["launch"]:
            return _accelerate(words[2:])
        case "deepspeed":
            return _deepspeed(words[1:])
        case "trl":
            return _trl(words[1:])
        case "llamafactory-cli" | "lmf":
            return _tool(program, "llamafactory.cli", "llamafactory", words[1:], keeps_command=True)
        case "axolotl":
            return _tool(program, "axolotl.cli.train", "axolotl", words[1:], keeps_command=False)
        case _ if re.fullmatch(r"i?python[\d.]*", program):
            started = _python(words[1:])
            return replace(started, python=words[0]) if "/" in words[0] and Path(words[0]).is_file() else started
        case _:
            _demand_file(words)
            return None


def _demand_file(words: Sequence[str]) -> None:
    """Raise LaunchError unless the command begins with a file that Python runs."""
    first = words[0] if words else ""
    if first.endswith((".sh", ".bash", ".slurm", ".sbatch")) or Path(first).name in ("bash", "sh", "sbatch", "make"):
        raise LaunchError(
            f"{first}: lintrain reads no shell scripts; give the command in it that starts the training: "
            "`lintrain probe -- torchrun … train.py`"
        )
    if first and not first.endswith(RUN_BY_PYTHON) and not Path(first).exists():
        raise LaunchError(
            f"{first}: neither a file nor a launcher that lintrain knows ({', '.join(KNOWN)}); "
            "name the script: `lintrain probe train.py -- --lr 1e-4`"
        )


def _wrapped(name: str, words: Sequence[str]) -> Launched:
    wrapper, index = WRAPPERS[name], 0
    is_module = False
    while index < len(words) and words[index].startswith("-") and words[index] != "--":
        is_module = is_module or (name == "uv run" and words[index] in MODULE)
        index += wrapper.words_of(words[index])
    index += wrapper.operands
    words = words[index + (list(words[index : index + 1]) == ["--"]) :]
    started = _started(name, words, is_module=True) if is_module else _of_command(words, f"`{name}`")
    if name.endswith(" run"):
        return _in_environment(name, started)
    ranks = RANK_VARIABLES.get({"mpiexec": "mpirun"}.get(name, name))
    if ranks is None:
        return started
    # What torchrun sets comes first: a script may read either, and one that is started by both reads torchrun's.
    environment = {**ranks, **one_process(), **started.environment}
    return replace(started, environment=environment, shortcuts=(f"one process is probed, without `{name}`",))


def _in_environment(name: str, started: Launched) -> Launched:
    """A command in the environment of a project: that in its own folder, where the tool keeps it there."""
    python = next((path for path in VENV_PYTHONS if name in VENV_TOOLS and Path(path).exists()), None)
    if started.python is not None or python is not None:
        return replace(started, python=started.python or python)
    note = f"the environment of `{name}` is not asked for; `--python` names its Python"
    return replace(started, shortcuts=(*started.shortcuts, note))


def _python(words: Sequence[str]) -> Launched:
    while words and (PYTHON_OPTIONS.fullmatch(words[0]) or words[0] in PYTHON_OPTIONS_WITH_VALUE):
        words = words[2 if words[0] in PYTHON_OPTIONS_WITH_VALUE else 1 :]
    if words[:1] != ["-m"]:
        return _started("python", words, is_module=False)
    match words[1] if len(words) > 1 else "":
        case "torch.distributed.run":
            return _torchrun(words[2:])
        case "torch.distributed.launch":
            return _torch_launch(words[2:])
        case "accelerate.commands.launch":
            return _accelerate(words[2:])
        case "deepspeed" | "deepspeed.launcher.runner":
            return _deepspeed(words[2:])
        case _:
            return _started("python -m", words[1:], is_module=True)


def _torchrun(words: Sequence[str]) -> Launched:
    options, rest = _parted(words, TORCHRUN_FLAGS)
    started = _started("torchrun", rest, is_module=any(option in MODULE for option in options))
    return replace(started, environment=one_process(), shortcuts=_left_out("torchrun", options))


def _torch_launch(words: Sequence[str]) -> Launched:
    """The older launcher of torch, which passes the rank as an argument unless it is asked not to (torch 2.13)."""
    options, rest = _parted(words, TORCHRUN_FLAGS | {"--use-env"})
    started = _started("torch.distributed.launch", rest, is_module=any(option in MODULE for option in options))
    rank = () if any(_hyphened(option) == "--use-env" for option in options) else ("--local-rank=0",)
    shortcuts = _left_out("python -m torch.distributed.launch", options)
    return replace(started, arguments=(*rank, *started.arguments), environment=one_process(), shortcuts=shortcuts)


def _accelerate(words: Sequence[str]) -> Launched:
    options, rest = _parted(words, ACCELERATE_FLAGS)
    started = _started("accelerate launch", rest, is_module=any(option in MODULE for option in options))
    precision = _value(options, "--mixed-precision") or _precision_in(_value(options, "--config-file"))
    environment = {"ACCELERATE_MIXED_PRECISION": precision} if precision in PRECISIONS_ON_CPU else {}
    return replace(started, environment=environment, shortcuts=_left_out("accelerate launch", options))


def _precision_in(file: str | None) -> str | None:
    """The precision that a configuration of accelerate sets; None if it sets none or cannot be read."""
    try:
        text = Path(file).read_text(encoding="utf-8") if file else ""
    except (OSError, UnicodeDecodeError):  # accelerate itself reports what is wrong with it
        return None
    found = re.search(r"""(?m)^["']?mixed_precision["']?\s*:\s*["']?(\w+)""", text)
    return found[1] if found else None


def _deepspeed(words: Sequence[str]) -> Launched:
    options, rest = _parted(words, DEEPSPEED_FLAGS)
    hyphened = [_hyphened(option) for option in options]
    started = _started("deepspeed", rest, is_module="--module" in hyphened)
    rank = () if "--no-local-rank" in hyphened else ("--local_rank=0",)
    return replace(
        started,
        arguments=(*rank, *started.arguments),
        environment=one_process(),
        shortcuts=_left_out("deepspeed", options),
    )


def _trl(words: Sequence[str]) -> Launched:
    command = words[0] if words else ""
    if command not in TRL_COMMANDS:
        raise LaunchError(f"`trl {command}` trains nothing; its commands that do are {', '.join(TRL_COMMANDS)}")
    given, arguments = _value(words[1:], "--config"), tuple(_without_launch(words[1:]))
    return Launched(None, f"trl.scripts.{command}", arguments, configuration=given, package="trl")


def _without_launch(words: Sequence[str]) -> Iterator[str]:
    """The words for the script of TRL: those for accelerate, which starts it, may be anywhere among them."""
    skips = False
    for word in words:
        name, equals, _ = word.partition("=")
        takes_value = LAUNCH_OPTION.fullmatch(_hyphened(name)) is not None
        if not takes_value and not skips and not LAUNCH_FLAG.fullmatch(_hyphened(name)):
            yield word
        skips = takes_value and not equals


def _tool(program: str, module: str, package: str, words: Sequence[str], *, keeps_command: bool) -> Launched:
    """A tool that trains what a configuration describes: `axolotl train x.yaml`."""
    if list(words[:1]) != ["train"]:
        raise LaunchError(f"`{' '.join([program, *words[:1]])}` trains nothing; `{program} train x.yaml` does")
    given = next((word for word in words[1:] if word.endswith((".yaml", ".yml", ".json"))), None)
    return Launched(None, module, tuple(words if keeps_command else words[1:]), configuration=given, package=package)


def _left_out(launcher: str, options: Sequence[str]) -> tuple[str, ...]:
    return (f"one process is probed, without `{' '.join([launcher, *options])}`",)


def _parted(words: Sequence[str], flags: frozenset[str]) -> tuple[list[str], list[str]]:
    """The launcher's own options, and the words from the script on."""
    index, launcher = 0, Wrapper(flags=flags)
    while index < len(words) and words[index].startswith("-") and words[index] != "--":
        index += launcher.words_of(words[index])
    return list(words[:index]), list(words[index + (list(words[index : index + 1]) == ["--"]) :])


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
