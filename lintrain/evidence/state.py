"""What a probe sees of saved weights that a script loads."""

from __future__ import annotations

from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StateLoad:
    """One call of `load_state_dict` on a module, before training: tensors of the module, and names that did not fit.

    `prefix` is what stands before or is missing from every name, "" where no such thing would make them fit.
    """

    location: Location
    tensors: int
    missing: int
    unexpected: int
    prefix: str = ""
