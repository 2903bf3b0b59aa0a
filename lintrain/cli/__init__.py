"""The command line: `main` is the entry point, and every file here without an underscore is a command."""

from __future__ import annotations

import os
import sys

PACKAGES = {"libcst": "libcst", "pydantic": "pydantic", "pydantic_core": "pydantic"}
"""The packages that some commands need, by the module that is imported."""

INTERRUPTED = 130
"""The exit code that a shell gives to a program that SIGINT ended."""


def main() -> None:
    """Run the command line and exit with its exit code."""
    _open_closed_streams()
    sys.exit(run_or_repeat(sys.argv[1:]))


def run_or_repeat(arguments: list[str]) -> int:
    """Repeat the cached output of a command if nothing has changed, else run it; returns the exit code."""
    if arguments[:1] != ["check"] or not {"--no-cache", "--timings"}.isdisjoint(arguments):
        return run(arguments)
    from lintrain._version import __version__
    from lintrain.cache.runs import kept_answer, key_of, write_again

    key = key_of(arguments, __version__)
    if kept := kept_answer(arguments, key):
        try:
            write_again(kept[1])
        except OSError:  # a full disk, which the run reports
            return run(arguments)
        return kept[0]
    try:
        from lintrain.cli.check import run_and_cache

        return run_and_cache(arguments, key, run)
    except KeyboardInterrupt:
        return _interrupted()


def _open_closed_streams() -> None:
    """Discard what is written to a stream that the caller closed (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - open to the end


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; usage errors are written to stderr."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _interrupted()


def _interrupted() -> int:
    print("lintrain: interrupted", file=sys.stderr)  # noqa: T201 - no module of lintrain may be imported yet
    return INTERRUPTED


def _run(arguments: list[str]) -> int:
    from lintrain.cli._output import CommandError

    try:
        if arguments[:1] == ["check"]:
            from lintrain.cli._options import read_options

            if options := read_options(arguments[1:]):
                from lintrain.cli._check import check

                return check(options)
        from lintrain.cli._group import call

        return call(arguments)
    except CommandError as error:
        error.show()
        return error.exit_code
    except ModuleNotFoundError as error:  # the zipapp and the extension bring no compiled package
        from lintrain.cli._output import how_to_install

        package = PACKAGES.get(error.name or "")
        if package is None:
            raise
        CommandError(f"this needs {package}, which is not installed: {how_to_install(package)}").show()
        return CommandError.exit_code
