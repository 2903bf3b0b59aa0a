"""A run of `lintrain check` whose answer is kept for the next one, where it can be."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

from lintrain.cache.runs import keep_answer
from lintrain.cache.watch import Watch
from lintrain.cli._options import CheckOptions
from lintrain.cli._output import hear_written
from lintrain.cli._words import read_words
from lintrain.rulebook import rule_folder


def run_and_keep(arguments: list[str], key: bytes, run: Callable[[list[str]], int]) -> int:
    """Run the command, keep what it answered if it only reads files and ended well, and give its exit code."""
    options = read_words(arguments[1:])
    if options is None or not only_reads(options):
        return run(arguments)
    with Watch() as watch, hear_written() as written:
        code = run(arguments)
    if code in (0, 1) and not watch.is_spoilt:
        for path in _our_own():
            watch.note(path)
        if not watch.is_spoilt:
            keep_answer(arguments, key, watch.seen, code, written)
    return code


def only_reads(options: CheckOptions) -> bool:
    """Whether a command writes no file, asks no other program and tells no time."""
    writes = options.mends or options.add_ignores is not None or options.output_file is not None
    return not (writes or options.watch or options.reads_stdin or options.changed_since or options.verbose)


def _our_own() -> Iterator[str]:
    """The files of lintrain that answered: in a checkout they change while the version stays."""
    folders = (os.path.dirname(os.path.dirname(__file__)) + os.sep, str(rule_folder()) + os.sep)  # noqa: PTH120 - strings
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith(folders):
            yield file
