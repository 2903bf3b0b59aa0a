"""Public scripts that need the hub or a GPU, probed on a machine that has neither."""
