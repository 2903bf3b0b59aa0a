"""The rules that lintrain knows: every file of the rule folder, loaded by its place in it."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from lintrain.core.manual import Manual, read_manual
from lintrain.core.rule import Rule

RULE_MODULES = "lintrain_rule_files"
"""Rule modules get names of their own: `lintrain.rules` exists in a wheel but not in an editable install."""


class RuleFileError(Exception):
    """A file in the rule folder that holds no single rule; the text names the file."""


@dataclass(frozen=True, slots=True)
class RuleFile:
    """One rule with the file that it was read from and its manual page."""

    rule: Rule
    path: Path
    manual: Manual

    @property
    def name(self) -> str:
        """The rule's name: that of its file, with dashes."""
        return self.rule.name

    @property
    def stage(self) -> str:
        """The rule's pipeline stage: the folder that its file lies in."""
        return self.rule.stage

    @property
    def is_preview(self) -> bool:
        """Whether the rule is young, and only heard where somebody asks for such rules."""
        return self.rule.is_preview

    @property
    def reads_text(self) -> bool:
        """Whether the rule finds anything without running the script."""
        return type(self.rule).check is not Rule.check

    @property
    def reads_evidence(self) -> bool:
        """Whether a probe can judge or find this mistake."""
        return type(self.rule).verify is not Rule.verify or type(self.rule).inspect is not Rule.inspect

    @property
    def mends(self) -> bool:
        """Whether the rule offers a fix."""
        return type(self.rule).fix is not Rule.fix

    @property
    def fix_safety(self) -> str:
        """`safe` or `unsafe` where all of the rule's fixes are, `either` where the script decides, "" without fixes.

        Read from the code of `fix`, which says `safe=` of each.
        """
        if not self.mends:
            return ""
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
def load_rules(folder: Path | None = None) -> tuple[RuleFile, ...]:
    """Every rule of a folder, ordered by stage and name."""
    root = folder or rule_folder()
    return tuple(read_rule_file(path) for path in sorted(rule_paths(root)))


def rule_paths(root: Path) -> Iterator[Path]:
    """The rule files of a folder: one level of stages, names that do not start with an underscore."""
    for path in root.glob("*/*.py"):
        if not path.name.startswith("_") and not path.parent.name.startswith("_"):
            yield path


def read_rule_file(path: Path) -> RuleFile:
    """Load one rule file; raises RuleFileError when it does not define exactly one rule with a page."""
    module = _import_file(path)
    rules = [
        member
        for member in vars(module).values()
        if isinstance(member, type) and member.__module__ == module.__name__ and issubclass(member, Rule)
    ]
    if len(rules) != 1:
        raise RuleFileError(f"{path}: defines {len(rules)} rules, a rule file holds exactly one")
    if not module.__doc__:
        raise RuleFileError(f"{path}: has no manual page (module docstring)")
    rule = rules[0]
    rule.name = path.stem.replace("_", "-")
    rule.stage = path.parent.name
    return RuleFile(rule(), path, read_manual(module.__doc__))


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
