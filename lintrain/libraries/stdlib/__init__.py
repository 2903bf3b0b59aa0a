"""Python's builtin functions, its literals, and the modules of its standard library."""
