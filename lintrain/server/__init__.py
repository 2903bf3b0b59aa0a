"""The language server: findings, fixes, documentation and probes for editors."""
