"""Which of ruff's clues are names that a run fails on, as findings.

The names that a piece of code binds.
"""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TypeVar

from lintrain.builtin import SYNTAX_ERROR, UNDEFINED_NAME, UndefinedName
from lintrain.check.names import old_python
from lintrain.check.names.ruff import COMPILER_CODES, NAME_CODES, Clue
from lintrain.check.result import Reported
from lintrain.model.claims import plain_claim
from lintrain.model.finding import Finding
from lintrain.model.fixes import AddImport, Fix
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.source.bounds import Nesting
from lintrain.source.fragments import is_deleted_later, may_make_names, meanings, names_asked_for
from lintrain.source.nodes import children, walk
from lintrain.source.pasted import is_pasted
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

Node = TypeVar("Node", ast.expr, ast.stmt, ast.Try)

SURROUNDINGS = frozenset(
    ("display", "get_ipython", "In", "Out", "exit", "quit", "dbutils", "spark", "sc", "reveal_type")
)
"""Names that notebooks, shells and hosted platforms define."""

MAGIC_MAKES_NAMES = lazy_pattern(
    r"\s*%+\s*(?:run|load|pylab|store|cython|cell_magic|reload_ext\s+autoreload_names|R)\b"
)

COMMAND = lazy_pattern(r"\s*(?:!|%(?:pip|conda|mamba|uv|cd|env|matplotlib|load_ext|autoreload)\b)")
"""Lines of a notebook that define no name, whatever words they hold: `%pip install evaluate`."""

MODULES = frozenset(
    (
        "accelerate",
        "collections",
        "copy",
        "datasets",
        "evaluate",
        "functools",
        "itertools",
        "json",
        "logging",
        "math",
        "os",
        "peft",
        "pickle",
        "random",
        "re",
        "shutil",
        "sys",
        "time",
        "torch",
        "transformers",
        "trl",
        "warnings",
    )
)

LIBRARY_NAMES: Mapping[str, str] = {
    "load_dataset": "datasets",
    "load_from_disk": "datasets",
    "DatasetDict": "datasets",
    "Trainer": "transformers",
    "TrainingArguments": "transformers",
    "Seq2SeqTrainer": "transformers",
    "Seq2SeqTrainingArguments": "transformers",
    "AutoConfig": "transformers",
    "AutoTokenizer": "transformers",
    "AutoModel": "transformers",
    "AutoModelForCausalLM": "transformers",
    "AutoModelForSeq2SeqLM": "transformers",
    "AutoModelForSequenceClassification": "transformers",
    "AutoModelForTokenClassification": "transformers",
    "DataCollatorWithPadding": "transformers",
    "DataCollatorForLanguageModeling": "transformers",
    "get_scheduler": "transformers",
    "set_seed": "transformers",
    "Accelerator": "accelerate",
    "DataLoader": "torch.utils.data",
    "Path": "pathlib",
}


PLAIN = ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign
"""Statements without a body of their own."""

SKIPPING = ast.Lambda | ast.IfExp | ast.BoolOp | ast.comprehension
"""Expressions that may leave a part of themselves unevaluated."""

MOST_SOUGHT = 20
"""Undefined names of one file that a nearest name is looked for."""

MOST_COMPARED = 5_000
"""Names of one file that an undefined name is compared with."""

WHY = "the run ends with NameError at this line"
MISSING_WHY = "The code is checked as part of a script: each name is taken for what it usually stands for."
LOCAL_WHY = "the run ends with UnboundLocalError at this line"
COMPILER_WHY = "Python does not run a file that contains this"


def name_findings(source: Source, clues: Sequence[Clue]) -> Iterator[Reported]:
    """The findings among ruff's clues on one source; what may come from elsewhere is left out."""
    surroundings = _Surroundings(source)
    if source.is_partial:
        yield from missing_imports(source, [clue for clue in clues if clue.code in NAME_CODES], surroundings)
        return
    for clue in clues:
        location = _location(source, clue)
        if clue.code in COMPILER_CODES:
            message = clue.message[:1].lower() + clue.message[1:]
            yield Reported(Finding(SYNTAX_ERROR.name, SYNTAX_ERROR.level, location, message, COMPILER_WHY))
        elif not surroundings.may_define(source.code(location), location):
            yield _undefined(source, clue, location, surroundings)


def missing_imports(source: Source, clues: Sequence[Clue], surroundings: _Surroundings) -> Iterator[Reported]:
    """One finding about the libraries that a piece of a script uses without their imports; its other names are given.

    In a notebook without its broken cells the imports may stand in one of those.
    """
    if not is_pasted(source.text):
        return
    paths = meanings(source)
    used: dict[str, Location] = {}
    for location in sorted(_location(source, clue) for clue in clues):
        name = source.code(location)
        if name in paths and not surroundings.may_define(name, location):
            used.setdefault(name, location)
    if not used:
        return
    edits = [_usual_import(name, paths[name]) for name in sorted(used)]
    fix = None if source.is_repaired else Fix.of("add the usual imports", *edits, safe=False)
    message = (
        f"the import of {listed(used)} is missing" if len(used) == 1 else f"the imports of {listed(used)} are missing"
    )
    first = next(iter(used.values()))
    yield Reported(Finding(UNDEFINED_NAME.name, Level.NOTE, first, message, MISSING_WHY), fix)


