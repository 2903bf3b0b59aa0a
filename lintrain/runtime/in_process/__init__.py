"""Runs that are measured inside of the process that asks for it, which then goes on as if nothing had been measured."""
