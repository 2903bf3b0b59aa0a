"""The language server: findings, fixes, documentation and probes for editors."""

from lintrain.startup.light_attrs import light_attrs

with light_attrs():
    # Before any of our modules does it, whose order is that of the alphabet.
    import lsprotocol.types as lsprotocol_types

__all__ = ["lsprotocol_types"]
