"""What runs inside the script's own process: the standard library and the vocabulary of `lintrain.model` and `lintrain.evidence`, nothing else.

Torch, transformers and datasets are those that the script imports. They are read as `Any` (see `library`): probes meet
many versions of them, and no one version's types fit all.
"""
