"""Scripts that make what the repository ships; nothing here is part of the package."""
