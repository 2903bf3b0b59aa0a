"""Facts about the libraries, without importing them: names, signatures, versions, data sets, checkpoints."""
