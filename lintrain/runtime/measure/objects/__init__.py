"""Objects that a script creates besides its training, and what happens to them."""
