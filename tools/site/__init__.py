"""What the documentation site makes of the rule files and the tables; `python tools/dev.py docs` builds it."""
