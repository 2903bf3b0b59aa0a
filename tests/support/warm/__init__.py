"""A Python that has the libraries imported: scripts of probes start in it without the seconds that imports take."""
