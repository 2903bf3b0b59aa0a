"""Other names for variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tests.metamorphic.script import Function, Line, Script, bound_names, names_in, parameters_of

SAYING = re.compile(r"eval|valid|epoch|optim|steps", re.IGNORECASE)
"""Names that tell what their thing is for. A loop is taken for an evaluation because it goes over `eval_loader`, one
for epochs because it counts `epoch`, and people read no differently: these keep their names."""


def rename_variables(script: Script, focus: frozenset[int]) -> Script | None:
    """Every variable gets a name that says nothing; in a module those that others may import keep theirs."""
    names = _variables(script.tree) - (set() if script.is_entry else bound_names(script.tree.body))
    mapping = {name: f"thing_{number}" for number, name in enumerate(sorted(names), start=1)}
    return renamed(script, mapping) if mapping else None


def name_neutrally(script: Script, focus: frozenset[int]) -> Script | None:
    """Loaders, functions, and methods that are only called on `self` get names without a meaning."""
    functions = {node.name for node in ast.walk(script.tree) if isinstance(node, Function)}
    known = _own_methods(script.tree)
    if script.is_entry:
        known |= {node.name for node in script.tree.body if isinstance(node, Function)}
    loaders = {name for name in _loaders(script.tree) if script.is_entry or name not in bound_names(script.tree.body)}
    if not loaders and not known - {"main"}:
        return None
    mapping = {name: f"loader{number}" for number, name in enumerate(sorted(loaders - functions), start=1)}
    mapping |= {name: f"work{number}" for number, name in enumerate(sorted(known - {"main"}), start=1)}
    return _with_definitions(renamed(script, mapping), mapping)


def _loaders(tree: ast.Module) -> set[str]:
    """The variables and parameters named after a loader, except the names of arguments."""
    nodes = list(ast.walk(tree))
    named = {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    found = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return {name for name in found - named if re.search("loader", name, re.IGNORECASE)}


def _own_methods(tree: ast.Module) -> set[str]:
    """The methods of classes without a base that are only called on `self`."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.bases]
    methods = {one.name for each in classes for one in each.body if isinstance(one, Function)}
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    elsewhere = {node.attr for node in used if not (isinstance(node.value, ast.Name) and node.value.id == "self")}
    return {name for name in methods - elsewhere if not name.startswith("__")} & {node.attr for node in used}


def _with_definitions(script: Script, mapping: Mapping[str, str]) -> Script:
    """The script with functions renamed in their definitions and in calls on `self`."""
    words = {f"def {name}(": f"def {other}(" for name, other in mapping.items()}
    words |= {f"self.{name}(": f"self.{other}(" for name, other in mapping.items()}
    pattern = re.compile("|".join(rf"\b{re.escape(word)}" for word in words))
    lines = (
        Line(pattern.sub(lambda found: words[found[0]], line.text), line.origin, line.others) for line in script.lines
    )
    made = replace(script, lines=tuple(lines))
    ast.parse(made.text)
    return made


def _variables(tree: ast.Module) -> set[str]:
    """The names that only variables have: no parameter, attribute of a class, import or definition is called so."""
    nodes = list(ast.walk(tree))
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    taken = {node.asname or node.name.split(".")[0] for node in nodes if isinstance(node, ast.alias)}
    taken |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    for node in nodes:
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                taken.update(names)
            case ast.ClassDef(body=body):
                taken |= names_in(
                    target for each in body for target in ast.iter_child_nodes(each) if _is_stored(target)
                )
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                taken.update(parameters_of(node))
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                taken.add(name)
            case _:
                pass
    return {name for name in stored - taken if not SAYING.search(name) and not name.startswith("__")}


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def renamed(script: Script, mapping: Mapping[str, str], within: Function | None = None) -> Script:
    """The script with these names replaced, everywhere or within one function; raises ValueError where that failed."""
    if not mapping:
        return script
    root: ast.AST = within or script.tree
    edits: dict[int, list[tuple[int, int, str]]] = {}
    strings = [node for node in ast.walk(root) if isinstance(node, ast.JoinedStr)]
    in_strings = {inner for string in strings for inner in ast.walk(string)}
    for node in ast.walk(root):
        if isinstance(node, ast.Name | ast.arg) and node not in in_strings:
            name = node.id if isinstance(node, ast.Name) else node.arg
            if name in mapping:
                edits.setdefault(node.lineno, []).append(
                    (node.col_offset, node.col_offset + len(name.encode()), mapping[name])
                )
    lines = [
        Line(_edited(line.text, edits.get(number, [])), line.origin) for number, line in enumerate(script.lines, 1)
    ]
    for number in {number for string in strings for number in range(string.lineno, (string.end_lineno or 0) + 1)}:
        lines[number - 1] = Line(_in_braces(lines[number - 1].text, mapping), lines[number - 1].origin)
    made = replace(script, lines=tuple(lines))
    if within is None and ast.dump(_Renaming(mapping).visit(ast.parse(script.text))) != ast.dump(made.tree):
        raise ValueError("a name was not replaced, or something else was")
    return made


def _edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    raw = text.encode()
    for start, end, name in sorted(edits, reverse=True):
        raw = raw[:start] + name.encode() + raw[end:]
    return raw.decode()


def _in_braces(text: str, mapping: Mapping[str, str]) -> str:
    """A line with the names between braces replaced: before Python 3.12 the tree does not tell where these stand."""
    names = "|".join(map(re.escape, mapping))
    word = re.compile(rf"(?<![\w.\"'])({names})\b(?![\"'])")
    return re.sub(r"(?<!\{)\{[^{}]*\}", lambda braces: word.sub(lambda name: mapping[name[1]], braces[0]), text)


class _Renaming(ast.NodeTransformer):
    """The same done to a tree, to compare with."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self.mapping = mapping

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.mapping.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self.mapping.get(node.arg, node.arg)
        return self.generic_visit(node)
