"""Run every example of a page of errors in this process, and write what is known of each error, one line of JSON each.

A page is Markdown: code before the first heading is run once, and every heading names a kind, with the script that
raises it below. What follows a kind's name only tells examples apart.
"""

from __future__ import annotations

import io
import json
import linecache
import logging
import os
import random
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Example:
    """One script that ends with an error: `kind` explains it as `cause`, none of the kinds in `others` does."""

    kind: str
    title: str
    code: str
    cause: str
    others: tuple[str, ...]
    is_certain: bool


def read_page(path: Path) -> tuple[str, list[Example]]:
    """The code that a page begins with, and its examples."""
    head, *parts = re.split(r"^## ", path.read_text("utf-8"), flags=re.MULTILINE)
    return _code(head), [_example(part) for part in parts]


def _code(text: str) -> str:
    return "\n".join(line[4:] if line.startswith("    ") else "" for line in text.splitlines()) + "\n"


def _example(part: str) -> Example:
    title, _, body = part.partition("\n")
    cause = " ".join(line.removeprefix("> ") for line in body.splitlines() if line.startswith("> "))
    others = tuple(re.findall(r"^Not ([\w-]+)\.$", body, re.MULTILINE))
    return Example(title.split()[0], title, _code(body), cause, others, "Only likely." not in body)


def outcomes(path: Path) -> Iterator[dict[str, Any]]:
    """The outcome of every example of a page."""
    from lintrain.verdicts.endings.explaining import explain, kinds

    prelude, examples = read_page(path)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(prelude, "prelude.py", "exec"), names)
    for example in examples:
        failure = _failure(example.code, dict(names))
        if failure is None:
            yield {"title": example.title, "kind": "no error", "cause": "", "matching": []}
            continue
        found = explain(failure)
        yield {
            "title": example.title,
            "kind": found.kind,
            "cause": found.cause,
            "fix": found.fix,
            "is_certain": found.is_certain,
            "matching": [kind.name for kind in kinds() if kind.matches(failure) is not None],
            "raised_by_script": explain(_raised_by_script(failure)).kind,
        }


def _failure(code: str, names: dict[str, Any]) -> Any:
    from lintrain.runtime.child.frames import failure_of
    from lintrain.runtime.child.given import parsed

    path = str(Path.cwd() / "train.py")
    linecache.cache[path] = (len(code), None, code.splitlines(keepends=True), path)
    parsed.cache_clear()
    _seed()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            exec(compile(code, path, "exec"), names)
    except BaseException as error:  # noqa: BLE001 - whatever an example raises is its outcome
        return failure_of(error, None)
    return None


def _first_argument(error: BaseException) -> str:
    return str(error.args[0])


def _raised_by_script(failure: Any) -> Any:
    """The same class and message, raised by the script's own code."""
    kind: Any = Exception
    for name in (*reversed(failure.kinds), failure.type):
        kind = kind if kind.__name__ == name else type(name, (kind,), {"__str__": _first_argument})
    return _failure("def check(error):\n    raise error\ncheck(error)\n", {"error": kind(failure.message)})


def _seed() -> None:
    random.seed(0)
    for name in ("numpy.random", "torch"):
        if name in sys.modules:
            getattr(sys.modules[name], "seed" if name.startswith("numpy") else "manual_seed")(0)


def main() -> None:
    """Write the outcomes of the page that the command line names."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
    out = sys.stdout
    for outcome in outcomes(FOLDER / sys.argv[1]):
        out.write(json.dumps(outcome) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
