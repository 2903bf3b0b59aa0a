"""Commits of public repositories that fix a training mistake: the file before is reported, the file after is not."""
