"""Rewritings of scripts that leave what they do as it is, and so must leave what lintrain says of them as it is."""
