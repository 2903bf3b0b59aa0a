"""What goes wrong when a fix is applied."""


class FixError(Exception):
    """A fix that does not fit the text: its place holds no such code, or what comes out does not parse."""
