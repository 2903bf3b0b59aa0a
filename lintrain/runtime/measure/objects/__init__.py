"""Objects that a script makes beside its training, and what becomes of them."""
