"""The search for costs that grow faster than the input: see `python -m tests.growth`."""
