"""Reports for other programs: the JSON document, and the formats that are made from it."""
