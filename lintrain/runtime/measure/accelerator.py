"""The GPU that a pass ran on, and the most memory that it took there."""

from __future__ import annotations

from lintrain.evidence.run import DeviceEvidence
from lintrain.runtime.child.library import loaded


def measure_device() -> DeviceEvidence | None:
    """The current GPU of torch with the peaks of its allocator since the process began; None if none was used."""
    torch = loaded("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    index = torch.cuda.current_device()
    device = torch.cuda.get_device_properties(index)
    allocated, reserved = torch.cuda.max_memory_allocated(index), torch.cuda.max_memory_reserved(index)
    return DeviceEvidence(str(device.name), int(device.total_memory), int(allocated), int(reserved))
