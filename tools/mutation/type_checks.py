"""Whether the type checker notices that a rule was changed: every change must pass it, as it must pass the tests.

Pyright is asked since it narrows what a guard says of a value; it runs once over all the mutants, for most of its time
is spent on what they import.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
Errors = Mapping[str, Counter[str]]
"""What is said of each file, by the file's name."""


def mistyped(changed: Sequence[tuple[Path, ast.Module]]) -> list[bool]:
    """For each file with its changed tree, whether the tree has an error that the file has not as it is."""
    if not changed:
        return []
    paths = list(dict.fromkeys(path for path, _ in changed))
    texts = {f"rule_{number}.py": ast.unparse(ast.parse(path.read_text("utf-8"))) for number, path in enumerate(paths)}
    texts |= {f"mutant_{number}.py": ast.unparse(tree) for number, (_, tree) in enumerate(changed)}
    errors = _errors(texts)
    return [
        bool(errors[f"mutant_{number}.py"] - errors[f"rule_{paths.index(path)}.py"])
        for number, (path, _) in enumerate(changed)
    ]


def _errors(texts: Mapping[str, str]) -> Errors:
    """What pyright says of these files under the project's settings, beside a link to what they import."""
    with tempfile.TemporaryDirectory(prefix="lintrain-mutants-") as name:
        folder = Path(name)
        (folder / "lintrain").symlink_to(ROOT / "lintrain", target_is_directory=True)
        (folder / "mutants").mkdir()
        for file, text in texts.items():
            (folder / "mutants" / file).write_text(text, encoding="utf-8")
        settings = {"extends": str(ROOT / "pyproject.toml"), "include": ["mutants"]}
        (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        return _read_report(_pyright(folder), len(texts))


def _pyright(folder: Path) -> str:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "--project"]
    return subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False).stdout


def _read_report(text: str, files: int) -> Errors:
    """The errors of each file; a report of fewer files than there are would let mutants pass unseen."""
    report = json.loads(text)
    if report["summary"]["filesAnalyzed"] < files:
        raise RuntimeError(f"pyright read {report['summary']['filesAnalyzed']} of {files} files")
    errors: dict[str, Counter[str]] = defaultdict(Counter)
    for one in report["generalDiagnostics"]:
        if one["severity"] == "error":
            errors[Path(one["file"]).name][one["message"]] += 1
    return errors
