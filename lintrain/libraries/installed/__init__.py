"""Installed packages that no table covers."""
