"""Operators: each plants one mistake in code of others, by one file for each subject."""
