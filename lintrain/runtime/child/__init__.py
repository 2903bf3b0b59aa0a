"""What runs inside the script's own process: the standard library, `lintrain.model` and `lintrain.evidence`, no more.

Torch, transformers and datasets are those that the script imports. They are read as `Any` (see `library`): probes meet
many versions of them, and no one version's types fit all.
"""
