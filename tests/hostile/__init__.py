"""Scripts that do everything around and inside a training loop that a probe must survive."""
