"""Runs of transformers' Trainer: intercepted at the training call, set up by the library, and driven stage by stage."""
