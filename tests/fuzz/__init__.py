"""Inputs that nobody would write, by the thousand: each ends in findings or in a stated refusal, within its budget."""