def listed(names: Iterable[str]) -> str:
    """Names as a sentence lists them."""
    *others, last = (f"`{name}`" for name in names)
    return f"{', '.join(others)} and {last}" if others else last


def _usual_import(name: str, path: str) -> AddImport:
    module, _, last = path.rpartition(".")
    if name != last:
        return AddImport(path, alias=name)
    return AddImport(module, name) if module else AddImport(name)


def _location(source: Source, clue: Clue) -> Location:
    """The clue's place in the text; ruff counts the lines of a notebook within the cell."""
    cells = source.notebook.cells if source.notebook else ()
    above = next((cell.first_line - 1 for cell in cells if cell.number == clue.cell), 0)
    return Location(source.path, above + clue.line, clue.column, above + clue.end_line, clue.end_column)


def _undefined(source: Source, clue: Clue, location: Location, surroundings: _Surroundings) -> Reported:
    name = source.code(location)
    bound = surroundings.bindings.get(name)
    if clue.code == "F823":
        message, why = f"`{name}` is local to this function and used before it is set", LOCAL_WHY
    elif bound and bound > location.line:
        message, why = f"`{name}` is used before line {bound} defines it", WHY
    elif bound and surroundings.sets_itself(name, bound, location):
        message, why = f"`{name}` is used in the statement that first sets it", WHY
    elif bound:
        message, why = f"`{name}` no longer exists here", WHY
    else:
        message, why = f"`{name}` is never defined or imported", WHY
    fix = None if bound else _import_of(source, name, location)
    nearest = "" if fix or bound else _nearest(name, surroundings)
    claim = plain_claim(UndefinedName(surroundings.is_certain(location)))
    return Reported(
        Finding(UNDEFINED_NAME.name, UNDEFINED_NAME.level, location, message, why, nearest, claim=claim), fix
    )


def _nearest(name: str, surroundings: _Surroundings) -> str:
    near = surroundings.nearest(name)
    return f"write `{near}`, the nearest name in this file" if near else ""


def _import_of(source: Source, name: str, location: Location) -> Fix | None:
    """The import that brings a well-known name in; safe when the file imports from that library already."""
    is_module = source.lines[location.end_line - 1][location.end_column - 1 :].startswith(".")
    if name in MODULES and is_module:
        return Fix.of(f"add `import {name}`", AddImport(name), safe=name in sys.stdlib_module_names)
    if name in LIBRARY_NAMES:
        module = LIBRARY_NAMES[name]
        return Fix.of(f"add `from {module} import {name}`", AddImport(module, name), safe=_imports(source, module))
    return None


def _imports(source: Source, module: str) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == module for node in source.tree.body)


