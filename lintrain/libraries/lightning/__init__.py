"""Lightning: `fit` and the steps of a module."""
