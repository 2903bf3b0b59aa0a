"""Configuration files of public repositories: what is found in them as they are, and with a mistake put in."""
