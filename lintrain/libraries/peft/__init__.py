"""PEFT: adapters."""
