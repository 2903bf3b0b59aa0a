"""The rules of lintrain: one per file of the rule folder, loaded when it is used."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from lintrain.startup.folders import folder_of_rules

if TYPE_CHECKING:
    from lintrain.model.manual import Manual
    from lintrain.rule import Rule

RULE_MODULES = "lintrain_rule_files"
"""Rule modules get names of their own: `lintrain.rules` exists in a wheel but not in an editable install."""


CODE, LEVEL, METHOD = b"\nfrom __future__", b"\n    level = ", b"\n    def "
CHECKS = (b"\n    def check(self, pipeline", b"\n    def judge(self, arguments")
KEYWORDS = b'\n    keywords = "'
IS_PREVIEW = b"\n    is_preview = True\n"
NEEDS_NO_TRAINING = b"\n    needs_training = False\n"
JUDGES_NETWORKS = b"\n    judges_networks = True\n"
MATTERS_IN_TESTS = b"\n    matters_in_tests = True\n"
JUDGES_WHOLE_SCRIPT = b"\n    judges_whole_script = True\n"
JUDGES_CONFIGURATIONS = b"\n    judges_configurations = True\n"
"""How the text of a rule file tells, without importing it, which files the rule applies to; tests enforce the form."""


LARGEST_RULE = 1024 * 1024
"""The most bytes of a rule file of a project's own."""


class RuleFileError(Exception):
    """A file in the rule folder that does not define exactly one rule; the text names the file."""


class _Summary(NamedTuple):
    """What every check needs from every rule, read from the text of its file, so that few rules are imported."""

    reads_text: bool
    is_preview: bool
    keywords: str
    needs_training: bool
    judges_networks: bool
    matters_in_tests: bool
    judges_whole_script: bool
    judges_configurations: bool

    @classmethod
    def of(cls, rule: Rule) -> _Summary:
        return cls(
            type(rule).check is not _base().check,
            rule.is_preview,
            rule.keywords,
            rule.needs_training,
            rule.judges_networks,
            rule.matters_in_tests,
            rule.judges_whole_script,
            rule.judges_configurations,
        )

    @classmethod
    def read(cls, path: Path) -> _Summary:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a `Path` costs more than the reading
            text = file.read()
        # Page and methods are most of a file, and each search in all 297 takes half a millisecond.
        begin = max(0, text.find(LEVEL, max(0, text.find(CODE))))
        set_in_class = text[begin : max(0, text.find(METHOD, begin)) or None]
        _, _, rest = set_in_class.partition(KEYWORDS)
        return cls(
            any(text.find(check, begin) >= 0 for check in CHECKS),
            IS_PREVIEW in set_in_class,
            rest.partition(b'"')[0].decode(),
            NEEDS_NO_TRAINING not in set_in_class,
            JUDGES_NETWORKS in set_in_class,
            MATTERS_IN_TESTS in set_in_class,
            JUDGES_WHOLE_SCRIPT in set_in_class,
            JUDGES_CONFIGURATIONS in set_in_class,
        )


class RuleFile:
    """One rule with its file and its manual page, loaded when they are needed.

    A rule of a project's own has the `digest` of the content that its user trusts: no other content of the file runs.
    """

    def __init__(self, path: Path, rule: Rule | None = None, page: str = "", digest: str = "") -> None:
        self.path = path
        self.digest = digest
        self.name = path.stem.replace("_", "-")
        """The name of its file, with dashes."""
        self.stage = path.parent.name
        """Its pipeline stage: the folder of its file."""
        self._loaded = (rule, page) if rule else None

    def __reduce__(self) -> tuple[type[RuleFile], tuple[Path, None, str, str]]:
        """A rule is pickled as the path of its file, and what that must contain."""
        return RuleFile, (self.path, None, "", self.digest)

    @property
    def is_loaded(self) -> bool:
        """Whether its code is loaded."""
        return self._loaded is not None

    @property
    def rule(self) -> Rule:
        """The rule itself; raises RuleFileError if the file does not define one."""
        return self._load()[0]

    @property
    def manual(self) -> Manual:
        """The rule's page, parsed."""
        from lintrain.model.manual import read_manual

        return read_manual(self._load()[1])

    def _load(self) -> tuple[Rule, str]:
        if self._loaded is None:
            self._loaded = _read(self.path, self.digest)
        return self._loaded

    @cached_property
    def _summary(self) -> _Summary:
        is_read = self._loaded is None and not self.digest
        return _Summary.read(self.path) if is_read else _Summary.of(self.rule)

    @property
    def is_preview(self) -> bool:
        """Whether the rule is a preview rule, which runs on request only."""
        return self._summary.is_preview

    @property
    def reads_text(self) -> bool:
        """Whether the rule can find mistakes without running the script."""
        return self._summary.reads_text

    @cached_property
    def keywords(self) -> tuple[tuple[str, ...], ...]:
        """The keywords of the rule: a script needs one of each group for the rule to apply."""
        keywords = self._summary.keywords
        return tuple(tuple(group.split("|")) for group in keywords.split(" & ")) if keywords else ()

    @property
    def needs_training(self) -> bool:
        """Whether the rule applies only to scripts that train."""
        return self._summary.needs_training

    @property
    def judges_networks(self) -> bool:
        """Whether the rule also applies to files that import torch and train nothing."""
        return self._summary.judges_networks

    @property
    def matters_in_tests(self) -> bool:
        """Whether the rule applies to unit tests."""
        return self._summary.matters_in_tests

    @property
    def judges_whole_script(self) -> bool:
        """Whether the rule says nothing about a piece of a script."""
        return self._summary.judges_whole_script

    @property
    def judges_configurations(self) -> bool:
        """Whether the rule applies to configuration files."""
        return self._summary.judges_configurations

    @property
    def reads_evidence(self) -> bool:
        """Whether a probe can judge or find this mistake."""
        return type(self.rule).verify is not _base().verify or type(self.rule).inspect is not _base().inspect

    @property
    def has_fix(self) -> bool:
        """Whether the rule offers a fix."""
        return type(self.rule).fix is not _base().fix

    @property
    def fix_safety(self) -> str:
        """`safe` or `unsafe` if all fixes of the rule are, `either` if it depends on the script, "" without fixes.

        Read from the code of `fix`, which passes `safe=` to each.
        """
        if not self.has_fix:
            return ""
        import ast
        import inspect
        import textwrap

        method = ast.parse(textwrap.dedent(inspect.getsource(type(self.rule).fix)))
        values = {
            ast.unparse(node.value) for node in ast.walk(method) if isinstance(node, ast.keyword) and node.arg == "safe"
        }
        return {"True": "safe", "False": "unsafe"}.get(" ".join(values), "either")


