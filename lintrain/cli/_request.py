"""What a run over some files is asked to do, as options and settings say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lintrain.check.crew import processors
from lintrain.check.request import Request
from lintrain.check.selection import Selection
from lintrain.check.targets import Targets
from lintrain.cli._options import CheckOptions, excludes_of, read_stdin
from lintrain.rulebook import RuleFile, rule_folder
from lintrain.settings.loading import common_folder, find_baseline
from lintrain.settings.settings import Settings

if TYPE_CHECKING:
    from lintrain.cache.store import Store
    from lintrain.check.baseline import Baseline


def request_of(
    options: CheckOptions, settings: Settings, rules: Sequence[RuleFile], selection: Selection, files: Sequence[str]
) -> Request:
    """The request; raises UsageError where the project's baseline cannot be read.

    Of a file by itself its whole answer is kept, and beside that a store has little to give.
    """
    return Request(
        files,
        rules,
        selection,
        Targets(settings),
        {files[0]: read_stdin()} if options.reads_stdin and files else {},
        excludes_of(settings).leave_out_within,
        speaks_of_modules=not options.reads_stdin,
        knows_verdicts=not options.no_cache,
        baseline=baseline_of(options, settings),
        jobs=options.jobs or min(settings.jobs or processors(), processors()),
        store=store_of(options, settings) if len(files) > 1 and not options.no_cache else None,
    )


def store_of(options: CheckOptions, settings: Settings) -> Store | None:
    """What earlier runs found out about files, in surroundings like these; None where ruff is not to be found."""
    from lintrain._version import __version__
    from lintrain.cache.folder import store_folder
    from lintrain.cache.own_code import digest_of_code, digest_of_program
    from lintrain.cache.runs import python_and_variables
    from lintrain.cache.store import Store
    from lintrain.cache.watch import unheard
    from lintrain.check.names.ruff import find_ruff

    ruff = find_ruff()
    if ruff is None:
        return None
    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - every check asks this
    with unheard():
        code = digest_of_code(package, str(rule_folder()), __version__), digest_of_program(ruff)
    around = (__version__, code, os.getcwd(), python_and_variables(), sorted(settings.target_versions.items()))  # noqa: PTH109 - as above
    return Store(store_folder("files", options.cache_dir), repr(around))


def baseline_of(options: CheckOptions, settings: Settings) -> Baseline | None:
    """The findings that the project puts off; raises UsageError."""
    if options.no_baseline:
        return None
    file = options.baseline
    if file is None and not options.isolated:
        file = find_baseline(settings, common_folder(options.named))
    if file is None:
        return None
    from lintrain.check.baseline import read_baseline

    return read_baseline(file)
