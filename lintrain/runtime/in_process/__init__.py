"""Runs that are measured inside of the process that asks for it, which then continues as if nothing had been
measured.
"""
