"""One measurement per file, in the order of the pipeline; each takes the run and gives plain evidence."""
