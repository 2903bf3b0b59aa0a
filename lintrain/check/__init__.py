"""The static check: which files, which rules, what they find, and what comments silence."""
