"""`python -m tests.support.warm.agents mcp`: a server for agents whose probes run in the warm Python of a test.

All commands are processes of their own, as for users; only the libraries are imported already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lintrain.agents import commands
from lintrain.cli import main
from tests.support.probing import warm_option

run_command: Any = vars(commands)["_run"]


async def run_warm(at: object, words: Sequence[str], seconds: float) -> Any:  # Any: what the function gives
    """Run a command of the server, a probe with the option that names the Python of its script."""
    command, *rest = words
    return await run_command(at, [command, *(warm_option() if command == "probe" else ()), *rest], seconds)


if __name__ == "__main__":
    vars(commands)["_run"] = run_warm
    main()
