"""datasets: loading, columns, rows, splits and `map`."""
