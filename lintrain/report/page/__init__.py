"""Reports as a single HTML page without external resources."""
