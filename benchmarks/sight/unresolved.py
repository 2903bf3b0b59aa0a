"""Names that mean nothing to the reader, and own functions whose result is unknown: which of several reasons it is."""

from __future__ import annotations

import ast

from benchmarks.sight.names import callee_name
from benchmarks.sight.origins import Mechanism, Origin
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.model.location import Location
from lintrain.pipeline.values.python import Bound, Function, Value
from lintrain.source.source import Source


def of_name(reader: Reader, node: ast.Name, scope: Scope) -> Origin:
    """Why a name is not known."""
    location = reader.source.location(node)
    imported = reader.source.cached(_imports).get(node.id)
    if imported:
        return Origin(_mechanism_of(reader, imported), imported, location)
    if scope.lookup(node.id) is not None:
        return Origin(Mechanism.NAME, "changed by a loop or a statement", location)
    stars = (each.module for each in reader.source.nodes_of(ast.ImportFrom) if each.names[0].name == "*")
    star = next(stars, None)
    return Origin(Mechanism.NAME, f"from {star} import *" if star else "bound by nothing", location)


def _mechanism_of(reader: Reader, imported: str) -> Mechanism:
    if not _is_of_project(reader, imported):
        return Mechanism.FOREIGN
    return Mechanism.BUDGET if _has_spent_budget(reader) else Mechanism.MODULE


def _is_of_project(reader: Reader, imported: str) -> bool:
    project = reader.modules.project
    if imported.startswith(".") or project is None:
        return True
    return project.find(reader.record.source.path, imported.rpartition(".")[0] or imported) is not None


def _has_spent_budget(reader: Reader) -> bool:
    return reader.modules.steps >= reader.modules.most_steps


def _imports(source: Source) -> dict[str, str]:
    """What the names that a file imports are, by their dotted names."""
    found: dict[str, str] = {}
    for each in source.nodes_of(ast.ImportFrom):
        start = "." * each.level + (each.module or "")
        found.update({alias.asname or alias.name: f"{start}.{alias.name}" for alias in each.names})
    for node in source.nodes_of(ast.Import):
        found.update({alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names})
    return found


def with_attribute(origin: Origin, name: str) -> Origin:
    """The origin of an attribute: the dotted name of a library grows until something is called."""
    if origin.mechanism is not Mechanism.FOREIGN or origin.name.endswith("()") or not name.isidentifier():
        return origin
    return Origin(Mechanism.FOREIGN, f"{origin.name}.{name}", origin.location)


def after_call(origin: Origin, location: Location) -> Origin:
    """The origin of what a call of an unknown thing gives."""
    if origin.mechanism is not Mechanism.FOREIGN or origin.name.endswith("()"):
        return origin
    return Origin(Mechanism.FOREIGN, f"{origin.name}()", location)


def of_result(call: Call, callee: Value) -> Origin:
    """Why the result of a call of the script's own code is unknown."""
    function = callee.function if isinstance(callee, Bound) else callee
    if not isinstance(function, Function):
        return Origin(Mechanism.CALL, callee_name(callee), call.location)
    mechanism = Mechanism.OWN_FUNCTION
    if function.is_wrapped:
        mechanism = Mechanism.DECORATED
    elif _has_spent_budget(call.reader):
        mechanism = Mechanism.BUDGET
    return Origin(mechanism, f"{function.name}()", call.location)
