"""Files as the user has them: scripts, notebooks, stdin; their suppressions; and how they are found."""
