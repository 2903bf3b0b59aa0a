"""The documentation site, from docs/, the rule files and the tables; `python tools/dev.py docs` builds it."""
