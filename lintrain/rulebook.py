"""The rules that lintrain knows: every file of the rule folder, loaded by its place in it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from lintrain.model.manual import Manual
    from lintrain.rule import Rule

RULE_MODULES = "lintrain_rule_files"
"""Rule modules get names of their own: `lintrain.rules` exists in a wheel but not in an editable install."""


CHECKS = (b"\n    def check(self, pipeline", b"\n    def judge(self, arguments")
WORDS = b'\n    keywords = "'
NEEDS_NO_TRAINING = b"\n    needs_training = False\n"
MATTERS_IN_TESTS = b"\n    matters_in_tests = True\n"
"""How a rule's class says that it reads text, and of which files it has something to say; tests hold all to it."""


class RuleFileError(Exception):
    """A file in the rule folder that holds no single rule; the text names the file."""


class _Outside(NamedTuple):
    """What every check asks of every rule: told by the text of its file, so that few rules are loaded."""

    reads_text: bool
    may_be_young: bool
    keywords: str
    needs_training: bool
    matters_in_tests: bool

    @classmethod
    def of(cls, rule: Rule) -> _Outside:
        return cls(
            type(rule).check is not _base().check,
            rule.is_preview,
            rule.keywords,
            rule.needs_training,
            rule.matters_in_tests,
        )

    @classmethod
    def read(cls, path: Path) -> _Outside:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a `Path` costs more than the reading
            text = file.read()
        _, _, behind = text.partition(WORDS)
        return cls(
            any(begin in text for begin in CHECKS),
            b"is_preview" in text,
            behind.partition(b'"')[0].decode(),
            NEEDS_NO_TRAINING not in text,
            MATTERS_IN_TESTS in text,
        )


class RuleFile:
    """One rule with the file that it was read from and its manual page, loaded when they are asked for."""

    def __init__(self, path: Path, rule: Rule | None = None, page: str = "") -> None:
        self.path = path
        self.name = path.stem.replace("_", "-")
        """The name of its file, with dashes."""
        self.stage = path.parent.name
        """Its pipeline stage: the folder that its file lies in."""
        self._loaded = (rule, page) if rule else None

    def __reduce__(self) -> tuple[type[RuleFile], tuple[Path]]:
        """To another process a rule goes as its file."""
        return RuleFile, (self.path,)

    @property
    def is_loaded(self) -> bool:
        """Whether its code was loaded yet."""
        return self._loaded is not None

    @property
    def rule(self) -> Rule:
        """The rule itself; raises RuleFileError where the file defines none."""
        return self._load()[0]

    @property
    def manual(self) -> Manual:
        """The rule's page, taken apart."""
        from lintrain.model.manual import read_manual

        return read_manual(self._load()[1])

    def _load(self) -> tuple[Rule, str]:
        if self._loaded is None:
            self._loaded = _read(self.path)
        return self._loaded

    @cached_property
    def _outside(self) -> _Outside:
        return _Outside.of(self._loaded[0]) if self._loaded else _Outside.read(self.path)

    @property
    def is_preview(self) -> bool:
        """Whether the rule is young, and only heard where somebody asks for such rules."""
        return self._outside.may_be_young and self.rule.is_preview

    @property
    def reads_text(self) -> bool:
        """Whether the rule finds anything without running the script."""
        return self._outside.reads_text

    @cached_property
    def keywords(self) -> tuple[tuple[str, ...], ...]:
        """The keywords without which the rule has nothing to say of a script: one of each group."""
        said = self._outside.keywords
        return tuple(tuple(group.split("|")) for group in said.split(" & ")) if said else ()

    @property
    def needs_training(self) -> bool:
        """Whether the rule has something to say only of a script that trains."""
        return self._outside.needs_training

    @property
    def matters_in_tests(self) -> bool:
        """Whether the rule has something to say of unit tests."""
        return self._outside.matters_in_tests

    @property
    def reads_evidence(self) -> bool:
        """Whether a probe can judge or find this mistake."""
        return type(self.rule).verify is not _base().verify or type(self.rule).inspect is not _base().inspect

    @property
    def mends(self) -> bool:
        """Whether the rule offers a fix."""
        return type(self.rule).fix is not _base().fix

    @property
    def fix_safety(self) -> str:
        """`safe` or `unsafe` where all of the rule's fixes are, `either` where the script decides, "" without fixes.

        Read from the code of `fix`, which says `safe=` of each.
        """
        if not self.mends:
            return ""
        import ast
        import inspect
        import textwrap

        method = ast.parse(textwrap.dedent(inspect.getsource(type(self.rule).fix)))
        said = {
            ast.unparse(node.value) for node in ast.walk(method) if isinstance(node, ast.keyword) and node.arg == "safe"
        }
        return {"True": "safe", "False": "unsafe"}.get(" ".join(said), "either")


def rule_folder() -> Path:
    """The folder of the shipped rules: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).parent
    installed = package / "rules"
    return installed if installed.is_dir() else package.parent / "rules"


@cache
def find_rules() -> tuple[RuleFile, ...]:
    """Every shipped rule, ordered by stage and name; a run that meets nothing to judge loads none."""
    return tuple(RuleFile(path) for path in sorted(rule_paths(rule_folder())))


@cache
def load_rules(folder: Path | None = None) -> tuple[RuleFile, ...]:
    """Every rule of a folder, ordered by stage and name, each of them loaded."""
    if folder is None:
        return tuple(file for file in find_rules() if file.rule)
    return tuple(read_rule_file(path) for path in sorted(rule_paths(folder)))


def rule_paths(root: Path) -> Iterator[Path]:
    """The rule files of a folder: one level of stages, names that do not start with an underscore."""
    for stage in _unhidden(root):
        if stage.is_dir():
            yield from (Path(file.path) for file in _unhidden(stage.path) if file.name.endswith(".py"))


def _unhidden(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith(("_", ".")))


def read_rule_file(path: Path) -> RuleFile:
    """Load one rule file; raises RuleFileError when it does not define exactly one rule with a page."""
    file = RuleFile(path)
    _ = file.rule
    return file


def _read(path: Path) -> tuple[Rule[Any], str]:
    """The rule of a file and its page."""
    module = _import_file(path)
    rules: list[type[Rule[Any]]] = [
        member
        for member in vars(module).values()
        if isinstance(member, type) and member.__module__ == module.__name__ and issubclass(member, _base())
    ]
    if len(rules) != 1:
        raise RuleFileError(f"{path}: defines {len(rules)} rules, a rule file holds exactly one")
    if not module.__doc__:
        raise RuleFileError(f"{path}: has no manual page (module docstring)")
    rule = rules[0]
    rule.name = path.stem.replace("_", "-")
    rule.stage = path.parent.name
    return rule(), module.__doc__


def _base() -> type[Rule[Any]]:
    from lintrain.rule import Rule

    return Rule


def _import_file(path: Path) -> ModuleType:
    name = f"{RULE_MODULES}.{path.parent.name}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RuleFileError(f"{path}: cannot be loaded as a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise RuleFileError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
    return module
