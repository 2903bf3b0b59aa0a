"""The static run: which files, which rules, what they find, and what the author silenced."""
