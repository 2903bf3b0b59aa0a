"""The first steps of a script followed and not measured: passes that are compared with each other."""
