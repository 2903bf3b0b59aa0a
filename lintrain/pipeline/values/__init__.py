"""What the reader knows of a script's values: plain data; `pipeline.library` gives them their methods."""
