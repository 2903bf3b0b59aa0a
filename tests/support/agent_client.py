"""A coding agent that talks to `lintrain mcp` through the SDK's own client, and sees only its answers."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitRequestParams, ElicitResult, ListRootsResult, Root, TextContent
from pydantic import FileUrl

from lintrain.report.machine.agent import CHARACTERS

ROOT = Path(__file__).parents[2]
SECONDS = 240.0

Consent = Literal["accept", "decline", "cancel"]


@dataclass
class Agent:
    """A connected client: what it was asked, and how many calls and tokens its answers took."""

    client: Client
    asked: list[str] = field(default_factory=list)
    calls: int = 0
    tokens: float = 0.0

    async def call(self, tool: str, **arguments: Any) -> str:
        """The text of an answer; an error begins with `error: `."""
        async with asyncio.timeout(SECONDS):
            result = await self.client.call_tool(tool, arguments)
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        self.calls += 1
        self.tokens += len(text) / CHARACTERS
        return f"error: {text}" if result.is_error else text


def talk(
    folder: Path,
    conversation: Callable[[Agent], Awaitable[None]],
    *words: str,
    consent: Consent | None = "accept",
    roots: tuple[Path, ...] = (),
    mode: str = "auto",
    variables: Mapping[str, str] | None = None,
    module: str = "lintrain",
) -> None:
    """Have a conversation with a server in a folder; `consent` is what the user answers, None for no user to ask."""
    asyncio.run(_talk(folder, conversation, [module, "mcp", *words], consent, roots, mode, variables or {}))


async def _talk(
    folder: Path,
    conversation: Callable[[Agent], Awaitable[None]],
    started: Sequence[str],
    consent: Consent | None,
    roots: tuple[Path, ...],
    mode: str,
    variables: Mapping[str, str],
) -> None:
    asked: list[str] = []

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action=consent or "cancel", content={"run": True} if consent == "accept" else None)

    async def list_roots(context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(root.as_uri())) for root in roots])

    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    server = StdioServerParameters(command=sys.executable, args=["-P", "-m", *started], cwd=folder, env=environment)
    client = Client(
        stdio_client(server),
        mode=mode,
        elicitation_callback=elicit if consent else None,
        list_roots_callback=list_roots if roots else None,
    )
    async with client as connected:
        await conversation(Agent(connected, asked))
