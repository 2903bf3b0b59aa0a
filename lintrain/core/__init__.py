"""The words that every part of lintrain shares; nothing here imports more than the standard library."""
