"""`lintrain server`: what editors speak to."""

from __future__ import annotations

import click


@click.command(short_help="Serve an editor (LSP).")
@click.option("--stdio", is_flag=True, help="Speak over standard input and output, as it does in any case.")
@click.option("-v", "--verbose", is_flag=True, help="Write a log to stderr.")
def command(*, stdio: bool, verbose: bool) -> None:  # noqa: ARG001 - editors pass --stdio, there is nothing else
    """Serve an editor: findings while you type, fixes, pages of rules, and probes on request.

    It speaks the Language Server Protocol, and needs `pip install "lintrain[lsp]"`.
    """
    from lintrain.cli._output import Refusal

    try:
        from lintrain.server.features import serve
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        raise Refusal('the server needs pygls; `pip install "lintrain[lsp]"` brings it') from error
    serve(verbose=verbose)
