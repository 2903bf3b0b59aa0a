"""evaluate: metrics."""
