"""The command line: `main` is the entry point, and every file here without an underscore is a command."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130
"""What a shell gives for a program that ended by SIGINT."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    _open_closed_streams()
    sys.exit(answer(sys.argv[1:]))


def answer(arguments: list[str]) -> int:
    """Give the answer that is kept of a command while nothing has changed, else run it; its exit code."""
    if arguments[:1] != ["check"] or "--no-cache" in arguments:
        return run(arguments)
    from lintrain._version import __version__
    from lintrain.cache.runs import kept_answer, key_of, write_again

    key = key_of(arguments, __version__)
    if kept := kept_answer(arguments, key):
        try:
            write_again(kept[1])
        except OSError:  # a full disk: the run says so
            return run(arguments)
        return kept[0]
    try:
        from lintrain.cli._keeping import run_and_keep

        return run_and_keep(arguments, key, run)
    except KeyboardInterrupt:
        return _interrupted()


def _open_closed_streams() -> None:
    """A stream that the caller closed (`>&-`) takes what is written and shows it to nobody."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - open to the end


def run(arguments: list[str]) -> int:
    """Run a command and give its exit code; what it cannot do is said on stderr."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _interrupted()


def _interrupted() -> int:
    print("lintrain: interrupted", file=sys.stderr)  # noqa: T201 - nothing of ours may be imported yet
    return INTERRUPTED


def _run(arguments: list[str]) -> int:
    from lintrain.cli._output import Refusal

    try:
        if arguments[:1] == ["check"]:
            from lintrain.cli._words import read_words

            if options := read_words(arguments[1:]):
                from lintrain.cli._check import check

                return check(options)
        from lintrain.cli._group import call

        return call(arguments)
    except Refusal as refusal:
        refusal.show()
        return refusal.exit_code
