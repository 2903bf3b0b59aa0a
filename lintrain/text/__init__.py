"""Text for people and programs: sizes, strict JSON, and untrusted text made safe to print."""
