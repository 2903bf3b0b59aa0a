"""pandas: frames and series."""
