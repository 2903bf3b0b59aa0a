"""Whether lintrain finds the mistakes that are injected into correct scripts, and leaves the correct ones alone."""
