"""What installed packages contain that no table covers: read from their source, in a process of its own."""
