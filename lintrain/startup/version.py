"""The version of lintrain, in a module that imports nothing, so that every layer can state it."""

__version__ = "0.1.0"