@dataclass(eq=False)
class _Surroundings:
    """What a source says about names that ruff cannot see being made."""

    source: Source
    neighbours: dict[str, str] = field(default_factory=dict[str, str])

    def nearest(self, name: str) -> str:
        """The name of the source that a name may be a misspelling of; empty where none is near or enough were sought.

        Comparing thousands of names with thousands would take minutes, and would not help with so many.
        """
        from difflib import get_close_matches

        if name not in self.neighbours:
            if len(self.neighbours) >= MOST_SOUGHT or len(self.bindings) > MOST_COMPARED:
                return ""
            near = get_close_matches(name, self.bindings, n=1, cutoff=0.75)
            self.neighbours[name] = near[0] if near else ""
        return self.neighbours[name]

    def is_certain(self, location: Location) -> bool:
        """Whether code at a place runs whenever the script gets there: in a plain top-level statement, in no branch."""
        return any(self.source.once(_is_evaluated, statement) for statement in self._top_level_at(location.line))

    def _top_level_at(self, line: int) -> Iterator[ast.stmt]:
        """The statements of the module on a line, one after the other."""
        body = self.source.tree.body
        index = bisect_right(body, line, key=lambda each: each.lineno) - 1
        while index >= 0 and (body[index].end_lineno or 0) >= line:
            yield body[index]
            index -= 1

    def sets_itself(self, name: str, bound: int, location: Location) -> bool:
        """Whether the assignment that a name is used in is the first to give it a value: `model, args = get(args)`."""
        return any(
            node.lineno <= min(bound, location.line) and max(bound, location.line) <= (node.end_lineno or 0)
            for node in self.source.nodes_of(ast.Assign)
            if name in {each.id for target in node.targets for each in walk(target) if isinstance(each, ast.Name)}
        )

    def may_define(self, name: str, location: Location) -> bool:
        """Whether the name may exist when the code runs, or the place is never evaluated."""
        if not name.isidentifier() or name in SURROUNDINGS or set(name) <= set("_0123456789"):
            return True
        if self.makes_names or name in self.source.cached(names_asked_for):
            return True
        if is_deleted_later(self.source, name, location):
            return True
        if self.unevaluated.innermost(location) is not None:
            return True
        if self.old_branches.innermost(location) is not None or self._is_tried(name, location):
            return True
        if any(name in self.source.once(bound_within, loop) for loop in self.loops.around(location)):
            return True
        return self.source.notebook is not None and (name in self.bindings or name in self.magic_words)

    def _is_tried(self, name: str, location: Location) -> bool:
        """Whether a `try` around a place asks for the name, since one of its handlers binds it."""
        return any(
            name in self.source.once(bound_within, handler)
            for each in self.tries.around(location)
            for handler in each.handlers
        )

    @cached_property
    def makes_names(self) -> bool:
        """Whether the code, or a magic, defines names by their text."""
        notebook = self.source.notebook
        magics = notebook.masked.values() if notebook else ()
        if any(MAGIC_MAKES_NAMES.match(line) for line in magics):
            return True
        return self.source.cached(may_make_names)

    @cached_property
    def magic_words(self) -> set[str]:
        """The words of the notebook's magics, which may define names: `%%capture out` does."""
        masked: Mapping[int, str] = self.source.notebook.masked if self.source.notebook else {}
        commands = set[int]()
        for line in sorted(masked):
            if COMMAND.match(masked[line]) or (line - 1 in commands and masked[line - 1].endswith("\\")):
                commands.add(line)
        return {word for line in masked if line not in commands for word in re.findall(r"\w+", masked[line])}

    @cached_property
    def bindings(self) -> Mapping[str, int]:
        """The names that the module itself defines, each with the first line that does."""
        lines: dict[str, int] = {}
        for node in module_level(self.source.tree):
            for name in bound_names(node):
                lines.setdefault(name, getattr(node, "lineno", 1))
        return lines

    @cached_property
    def loops(self) -> Nesting[ast.stmt]:
        """The loops, of which an iteration may use what the one before it bound."""
        return self._nested(self.source.nodes_of(ast.For, ast.AsyncFor, ast.While))

    @cached_property
    def tries(self) -> Nesting[ast.Try]:
        """The `try` statements."""
        return self._nested(self.source.nodes_of(ast.Try))

    @cached_property
    def old_branches(self) -> Nesting[ast.stmt]:
        """The statements that only run under Python 2."""
        return self._nested(old_python.branches(self.source))

    @cached_property
    def unevaluated(self) -> Nesting[ast.expr]:
        """The annotations and strings that Python never evaluates, though ruff reads names in them."""
        return self._nested(_unevaluated(self.source))

    def _nested(self, nodes: Iterable[Node]) -> Nesting[Node]:
        return Nesting((self.source.location(node), node) for node in nodes)


def _is_evaluated(statement: ast.stmt) -> bool:
    """Whether all of a statement is evaluated whenever it is reached."""
    return isinstance(statement, PLAIN) and not any(isinstance(node, SKIPPING) for node in walk(statement))


def _unevaluated(source: Source) -> Iterator[ast.expr]:
    postponed = any(isinstance(node, ast.ImportFrom) and _postpones(node) for node in source.tree.body)
    # Before Python 3.12 the plain parts of an f-string claim the place of the whole.
    formatted = {part for text in source.nodes_of(ast.JoinedStr) for part in text.values}
    texts = (node for node in source.nodes_of(ast.Constant) if isinstance(node.value, str))
    yield from (node for node in texts if node not in formatted)
    yield from old_python.expressions(source)
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [*source.nodes_of(ast.FunctionDef)]
    functions += source.nodes_of(ast.AsyncFunctionDef)
    for function in functions:
        yield from (inner.annotation for inner in walk(function) if isinstance(inner, ast.AnnAssign))
        if postponed and function.returns:
            yield function.returns
    if postponed:
        annotated: list[ast.arg | ast.AnnAssign] = [*source.nodes_of(ast.arg)]
        annotated += source.nodes_of(ast.AnnAssign)
        yield from (node.annotation for node in annotated if node.annotation)


def _postpones(node: ast.ImportFrom) -> bool:
    return node.module == "__future__" and any(alias.name == "annotations" for alias in node.names)


def bound_within(node: ast.AST) -> frozenset[str]:
    """The names that a loop or another piece of code binds."""
    return frozenset(name for inner in walk(node) for name in bound_names(inner))


def module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of a module in order, without those inside its functions and classes."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(reversed(children(node)))


def bound_names(node: ast.AST) -> Iterator[str]:
    """The names that a node itself binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias():
            yield node.asname or node.name.split(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case _:
            pass
