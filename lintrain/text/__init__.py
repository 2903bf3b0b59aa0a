"""Text output: quantities, strict JSON, and untrusted text made safe to print."""
