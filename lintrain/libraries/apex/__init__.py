"""Apex: mixed precision before PyTorch had its own."""
