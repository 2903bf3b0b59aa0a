"""What a project asks of lintrain: `[tool.lintrain]` in pyproject.toml, or a lintrain.toml."""
