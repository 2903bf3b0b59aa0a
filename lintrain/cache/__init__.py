"""What a check answered before, kept while nothing that the answer rests on has changed.

Nothing here may import more than `os` and `sys` at its top: an unchanged tree is answered before anything else is
loaded.
"""
