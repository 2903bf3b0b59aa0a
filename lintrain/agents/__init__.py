"""What coding agents talk to: a server of the Model Context Protocol."""
