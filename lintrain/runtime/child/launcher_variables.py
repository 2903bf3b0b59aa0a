"""The variables of a launcher, for a script that reads them and was started without one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lintrain.runtime.child.probe_session import ProbeSession

ASKED_FOR = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def stand_for_a_launcher(session: ProbeSession) -> None:
    """Set what torchrun sets for one process."""
    from lintrain.runtime.parent.launchers import one_process

    for name, value in one_process().items():
        os.environ.setdefault(name, value)
    session.shorten("one process is probed, with the variables that `torchrun` sets for it")
