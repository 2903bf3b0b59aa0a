"""`lintrain server`: the language server."""

from __future__ import annotations

import gc

import click


@click.command(short_help="Run the language server.")
@click.option("--stdio", is_flag=True, help="Use standard input and output (always the case).")
@click.option("-v", "--verbose", is_flag=True, help="Write a log to stderr.")
def command(*, stdio: bool, verbose: bool) -> None:  # noqa: ARG001 - editors pass --stdio, the only transport
    """Run the language server (LSP): findings while you type, fixes, rule documentation, and probes on request.

    It needs the package pygls.
    """
    from lintrain.cli._output import CommandError, how_to_install

    # Imports make many objects and hardly any garbage: to look for it takes a sixth of a server's start.
    gc.disable()
    try:
        from lintrain.server.features import serve
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        raise CommandError(f"the server needs pygls: {how_to_install('pygls')}") from error
    serve(verbose=verbose)
