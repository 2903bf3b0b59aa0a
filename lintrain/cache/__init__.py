"""Cached reports and results of checks, valid while none of their dependencies has changed.

Nothing here may import more than `os` and `sys` at its top: the report of an unchanged tree is printed before
anything else is loaded.
"""
