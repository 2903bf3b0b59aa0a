"""What the reader knows of a script's values: plain data, without behaviour; `pipeline.library` gives them their methods."""
