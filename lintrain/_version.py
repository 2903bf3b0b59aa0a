"""The version, in a module of its own: reports name it, and `lintrain` itself imports what makes them."""

__version__ = "0.1.0"
