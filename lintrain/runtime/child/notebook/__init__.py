"""A notebook in place of a script: its cells run in order in `__main__`, without a kernel."""
