"""The language server: findings, fixes, documentation and probes for editors."""

from lintrain.startup.light_attrs import light_attrs

with light_attrs():
    # Before any of our modules does it, whose order is that of the alphabet.
    import lsprotocol.types as lsprotocol_types

import lsprotocol._hooks as lsprotocol_hooks

IS_RESOLVED = "_resolved_forward_references"
"""Where lsprotocol notes that it has gone through all its classes, which would make them all."""

setattr(lsprotocol_hooks, IS_RESOLVED, True)

__all__ = ["lsprotocol_hooks", "lsprotocol_types"]
