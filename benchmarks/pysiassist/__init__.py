"""What lintrain finds in the samples of PYSIASSIST, code that people pasted into a forum."""
