"""The report in the forms that other programs read: one file for each, made of the same document."""
