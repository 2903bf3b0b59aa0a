"""The floor: nothing but `ast.parse` of the files whose names come through a list, notebooks cell by cell.

Run as a program: `python floor.py LIST`. It needs the standard library alone.
"""

import ast
import json
import sys
import warnings
from pathlib import Path


def parse_all(names: list[str]) -> None:
    """Parse every file; one that does not parse costs what it costs until then."""
    for name in names:
        raw = Path(name).read_bytes()
        for code in codes_of(raw) if name.endswith(".ipynb") else (raw,):
            try:
                ast.parse(code)
            except (SyntaxError, ValueError, RecursionError):
                continue


def codes_of(raw: bytes) -> list[str]:
    """The cells of a notebook, without their magics."""
    try:
        cells = json.loads(raw).get("cells", ())
    except (ValueError, AttributeError):
        return []
    return [plain("".join(cell.get("source", ()))) for cell in cells if cell.get("cell_type") == "code"]


def plain(code: str) -> str:
    """A cell as Python reads it."""
    if code.startswith("%%"):
        return ""
    return "\n".join("pass" if line.startswith(("%", "!")) else line for line in code.split("\n"))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parse_all(Path(sys.argv[1]).read_text().splitlines())
