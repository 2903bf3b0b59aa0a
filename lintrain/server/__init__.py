"""The language server: what editors ask for while somebody writes."""