def rule_folder() -> Path:
    """The folder of the rules: inside the package if installed, next to it in a checkout."""
    return Path(folder_of_rules())


@cache
def find_rules() -> tuple[RuleFile, ...]:
    """Every rule, ordered by stage and name; a run without a training script loads none."""
    return tuple(RuleFile(path) for path in sorted(rule_paths(rule_folder())))


@cache
def load_rules(folder: Path | None = None) -> tuple[RuleFile, ...]:
    """Every rule of a folder, ordered by stage and name, loaded."""
    if folder is None:
        return tuple(file for file in find_rules() if file.rule)
    return tuple(read_rule_file(path) for path in sorted(rule_paths(folder)))


def load_each(rules: Iterable[RuleFile]) -> None:
    """Load some rules before they are needed; the error of one that cannot be loaded is raised where it is needed."""
    for rule in rules:
        with suppress(RuleFileError):
            _ = rule.rule


def rule_paths(root: Path) -> Iterator[Path]:
    """The rule files of a folder: one level of stages, names that do not start with an underscore."""
    for stage in _unhidden(root):
        if stage.is_dir():
            yield from (Path(file.path) for file in _unhidden(stage.path) if file.name.endswith(".py"))


def _unhidden(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith(("_", ".")))


def read_rule_file(path: Path) -> RuleFile:
    """Load one rule file; raises RuleFileError if it does not define exactly one rule with a page."""
    file = RuleFile(path)
    _ = file.rule
    return file


def _read(path: Path, digest: str = "") -> tuple[Rule[Any], str]:
    """The rule of a file and its page; raises RuleFileError if its content has another digest than it must have."""
    module = _import_content(path, digest) if digest else _import_file(path)
    rules: list[type[Rule[Any]]] = [
        member
        for member in vars(module).values()
        if isinstance(member, type) and member.__module__ == module.__name__ and issubclass(member, _base())
    ]
    if len(rules) != 1:
        raise RuleFileError(f"{path}: defines {len(rules)} rules, but a rule file must define exactly one")
    if not module.__doc__:
        raise RuleFileError(f"{path}: no manual page (module docstring)")
    rule = rules[0]
    rule.name = path.stem.replace("_", "-")
    rule.stage = path.parent.name
    return rule(), module.__doc__


def _base() -> type[Rule[Any]]:
    from lintrain.rule import Rule

    return Rule


def read_rule(path: Path) -> bytes:
    """The content of a rule file; raises RuleFileError if it cannot be read."""
    from lintrain.source.reading import read_plain

    try:
        return read_plain(path, LARGEST_RULE)
    except OSError as error:
        raise RuleFileError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def digest_of(content: bytes) -> str:
    """The digest by which the content of a rule file is trusted."""
    import hashlib  # only rules of a project's own need it

    return hashlib.sha256(content).hexdigest()


def _import_content(path: Path, digest: str) -> ModuleType:
    """The module of a file, from the very bytes that were compared: no compiled file next to it is used."""
    content = read_rule(path)
    if digest_of(content) != digest:
        raise RuleFileError(f"{path}: changed since it was trusted; `lintrain trust` trusts its present content")
    module = ModuleType(f"{RULE_MODULES}.{path.parent.name}.{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    _execute(path, lambda: exec(compile(content, str(path), "exec"), vars(module)))
    return module


def _import_file(path: Path) -> ModuleType:
    name = f"{RULE_MODULES}.{path.parent.name}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RuleFileError(f"{path}: cannot be loaded as a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader = spec.loader
    _execute(path, lambda: loader.exec_module(module))
    return module


def _execute(path: Path, execute: Callable[[], None]) -> None:
    try:
        execute()
    except Exception as error:
        raise RuleFileError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
