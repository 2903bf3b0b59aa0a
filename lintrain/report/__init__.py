"""Reports of checks and probes: for a terminal, as an HTML page, and for other programs."""
