"""Reports for programs: one document, and one file for each format made of it."""
