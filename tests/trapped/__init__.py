"""A project in which everything that could run writes a file that tells of it."""
