"""Mutation testing of the rules: small changes to their code, each of which some test must notice."""
