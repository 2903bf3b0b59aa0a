"""From a script's syntax tree to its Pipeline, by abstract interpretation, without running anything."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from typing import TYPE_CHECKING

from lintrain.interpreter import load_language
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.project_state import DEFINING_BUDGET, Modules
from lintrain.interpreter.core.reader import BudgetSpentError, Frame, Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.interpreter.uncalled import read_uncalled
from lintrain.libraries import load_libraries
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import UNKNOWN, Constant, Value
from lintrain.source.project import Project
from lintrain.source.source import Source
from lintrain.source.training_syntax import runs_itself

if TYPE_CHECKING:
    from lintrain.knowledge.versions import TargetVersions


def load() -> None:
    """Load everything that a reading needs: the language, then the libraries."""
    load_language()
    load_libraries()


def read_pipeline(
    source: Source,
    targets: TargetVersions,
    project: Project | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
) -> Pipeline:
    """Read what a script builds and does, its project's modules too; raises SyntaxError where it does not parse.

    `check_cancelled` is called every some hundred steps, and may raise to end the reading.
    """
    load()
    record = Pipeline(source, targets)
    reader = Reader(record, check_cancelled=check_cancelled, modules=Modules(project))
    module = Scope(names={"__name__": Constant("__main__"), "__file__": _file_name(source)})
    record.circles.add(module)
    reader.modules.add_script(source.path, module)
    if not runs_itself(source):
        reader.modules.leave(DEFINING_BUDGET)
    reader.frames.append(Frame(None, module))
    try:
        dispatch.execute_block(reader, source.tree.body, module)
        read_uncalled(reader)
    except (BudgetSpentError, RecursionError):
        record.is_exhausted = True
    except BaseException:
        record.circles.end()
        raise
    return record


def _file_name(source: Source) -> Value:
    """`__file__`, which a notebook does not have."""
    return UNKNOWN if source.notebook or not source.path.endswith(".py") else Constant(os.path.abspath(source.path))  # noqa: PTH100
