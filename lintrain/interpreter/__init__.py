"""The abstract interpreter: from a syntax tree to what it builds and does."""
