"""Weights that the script loads by itself: which were filled, and which names did not fit."""

from __future__ import annotations

import functools
from typing import Any

from lintrain.evidence.run import StateLoad
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.probe_session import ProbeSession

MOST = 32


def watch_loading(session: ProbeSession, module_class: Any) -> None:
    """Keep which weights the script filled by itself, for a head that it loads has learned already."""
    load = module_class.load_state_dict

    @functools.wraps(load)
    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        result = load(self, state_dict, *args, **kwargs)
        # Kept on the module: a script may load its body and its head in two calls.
        filled = getattr(self, "lintrain_filled", frozenset[str]())
        object.__setattr__(self, "lintrain_filled", filled | frozenset(map(str, state_dict)))
        location = frame_location(users_frame())
        if location is not None and len(session.state_loads) < MOST and hasattr(result, "missing_keys"):
            session.state_loads.append(
                StateLoad(
                    location,
                    len(self.state_dict()),
                    len(result.missing_keys),
                    len(result.unexpected_keys),
                    _prefix(list(result.missing_keys), list(result.unexpected_keys)),
                )
            )
        return result

    module_class.load_state_dict = load_state_dict


def _prefix(missing: list[str], unexpected: list[str]) -> str:
    """What every unexpected name has before a missing one, or the other way round."""
    for longer, shorter in ((unexpected, missing), (missing, unexpected)):
        if longer and shorter and longer[0].endswith(shorter[0]):
            prefix = longer[0].removesuffix(shorter[0])
            if {f"{prefix}{name}" for name in shorter} == set(longer):
                return prefix
    return ""
