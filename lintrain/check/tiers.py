"""Which files to read: most are excluded by a scan of their bytes, others by a walk over their syntax tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from lintrain.source.configuration import Configuration
from lintrain.source.fragments import meanings, packages_meant
from lintrain.source.pasted import may_be_pasted
from lintrain.source.project import Project
from lintrain.source.source import Source, words
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.knowledge.target import Targets
    from lintrain.rulebook import RuleFile

LIBRARIES = lazy_pattern(
    rb"\b(?:accelerate|datasets|evaluate|hydra|keras|lightning|peft|pytorch_lightning|sentence_transformers|setfit|sklearn"
    rb"|tensorflow|torch|transformers|trl)\b"
)
"""A file that names none of these contains no training run that lintrain knows."""

MODELS = frozenset({"torch", "keras", "tensorflow", "tf_keras", "sklearn"})
"""Libraries whose models are judged in files without a training loop: networks where they are only defined, and what
scikit-learn splits, fits and scores."""

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
    from lintrain.source.training_syntax import imported_packages, imports_hub_library

    is_hub = imports_hub_library(source)
    if not is_hub and MODELS.isdisjoint(imported_packages(source) | packages_meant(source)):
        return ()
    asked = [rule for rule in rules if not rule.needs_training and (is_hub or rule.judges_networks)]
    words = Words([source])
    asked = [rule for rule in asked if words.hold(rule)]
    if not asked:
        return ()
    targets = find_targets()
    return [rule for rule in asked if rule.rule.prescreen(source, targets)]


class Words:
    """The words of a script, of the modules that were read for it and of `also`, in which rules look for keywords.

    Each keyword is looked for once, and one without dots or brackets among the words of the text, each written once:
    for 260 keywords in 20 KB this takes 0.7 ms, and 1.7 ms in the text itself.
    """

    def __init__(self, sources: Iterable[Source], also: Iterable[str] = ()) -> None:
        # Keywords may be words of an import: `datasets`.
        meant = [*(" ".join(meanings(source).values()) for source in sources), *also]
        self._texts = [*(source.text for source in sources), *meant]
        self._words = " ".join([*(source.cached(_joined) for source in sources), *meant])
        self._known: dict[tuple[str, ...], bool] = {}

    def hold(self, rule: RuleFile) -> bool:
        """Whether there is one keyword of each group that a rule needs."""
        for group in rule.keywords:
            if group not in self._known:
                self._known[group] = any(map(self._has, group))
            if not self._known[group]:
                return False
        return True

    def _has(self, word: str) -> bool:
        return word in self._words if word.isidentifier() else any(word in text for text in self._texts)


def _joined(source: Source) -> str:
    return " ".join(source.cached(words))
