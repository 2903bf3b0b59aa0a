"""Stop at the first optimizer step outside of a trainer: a probe must never train for real."""

from __future__ import annotations

from typing import Any

from lintrain.probe.child.frames import frame_place, users_frame
from lintrain.probe.child.hooks import AfterImport
from lintrain.probe.child.session import Session


def install(session: Session, hooks: AfterImport) -> None:
    """Watch every torch optimizer that the script makes."""

    def watch(module: Any) -> None:
        module.register_optimizer_step_pre_hook(stop)

    def stop(*_: Any) -> None:
        if not session.measuring:
            place = frame_place(users_frame())
            session.stop_at_own_loop(f" at {place.path}:{place.line}" if place else "")

    hooks.add("torch.optim.optimizer", watch)
