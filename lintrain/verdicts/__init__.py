"""Judging: what the evidence of a run shows about each finding, for the command line, the Python API and editors."""
