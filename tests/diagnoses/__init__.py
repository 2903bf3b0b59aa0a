"""Mistakes that a person would ask an expert about, with the command that shows each and a sound twin of its script."""
