"""Judging: what the evidence of a run shows about each finding, for command line, Python API and editor."""
