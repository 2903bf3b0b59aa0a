"""What lintrain finds in code that people posted because its training fails, each post judged before any check."""
