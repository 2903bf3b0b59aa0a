"""What a dotted name of an installed package stands for: re-exports are followed from module to module, as text.

Imports of other packages are not followed: what comes from there is known by its dotted name only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from astroid import nodes

from lintrain.installed.trees import Package

DYNAMIC = re.compile(
    r"\b(?:globals|vars|exec|eval|setattr|import_module)\s*\(|\b__getattr__\b|\b__path__\b|sys\.modules"
)
"""What may give a module names that its text does not define."""

LAZY = re.compile(r"\b_LazyModule\b|\blazy_loader\b")
"""What gives a module the names that its text, or that of a module inside, lists or defines."""

DEFINED = r"(?:^[ \t]*(?:class|def|async[ \t]+def)[ \t]+{0}\b|^[ \t]*{0}[ \t]*[:=,]|\bimport\b.*\b{0}\b|['\"]{0}['\"])"
"""A line that may define a name, or list it among others that are imported or exported."""

HARMLESS_CALLS = frozenset({"logger", "logging", "print", "warnings"})

MOST_STARS = 8
"""Stars of a module that are followed; of more, the text of the package is searched for what defines a name."""

Node = nodes.ClassDef | nodes.FunctionDef


@dataclass(frozen=True)
class Found:
    """A class or function, and the module that defines it."""

    module: str
    node: Node


@dataclass(frozen=True)
class Foreign:
    """A name of another package."""

    path: str


@dataclass(frozen=True)
class Something:
    """A name that exists, or may: a module, a constant, or what could not be followed. `is_missing` if it cannot."""

    is_missing: bool = False


UNKNOWN, MISSING = Something(), Something(is_missing=True)
Meaning = Found | Foreign | Something


@dataclass(eq=False)
class Definitions:
    """Looks up names in the modules of one package."""

    package: Package
    _known: dict[tuple[str, str], Meaning] = field(default_factory=dict[tuple[str, str], "Meaning"])

    def of(self, module: str, name: str) -> Meaning:
        """What `from module import name` gives."""
        if not self.package.owns(module):
            return Foreign(f"{module}.{name}")
        key = (module, name)
        if key not in self._known:
            self._known[key] = UNKNOWN  # for what imports itself in a circle
            self._known[key] = self._looked_up(module, name)
        return self._known[key]

    def _looked_up(self, module: str, name: str) -> Meaning:
        tree = self.package.tree(module)
        if tree is None:
            return UNKNOWN
        if name in tree.locals:
            return self._chosen(module, _plain_nodes(tree.locals[name]), name)
        stars = list(self._starred(module, tree))
        if len(stars) > MOST_STARS:
            stars = self.package.defining(name)
        origins = filter(self.package.owns, (*self._listed(module, tree, name), *stars))
        meanings = (self.of(origin, name) for origin in origins)
        return next((each for each in meanings if isinstance(each, Found | Foreign)), None) or self._absent(
            module, tree, name
        )

    def at(self, path: str) -> Meaning:
        """What a dotted name stands for; a class's attribute is not looked up."""
        module, _, name = path.rpartition(".")
        while module and not self.package.holds(module):
            module, _, name = module.rpartition(".")
        return self.of(module, name) if module and f"{module}.{name}" == path else UNKNOWN

    def named(self, module: str, node: nodes.NodeNG) -> Meaning:
        """What an expression such as `Trainer` or `transformers.Trainer` refers to in a module."""
        if isinstance(node, nodes.Subscript):  # Generic[T]
            return self.named(module, node.value)
        if isinstance(node, nodes.Name):
            return self.of(module, node.name)
        path = node.as_string() if isinstance(node, nodes.Attribute) else ""
        first, _, rest = path.partition(".")
        if not rest or not path.replace(".", "").isidentifier():
            return UNKNOWN
        target = self._module_named(module, first)
        if target is None:
            return UNKNOWN
        inner, _, last = f"{target}.{rest}".rpartition(".")
        return self.of(inner, last)

    def _module_named(self, module: str, name: str) -> str | None:
        """The module that a name in a module is bound to by an import."""
        tree = self.package.tree(module)
        bound = tree.locals.get(name, []) if tree is not None else []
        if len(bound) != 1:
            return None
        match bound[0]:
            case nodes.Import() as node:
                path = node.real_name(name)
                has_alias = any(alias == name for _, alias in node.names)
                return path if has_alias else path.partition(".")[0]
            case nodes.ImportFrom() as node:
                return f"{self._target(module, node)}.{node.real_name(name)}"
            case _:
                return None

    def _chosen(self, module: str, bound: list[nodes.NodeNG], name: str) -> Meaning:
        """The one meaning of all statements that bind a name; UNKNOWN if they differ."""
        plain = [node for node in bound if not _is_overload(node)] or bound
        if all(isinstance(node.parent, nodes.Module) for node in plain):
            plain = plain[-1:]
        meanings = {self._meaning(module, node, name) for node in plain}
        return meanings.pop() if len(meanings) == 1 else UNKNOWN

    def _meaning(self, module: str, node: nodes.NodeNG, name: str) -> Meaning:
        match node:
            case nodes.ClassDef() | nodes.FunctionDef():
                return Found(module, node)
            case nodes.ImportFrom():
                return self._imported(self._target(module, node), node.real_name(name))
            case nodes.AssignName(parent=nodes.Assign(value=nodes.Name() | nodes.Attribute() as value, targets=[_])):
                return self.named(module, value) if value.as_string() != name else UNKNOWN
            case _:
                return UNKNOWN

    def _imported(self, target: str, name: str) -> Meaning:
        found = self.of(target, name)
        return UNKNOWN if isinstance(found, Something) else found

    def _target(self, module: str, node: nodes.ImportFrom) -> str:
        """The module that a `from … import` names, by its full name."""
        if not node.level:
            return str(node.modname)
        tree = self.package.tree(module)
        inside = module.split(".")
        above = inside[: len(inside) - node.level + (1 if tree is not None and tree.package else 0)]
        return ".".join([*above, *([node.modname] if node.modname else [])])

    def _starred(self, module: str, tree: nodes.Module) -> Iterator[str]:
        for node in tree.nodes_of_class(nodes.ImportFrom):
            if any(name == "*" for name, _ in node.names):
                yield self._target(module, node)

    def _listed(self, module: str, tree: nodes.Module, name: str) -> Iterator[str]:
        """The modules from which a package loads a name when it is first used: `{"training_args": [name, …]}`."""
        text = self.package.text(module)
        if f'"{name}"' not in text and f"'{name}'" not in text:
            return
        for table in tree.nodes_of_class(nodes.Dict):
            for key, names in table.items:
                if isinstance(key, nodes.Const) and _lists(names, name):
                    yield f"{module}.{key.value}"

    def _absent(self, module: str, tree: nodes.Module, name: str) -> Meaning:
        """MISSING if nothing can give the module such a name: no hook, no star of another package, no submodule."""
        if name.startswith("__") or self.package.holds(f"{module}.{name}") or self._is_prepared(module):
            return UNKNOWN
        stars = [star for star in self._starred(module, tree) if star != module]
        text = self.package.text(module)
        is_searched = len(stars) > MOST_STARS or LAZY.search(text) is not None
        if not all(map(self.package.owns, stars)) or (DYNAMIC.search(text) and LAZY.search(text) is None):
            return UNKNOWN
        if not self._is_nowhere(name) if is_searched else any(self.of(star, name) is not MISSING for star in stars):
            return UNKNOWN
        self.package.note_folder(module)
        return MISSING

    def _is_prepared(self, module: str) -> bool:
        """Whether a module, or a package around it, runs code that may put modules and names in place."""
        parts = module.split(".")
        around = [self.package.tree(".".join(parts[: at + 1])) for at in range(len(parts))]
        inner = (nodes.FunctionDef, nodes.ClassDef)
        return any(
            tree is None or any(map(_may_add_names, tree.nodes_of_class(nodes.Expr, skip_klass=inner)))
            for tree in around
        )

    def _is_nowhere(self, name: str) -> bool:
        """Whether no file of the package can define a name or list it: then no hook finds it."""
        found = self.package.mentioning(name)
        pattern = re.compile(DEFINED.format(re.escape(name)).encode(), re.MULTILINE)
        return found is not None and not any(pattern.search(raw) for raw in found.values())


def _may_add_names(statement: nodes.Expr) -> bool:
    """Whether a statement of a module calls something for its effects, other than what only logs and warns."""
    if not isinstance(statement.value, nodes.Call):
        return False
    return str(statement.value.func.as_string()).partition(".")[0] not in HARMLESS_CALLS


def _plain_nodes(bound: Iterable[object]) -> list[nodes.NodeNG]:
    return [node for node in bound if isinstance(node, nodes.NodeNG)]


def _lists(node: object, name: str) -> bool:
    """Whether a literal list contains a name."""
    if not isinstance(node, nodes.List | nodes.Tuple | nodes.Set):
        return False
    return any(isinstance(each, nodes.Const) and each.value == name for each in node.elts)


def _is_overload(node: nodes.NodeNG) -> bool:
    if not isinstance(node, nodes.FunctionDef) or node.decorators is None:
        return False
    return any(each.as_string().endswith("overload") for each in node.decorators.nodes)
