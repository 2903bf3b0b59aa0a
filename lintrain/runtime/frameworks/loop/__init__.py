"""Runs in a loop of the script's own: followed through torch's hooks while the script goes on for a few steps."""
