"""Script to Pipeline: the abstract interpreter, and one file per library that it knows."""
