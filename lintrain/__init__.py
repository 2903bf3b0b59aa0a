"""lintrain: a linter for machine-learning training scripts.

Everything that a rule file needs is importable from here, and loaded only when asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lintrain.core.evidence import Evidence as Evidence
    from lintrain.core.finding import Finding as Finding
    from lintrain.core.finding import Reason as Reason
    from lintrain.core.fix import AddArgument as AddArgument
    from lintrain.core.fix import AddImport as AddImport
    from lintrain.core.fix import Fix as Fix
    from lintrain.core.fix import InsertAtTop as InsertAtTop
    from lintrain.core.fix import InsertBefore as InsertBefore
    from lintrain.core.fix import RemoveArgument as RemoveArgument
    from lintrain.core.fix import RemoveImport as RemoveImport
    from lintrain.core.fix import RenameArgument as RenameArgument
    from lintrain.core.fix import Replace as Replace
    from lintrain.core.fix import WrapInWith as WrapInWith
    from lintrain.core.level import Level as Level
    from lintrain.core.place import Place as Place
    from lintrain.core.rule import Rule as Rule
    from lintrain.core.verdict import Ruling as Ruling
    from lintrain.core.verdict import Verdict as Verdict
    from lintrain.core.verdict import confirmed as confirmed
    from lintrain.core.verdict import refuted as refuted
    from lintrain.core.verdict import unsettled as unsettled
    from lintrain.pipeline.pipeline import Pipeline as Pipeline

__version__ = "0.1.0"

_HOMES = {
    "lintrain.core.evidence": ("Evidence",),
    "lintrain.core.finding": ("Finding", "Reason"),
    "lintrain.core.fix": (
        "AddArgument",
        "AddImport",
        "Fix",
        "InsertAtTop",
        "InsertBefore",
        "RemoveArgument",
        "RemoveImport",
        "RenameArgument",
        "Replace",
        "WrapInWith",
    ),
    "lintrain.core.level": ("Level",),
    "lintrain.core.place": ("Place",),
    "lintrain.core.rule": ("Rule",),
    "lintrain.core.verdict": ("Ruling", "Verdict", "confirmed", "refuted", "unsettled"),
    "lintrain.pipeline.pipeline": ("Pipeline",),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'lintrain' has no attribute {name!r}")
