"""The stages that are only measured on request: the numbers of each in one line."""

from __future__ import annotations

from lintrain.core.evidence import Evidence


def numbers_of_extra(evidence: Evidence, name: str) -> str:
    """The key numbers of a stage that passed; nothing for one that has its line elsewhere."""
    match name:
        case "checkpoint":
            return _checkpoint(evidence)
        case _:
            return ""


def _checkpoint(evidence: Evidence) -> str:
    resumed = evidence.checkpoint
    if resumed is None:
        return ""
    size = sum(resumed.files.values()) / 2**20
    files = f"{len(resumed.files)} file{'' if len(resumed.files) == 1 else 's'}"
    saved = f"saved after {resumed.saved_after} steps ({files}, {size:.1f} MiB)"
    went_on, starts = resumed.losses
    losses = f"next loss {starts:.4g}, {went_on:.4g} without the interruption"
    different = "; ".join(resumed.differences)
    return f"{saved}; {losses}; {f'not as it was: {different}' if different else 'all parts as they were'}"
