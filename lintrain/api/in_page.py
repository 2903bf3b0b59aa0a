"""The check inside of a web page: text in, findings or causes of an error out. No file, process, thread or network.

Whatever it imports has to run in a Python that is compiled to WebAssembly, without libraries of native code: the fixes
are left out where libcst is missing.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lintrain.check.check_run import CheckRun
from lintrain.check.files import Targets
from lintrain.check.fixing import TextEdits
from lintrain.check.names.ruff import NameSearch
from lintrain.check.selection import CheckRequest, Selection, asked, chosen_for
from lintrain.evidence.tracebacks import read_traceback, read_warning
from lintrain.report.machine.document import as_json
from lintrain.report.machine.entries import check_report, no_edits
from lintrain.report.text.causes import NotExplainedError, error_document
from lintrain.rulebook import RuleFile, load_rules
from lintrain.settings.settings import Settings

SCRIPT, NOTEBOOK = "train.py", "train.ipynb"
NOWHERE = Path("/")

Answer = Mapping[str, Any]  # Any: what JSON holds


def answer(text: str, names: str = "[]") -> str:
    """Findings or causes for a text, as JSON with its `kind`: `error` for a traceback or a message, else `check`.

    `names` are ruff's messages on the text, as its command line writes them with `--output-format json`.
    """
    return json.dumps(_of_error(text) or _of_code(text, names), ensure_ascii=False)


def _of_error(text: str) -> Answer | None:
    """The likely causes of an error or a warning; None for code, and for an error that no kind is about."""
    if _is_code(text) or not (read_traceback(text) or read_warning(text)):
        return None
    try:
        return {"kind": "error", **error_document(text)}
    except NotExplainedError as error:
        return {"kind": "error", "error": text.strip().splitlines()[-1], "line": None, "causes": [], "note": str(error)}


def _is_code(text: str) -> bool:
    """Whether Python reads it: `ValueError: ...` alone is an annotation, which no script ends with."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    return not (len(body) == 1 and isinstance(body[0], ast.AnnAssign))


def _of_code(text: str, names: str) -> Answer:
    path = NOTEBOOK if text.lstrip().startswith("{") and '"cells"' in text else SCRIPT
    rules, selection, edits = _tools()
    request = CheckRequest(
        [path],
        rules,
        selection,
        Targets(Settings(root=NOWHERE), NOWHERE),
        {path: text.encode("utf-8", "replace")},
        reports_modules=False,
        search_names=lambda paths, _given: NameSearch(
            outputs=[names.encode()], names={path: str(Path(path).absolute()) for path in paths}
        ),
    )
    outcome = CheckRun(request).check()
    report = as_json(check_report(outcome, outcome.sources.get, edits_of=edits))
    return {"kind": "check", "path": path, **json.loads(report)}


@cache
def _tools() -> tuple[tuple[RuleFile, ...], Selection, Any]:  # Any: with libcst, or without it
    """The rules, all of them selected, and what makes edits of fixes."""
    rules = tuple(load_rules())
    try:
        edits: Any = TextEdits() if find_spec("libcst") else no_edits
    except ValueError:  # of a module that is None in `sys.modules`
        edits = no_edits
    return rules, chosen_for(Settings(root=NOWHERE), rules, asked((), ())), edits
