"""How a watched run compares with a run alone, which late failures are found, and which sound runs stay silent."""
