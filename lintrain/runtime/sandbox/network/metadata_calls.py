"""The system calls that change a file's mode, owner, times or attributes, and where they name the file."""

from __future__ import annotations

BY_PATH, BY_LINK, BY_DESCRIPTOR, BELOW = "path", "link", "descriptor", "below"
"""The first argument is a path, a path whose last link is not followed, a descriptor; or a folder's, with a path."""

NO_FLAGS = -1

X86_64: dict[int, tuple[str, str, int]] = {
    90: ("mode", BY_PATH, NO_FLAGS),
    91: ("mode", BY_DESCRIPTOR, NO_FLAGS),
    92: ("owner", BY_PATH, NO_FLAGS),
    93: ("owner", BY_DESCRIPTOR, NO_FLAGS),
    94: ("owner", BY_LINK, NO_FLAGS),
    132: ("times", BY_PATH, NO_FLAGS),
    188: ("attributes", BY_PATH, NO_FLAGS),
    189: ("attributes", BY_LINK, NO_FLAGS),
    190: ("attributes", BY_DESCRIPTOR, NO_FLAGS),
    197: ("attributes", BY_PATH, NO_FLAGS),
    198: ("attributes", BY_LINK, NO_FLAGS),
    199: ("attributes", BY_DESCRIPTOR, NO_FLAGS),
    235: ("times", BY_PATH, NO_FLAGS),
    260: ("owner", BELOW, 4),
    261: ("times", BELOW, NO_FLAGS),
    268: ("mode", BELOW, NO_FLAGS),
    280: ("times", BELOW, 3),
    452: ("mode", BELOW, 3),
    463: ("attributes", BELOW, 2),
    466: ("attributes", BELOW, 2),
    469: ("attributes", BELOW, 4),
}
"""By its number: what a call changes, how it names the file, and which argument holds its flags."""

AARCH64: dict[int, tuple[str, str, int]] = {
    5: ("attributes", BY_PATH, NO_FLAGS),
    6: ("attributes", BY_LINK, NO_FLAGS),
    7: ("attributes", BY_DESCRIPTOR, NO_FLAGS),
    14: ("attributes", BY_PATH, NO_FLAGS),
    15: ("attributes", BY_LINK, NO_FLAGS),
    16: ("attributes", BY_DESCRIPTOR, NO_FLAGS),
    52: ("mode", BY_DESCRIPTOR, NO_FLAGS),
    53: ("mode", BELOW, NO_FLAGS),
    54: ("owner", BELOW, 4),
    55: ("owner", BY_DESCRIPTOR, NO_FLAGS),
    88: ("times", BELOW, 3),
    452: ("mode", BELOW, 3),
    463: ("attributes", BELOW, 2),
    466: ("attributes", BELOW, 2),
    469: ("attributes", BELOW, 4),
}

OF_MACHINE = {"x86_64": X86_64, "aarch64": AARCH64}

OF_32_BITS: dict[str, tuple[int, ...]] = {
    "x86_64": (
        *(15, 16, 30, 94, 95, 182, 198, 207, 212, 226, 227, 228, 235, 236, 237),
        *(271, 298, 299, 306, 320, 412, 452, 463, 466, 469),
    ),
    "aarch64": (
        *(15, 16, 30, 94, 95, 182, 198, 207, 212, 226, 227, 228, 235, 236, 237),
        *(269, 325, 326, 333, 348, 412, 452, 463, 466, 469),
    ),
}
"""Those of 32-bit programs, by the machine that runs them: they are refused."""
