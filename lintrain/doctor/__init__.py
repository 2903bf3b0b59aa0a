"""What a run left behind, read and judged: curves, logs and tracebacks."""
