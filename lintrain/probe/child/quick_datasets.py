"""Keep large datasets cheap."""

from __future__ import annotations

from lintrain.probe.child.hooks import AfterImport
from lintrain.probe.child.session import Session


def install(session: Session, hooks: AfterImport) -> None:
    """Patch `Dataset.map` as soon as the script imports datasets."""
