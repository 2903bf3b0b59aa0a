"""The process of lintrain that starts a probed script, follows it and ends it."""
