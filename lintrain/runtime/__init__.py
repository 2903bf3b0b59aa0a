"""The runtime half: runs a script up to its training call in a child process and measures one real batch there."""
