"""A run of `lintrain check` whose output is cached, if it depends on nothing but files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

from lintrain.cache.runs import keep_answer
from lintrain.cache.watch import Watch
from lintrain.cli._options import CheckOptions, read_options
from lintrain.cli._output import record_output
from lintrain.rulebook import rule_folder


def run_and_cache(arguments: list[str], key: bytes, run: Callable[[list[str]], int]) -> int:
    """Run the command, cache its output if that depends on files only, and return the exit code."""
    options = read_options(arguments[1:])
    if options is None or not depends_on_files(options):
        return run(arguments)
    with Watch() as watch, record_output() as written:
        code = run(arguments)
    if code in (0, 1) and not watch.is_spoilt:
        for path in _own_files():
            watch.note(path)
        if not watch.is_spoilt:
            keep_answer(arguments, key, watch.seen, code, written)
    return code


def depends_on_files(options: CheckOptions) -> bool:
    """Whether the output of a command depends on nothing but the files that it reads."""
    writes = options.fixes or options.add_ignores is not None or options.output_file is not None
    return not (writes or options.watch or options.reads_stdin or options.changed_since or options.verbose)


def _own_files() -> Iterator[str]:
    """The files of lintrain that ran: in a checkout they change while the version stays."""
    folders = (os.path.dirname(os.path.dirname(__file__)) + os.sep, str(rule_folder()) + os.sep)  # noqa: PTH120 - strings
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith(folders):
            yield file
