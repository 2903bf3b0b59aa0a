"""Reads published packages without importing them and writes the tables in `lintrain/knowledge/tables`."""
