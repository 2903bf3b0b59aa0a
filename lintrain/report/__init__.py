"""What a run says to people and to programs: one file per form of it."""
