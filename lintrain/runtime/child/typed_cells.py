"""Code that was typed and is in no file: cells of IPython and of Jupyter, and lines of Python's own prompt."""

from __future__ import annotations

import re
from typing import Any

from lintrain.runtime.child.library import loaded

TYPED = re.compile(r"^<(?:ipython-input-(?P<cell>\d+)-\w+|python-input-\d+)>$|[/\\]ipykernel_\d+[/\\]\d+\.py$")
"""How IPython, Python's prompt since 3.13, and Jupyter call it; the lines of all of them are known to `linecache`."""

_called: dict[str, str] = {}


def is_typed(path: str) -> bool:
    """Whether what Python calls a file is code that was typed."""
    return TYPED.search(path) is not None


def cell_name(path: str) -> str | None:
    """`In[3]`, as IPython numbers its cells; None if it says nothing, and for every real file."""
    match = TYPED.search(path)
    if match is None:
        return None
    number = match["cell"]
    name = _asked(path) or (f"In[{number}]" if number else None)
    if name is not None:
        _called[name] = path
    return name


def called(name: str) -> str | None:
    """What Python calls the cell of a name; None for all other names."""
    return _called.get(name)


def _asked(path: str) -> str | None:
    """What IPython calls it in its own tracebacks, since 8.0."""
    ipython = loaded("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    try:
        named = shell.compile.format_code_name(path)
    except AttributeError:  # no shell, or an older one
        return None
    return str(named[1]) if named else None
