"""Compiled models run eagerly: compiling takes longer than all measurements together and changes none of them."""

from __future__ import annotations

import functools
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession

ONLY_OF_INDUCTOR = ("mode", "options")


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Patch `torch.compile` as soon as the script imports torch."""
    hooks.add("torch", lambda torch: _patch(session, torch))


def _patch(session: ProbeSession, torch: Any) -> None:
    """The wrapper around the module stays as the script expects it; before torch 2.6 nothing makes it run eagerly."""
    if not hasattr(torch.compiler, "set_stance"):
        return
    compile_ = torch.compile

    @functools.wraps(compile_)
    def left_out(*args: Any, **kwargs: Any) -> Any:
        session.shorten("`torch.compile` was left out")
        # In addition to the backend: a module that was compiled before this call, or by a library, runs eagerly too.
        torch.compiler.set_stance("force_eager")
        given = {name: value for name, value in kwargs.items() if name not in ONLY_OF_INDUCTOR}
        return compile_(*args, **{**given, "backend": "eager"})

    torch.compile = left_out
