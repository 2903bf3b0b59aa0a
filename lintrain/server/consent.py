"""The user's consent to the Python that a probe is started with, where a project or its settings chose it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import cast

from lsprotocol import types as lsp

from lintrain.runtime.parent.interpreter import planned_interpreter
from lintrain.server.editor_session import EditorSession
from lintrain.server.worker import Urgency
from lintrain.source.bounds import find_program
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text.shown import shown

START, CANCEL = "Probe", "Cancel"


class NoProgramError(Exception):
    """The setting names a program that is not there; the text says so."""


@dataclass(eq=False)
class Consent:
    """Which interpreters the user lets probes start.

    Settings may come from a file of the workspace, and a `.venv` is a folder of it: no program that either of them
    names is started before the user has seen its path and agreed, once for each in a session. A client that asks its
    user whether a workspace is trusted says so in `initializationOptions`, which come from no file of a workspace:
    then nothing is asked, and in a workspace that is not trusted nothing is probed.
    """

    session: EditorSession
    is_trusted: bool | None = None
    _accepted: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def take(self, options: object) -> None:
        """Take in what the client says of the workspace."""
        if isinstance(options, Mapping):
            told = cast("Mapping[str, object]", options).get("trusted")
            self.is_trusted = told if isinstance(told, bool) else None

    async def python_for(self, script: str, folder: str, asked: str | None) -> str | None:
        """The Python to start, or None where the user does not want it; raises NoProgramError."""
        planned = partial(planned_interpreter, Path(script), Path(folder))
        plan = await self.session.worker.do(Urgency.NOW, planned) if asked is None else None
        if plan is not None and not plan.is_of_project:
            return plan.python
        python = _program(asked, folder) if asked is not None else plan.python if plan else ""
        if self.is_trusted or await self._agrees(script, python):
            return python
        return None

    async def _agrees(self, script: str, python: str) -> bool:
        key = (python, os.path.realpath(python))
        if key in self._accepted:
            return True
        params = lsp.ShowMessageRequestParams(
            type=lsp.MessageType.Warning,
            message=f"lintrain: probe {shown(os.path.basename(script))} with {shown(python)}? "  # noqa: PTH119 - paths are strings here
            "The project or a setting names this program, and a probe starts it.",
            actions=[lsp.MessageActionItem(title=START), lsp.MessageActionItem(title=CANCEL)],
        )
        try:
            answer = await self.session.client.server.window_show_message_request_async(params)
        except Exception:  # noqa: BLE001 - a client that cannot ask has not agreed
            return False
        if getattr(answer, "title", None) != START:
            return False
        self._accepted.add(key)
        return True


def _program(asked: str, folder: str) -> str:
    """The program that a setting names: a path, from the workspace's folder on, or a name on the search path."""
    if os.path.dirname(asked):  # noqa: PTH120 - as above
        found: str | None = os.path.abspath(os.path.join(folder, os.path.expanduser(asked)))  # noqa: PTH100, PTH111, PTH118
    else:
        found = find_program(asked, folder)
    if found is None or "\0" in found or not os.path.isfile(found):  # noqa: PTH113 - as above
        raise NoProgramError(f"`probe.python` names `{asked}`, which is no program")
    return found
