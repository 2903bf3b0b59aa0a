"""`lintrain mcp`: the server for coding agents."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Run the server for coding agents (MCP).")
@click.argument("folders", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
def command(*, folders: tuple[Path, ...]) -> None:
    """Run a server of the Model Context Protocol on standard input and output.

    Its tools check, fix, explain and, if the user of the client agrees, probe the scripts in FOLDERS. Without FOLDERS,
    these are the client's roots, else the current folder. It needs the MCP SDK: `pip install mcp`.
    """
    from lintrain.cli._output import CommandError

    try:
        from lintrain.agents.tools import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise CommandError("the server for agents needs version 2 of the MCP SDK: `pip install 'mcp>=2'`") from error
    serve([str(folder) for folder in folders])
