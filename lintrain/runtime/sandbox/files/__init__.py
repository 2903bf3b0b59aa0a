"""What a script writes, renames and removes: kept apart, so that its folders stay as they are."""
