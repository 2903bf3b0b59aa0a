"""The report of a probe as one page that needs nothing but itself."""
