"""NumPy: arrays, permutations and random numbers."""
