"""Configuration files that start a training run: read as text, and described as the Python that their tool runs."""
