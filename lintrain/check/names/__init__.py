"""Names that do not exist, found by ruff, which runs beside us on the same files."""
