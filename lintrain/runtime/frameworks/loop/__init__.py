"""Runs in a loop of the script's own: followed through hooks in torch while the script continues for a few steps."""
