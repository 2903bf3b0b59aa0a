"""Judging: what the evidence of a run says about each finding. Command line, Python API and editor use it alike."""
