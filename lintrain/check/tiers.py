"""Which files to read: most are excluded by a scan of their bytes, others by a walk over their syntax tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lintrain.source.configuration import Configuration
from lintrain.source.pasted import may_be_pasted
from lintrain.source.project import Project
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.knowledge.target import Targets
    from lintrain.rulebook import RuleFile

LIBRARIES = lazy_pattern(
    rb"\b(?:accelerate|datasets|evaluate|keras|lightning|peft|pytorch_lightning|sklearn|tensorflow|torch|transformers|trl)\b"
)
"""A file that names none of these contains no training run that lintrain knows."""

IMPORTS = lazy_pattern(r"^[ \t]*(?:from|import)\s+[\w.]", re.MULTILINE)


def names_library(raw: bytes) -> bool:
    """Whether a file may contain a training run: the byte scan that excludes most files."""
    return LIBRARIES.search(raw) is not None or may_be_pasted(raw)


def rules_concerned(
    rules: Sequence[RuleFile], source: Source, project: Project | None, find_targets: Callable[[], Targets]
) -> Sequence[RuleFile]:
    """The rules that may apply to a file; without one it is not read.

    Of a file that trains, or imports a module of its project that does, these are all. Of others, and of unit tests,
    they are those that need no training and find their keywords in the file.
    """
    if isinstance(source, Configuration):
        return [rule for rule in rules if rule.judges_configurations] if source.parts else ()
    text = source.text
    is_ours = names_library(text.encode(errors="replace"))
    if not rules or (not is_ours and (project is None or not IMPORTS.search(text))):
        return ()
    if source.holds_unit_tests:
        return _without_training([rule for rule in rules if rule.matters_in_tests], source, find_targets)
    from lintrain.source.training_syntax import may_train, runs_itself

    if is_ours and source.cached(may_train):
        return rules
    if project is None or not runs_itself(source):
        return _without_training(rules, source, find_targets) if is_ours else ()
    from lintrain.check.imported_training import imports_training

    if imports_training(source, project):
        return rules
    return _without_training(rules, source, find_targets) if is_ours else ()


def _without_training(
    rules: Sequence[RuleFile], source: Source, find_targets: Callable[[], Targets]
) -> Sequence[RuleFile]:
    """The rules that apply to a file that trains nothing."""
    from lintrain.source.fragments import packages_meant
    from lintrain.source.training_syntax import imported_packages, imports_hub_library

    asked = [rule for rule in rules if not rule.needs_training and contains_keywords(source, rule)]
    if asked and not imports_hub_library(source):
        is_torch = "torch" in imported_packages(source) | packages_meant(source)
        asked = [rule for rule in asked if is_torch and rule.judges_networks]
    if not asked:
        return ()
    targets = find_targets()
    return [rule for rule in asked if rule.rule.prescreen(source, targets)]


def contains_keywords(source: Source, rule: RuleFile) -> bool:
    """Whether the text of a file contains one keyword of each group that a rule needs."""
    return all(any(word in source.text for word in group) for group in rule.keywords)
