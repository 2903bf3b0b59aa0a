"""The names that a file imports from libraries and the keywords that it passes to them, found by syntax alone.

This decides which files without training are interpreted; the interpreter then finds the calls exactly.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

from lintrain.analysis.built_layers import lacks_pass, last_name
from lintrain.analysis.removed_hooks import removed_hooks
from lintrain.analysis.removed_methods import may_use_removed_method
from lintrain.knowledge import tables
from lintrain.knowledge.api import State, has_gone, keyword_state
from lintrain.knowledge.target import Targets
from lintrain.source.nodes import walk
from lintrain.source.source import Source
from lintrain.source.training_syntax import imports

ALIASES = {"pytorch_lightning": "lightning"}
"""Older names of packages."""

MOST_ROUNDS = 3
"""How many assignments from name to name are followed."""


def may_use_removed_name(source: Source, targets: Targets) -> bool:
    """Whether the file imports a removed name, or reads a removed attribute of a library or a tokenizer."""
    if may_use_removed_method(source, targets) or any(removed_hooks(source, targets)):
        return True
    whole: dict[str, str] = {}
    for node in imports(source):
        if isinstance(node, ast.Import):
            tops = ((alias.asname, alias.name.partition(".")[0]) for alias in node.names)
            whole.update({bound or top: top for bound, top in tops})
        elif not node.level and has_gone(node.module or "", {each.name for each in node.names}, targets):
            return True
    read = defaultdict[str, set[str]](set)
    for used in source.nodes_of(ast.Attribute) if whole else ():
        if isinstance(used.value, ast.Name) and used.value.id in whole:
            read[whole[used.value.id]].add(used.attr)
    return any(has_gone(module, names, targets) for module, names in read.items())


def may_pass_keyword(source: Source, targets: Targets, *states: State) -> bool:
    """Whether the file may pass a keyword of one of these states to a class or function of a library."""
    return any(keyword_state(path, keyword, targets).state in states for path, keyword in source.cached(_passed))


def _passed(source: Source) -> frozenset[tuple[str, str]]:
    """The keywords that the file passes to libraries, each with the name of a callable that may accept it."""
    names = _Names(source)
    found = set[tuple[str, str]]()
    for call in source.nodes_of(ast.Call) if names.meant else ():
        if call.keywords and (paths := names.called(call)):
            named = {each.arg for each in call.keywords if each.arg is not None}
            passed = named if len(named) == len(call.keywords) else named | source.cached(_possible_keywords)
            found.update((path, keyword) for path in paths for keyword in passed)
    return frozenset(found)


def _possible_keywords(source: Source) -> frozenset[str]:
    """All names in the file that `**` may pass as a keyword."""
    texts = {node.value for node in source.nodes_of(ast.Constant) if isinstance(node.value, str)}
    texts.update(node.arg for node in source.nodes_of(ast.keyword) if node.arg is not None)
    return frozenset(text for text in texts if text.isidentifier())


LOSSES = frozenset(
    {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "soft_margin_loss"}
    | {"multilabel_soft_margin_loss", "hinge_embedding_loss", "poisson_nll_loss"}
    | {"CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss"}
)
"""Losses of torch whose two arguments mean different things."""


def may_compute_loss(source: Source) -> bool:
    """Whether the file names such a loss in its code: a text about entropy is none."""
    return source.cached(_names_loss)


def _names_loss(source: Source) -> bool:
    return (
        any(node.attr in LOSSES for node in source.nodes_of(ast.Attribute))
        or any(node.id in LOSSES for node in source.nodes_of(ast.Name))
        or any(node.name in LOSSES for node in source.nodes_of(ast.alias))
    )


TIME_FIRST = frozenset({"LSTM", "GRU", "RNN", "TransformerEncoderLayer", "MultiheadAttention"})
"""Layers of torch that have time on their first axis by default."""


def may_read_rows_as_time(source: Source) -> bool:
    """Whether the file makes such a layer, and does not write that batches come first."""
    if source.contains(CHOSEN_BY_NAME):
        return True
    imported = {alias.asname or alias.name for node in imports(source) for alias in node.names}
    calls = (node for node in source.nodes_of(ast.Call) if last_name(node.func) in TIME_FIRST)
    return any(_may_be_of_torch(node.func, imported) and not _has_batch_first(node) for node in calls) or any(
        node.name in TIME_FIRST and node.asname for node in source.nodes_of(ast.alias)
    )


CHOSEN_BY_NAME = r"getattr\(\s*(?:torch\.)?nn\b"


def _may_be_of_torch(callee: ast.expr, imported: Collection[str]) -> bool:
    match callee:
        case ast.Attribute(value=ast.Name(id=owner)):
            return owner in imported
        case ast.Attribute(value=ast.Attribute(attr=owner)):
            return owner == "nn"
        case _:
            return True


def _has_batch_first(call: ast.Call) -> bool:
    given = (each.value for each in call.keywords if each.arg == "batch_first")
    return any(isinstance(each, ast.Constant) and each.value is True for each in given)


def may_stack_linear(source: Source) -> bool:
    """Whether one linear layer that the file makes, with its bias, may get the output of another one."""
    calls = [node for node in source.nodes_of(ast.Call) if last_name(node.func) == "Linear"]
    if _gives_linear_away(source, calls):
        return True
    plain = [node for node in calls if all(each.arg != "bias" for each in node.keywords)]
    functions = sum(last_name(node.func) == "linear" for node in source.nodes_of(ast.Call))
    return bool(plain) and (len(calls) + functions > 1 or _is_made_often(source, plain[0]))


def _gives_linear_away(source: Source, calls: Sequence[ast.Call]) -> bool:
    """Whether the file uses the class for anything but making layers and telling them apart: under another name."""
    tests = (node for node in source.nodes_of(ast.Call) if last_name(node.func) in {"isinstance", "issubclass", "type"})
    plain = {id(node.func) for node in calls} | {id(part) for test in tests for part in walk(test)}
    named: Sequence[ast.Name | ast.Attribute] = source.nodes_of(ast.Name, ast.Attribute)
    is_renamed = any(node.name == "Linear" and node.asname for node in source.nodes_of(ast.alias))
    return is_renamed or any(last_name(node) == "Linear" and id(node) not in plain for node in named)


def _is_made_often(source: Source, call: ast.Call) -> bool:
    """Whether the only such layer may be several: made in a loop or in a function, or by a class that is used twice."""
    kinds = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.FunctionDef, ast.Lambda)
    around: Sequence[ast.stmt | ast.expr] = source.nodes_of(*kinds)
    plain = (each for each in around if not (isinstance(each, ast.FunctionDef) and each.name == "__init__"))
    if any(part is call for each in plain for part in walk(each)):
        return True
    owners = {each.name for each in source.nodes_of(ast.ClassDef) if any(part is call for part in walk(each))}
    return sum(node.id in owners for node in source.nodes_of(ast.Name)) > 1


PLAIN = ast.List | ast.ListComp | ast.Dict | ast.DictComp | ast.Tuple
"""Expressions that make a container which registers nothing."""


def may_keep_layers(source: Source) -> bool:
    """Whether a class with a forward pass creates something in a plain list or dictionary that it keeps.

    In a piece of a script the pass may be left out.
    """
    classes = source.nodes_of(ast.ClassDef)
    networks = [node for node in classes if any(map(_is_forward, node.body)) or lacks_pass(source, node)]
    registering = _registering(source) if networks else frozenset[str]()
    return any(
        any(_fills_plain_container(node, registering) for node in walk(owner)) or _keeps_local_list(owner)
        for owner in networks
    )


REGISTERING = frozenset({"ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"})
"""Containers of torch."""


def _registering(source: Source) -> frozenset[str]:
    """The attributes that a file sets to containers of torch alone, which register what is put into them."""
    stores = Counter(node.attr for node in source.nodes_of(ast.Attribute) if isinstance(node.ctx, ast.Store))
    assigned = [node for node in source.nodes_of(ast.Assign) if isinstance(node.value, ast.Call)]
    made = Counter(
        target.attr
        for node in assigned
        if isinstance(node.value, ast.Call) and last_name(node.value.func) in REGISTERING
        for target in node.targets
        if isinstance(target, ast.Attribute)
    )
    return frozenset(name for name, count in made.items() if count == stores[name])


def _keeps_local_list(owner: ast.ClassDef) -> bool:
    """Whether a class keeps a list that one of its methods fills with created objects: `self.stages = self.make(4)`."""
    makers, kept = set[str](), set[str]()
    for method in (each for each in owner.body if isinstance(each, ast.FunctionDef)):
        filled = set[str]()
        nodes = walk(method)
        for node in nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[ast.Call()]):
                    filled.add(name)
                case _:
                    pass
        for node in nodes if filled else ():
            match node:
                case ast.Return(value=ast.Name(id=name)) if name in filled:
                    makers.add(method.name)
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"))], value=ast.Name(id=name)):
                    kept |= {name} & filled
                case _:
                    pass
    calls = (node.value for node in walk(owner) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call))
    made = {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)} if makers else set[str]()
    return bool(kept or makers & made)


def _is_forward(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "forward"


def _fills_plain_container(node: ast.AST, registering: Collection[str]) -> bool:
    """Whether a node stores created objects: `self.a = [Layer()]`, `self.a["b"] = Layer()`, `self.a.append(layer)`."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"))], value=value):
            return isinstance(value, PLAIN) and any(isinstance(each, ast.Call) for each in walk(value))
        case ast.Assign(
            targets=[ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name))], value=ast.Call()
        ):
            return name not in registering
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr="append" | "extend")
        ):
            return name not in registering
        case _:
            return False


class _Names:
    """What the names of a file may refer to: classes, functions and modules of the covered packages."""

    def __init__(self, source: Source) -> None:
        self.meant = defaultdict[str, set[str]](set)
        """The paths in a package that a name may refer to; for a class, those of its bases."""
        for node in imports(source):
            if isinstance(node, ast.Import):
                self._note_modules(node)
            elif not node.level:
                self._note_names(node)
        if self.meant:
            self._follow(source)

    def _note_modules(self, node: ast.Import) -> None:
        for alias in node.names:
            if _package(alias.name) in tables.COVERED_PACKAGES:
                self.meant[alias.asname or alias.name.partition(".")[0]].add(_package(alias.name))

    def _note_names(self, node: ast.ImportFrom) -> None:
        package = _package(node.module or "")
        if package not in tables.COVERED_PACKAGES:
            return
        for alias in node.names:
            if alias.name == "*":
                for name in _paths_by_name(package):
                    self.meant[name].add(f"{package}.{name}")
            else:
                self.meant[alias.asname or alias.name].add(f"{package}.{alias.name}")

    def _follow(self, source: Source) -> None:
        # Of all values only names and attributes mean something, and most are calls.
        named = [each for each in source.nodes_of(ast.Assign) if each.value.__class__ in (ast.Name, ast.Attribute)]
        for _ in range(MOST_ROUNDS):
            before = sum(map(len, self.meant.values()))
            for assigned in named:
                for target in assigned.targets:
                    if isinstance(target, ast.Name):
                        self.meant[target.id] |= self._of(assigned.value)
            for made in source.nodes_of(ast.ClassDef):
                for base in made.bases:
                    self.meant[made.name] |= self._of(base)
                    self.meant["__init__"] |= self._of(base)
            if sum(map(len, self.meant.values())) == before:
                return

    def _of(self, node: ast.expr) -> set[str]:
        if isinstance(node, ast.Name):
            return self.meant.get(node.id, set())
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        owners = self.meant.get(node.id) if parts and isinstance(node, ast.Name) else None
        if not owners:
            return set()
        return {".".join((owner, *reversed(parts))) for owner in owners}

    def called(self, call: ast.Call) -> set[str]:
        """The full names in the tables that a call may refer to, as a function or as a class."""
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "__init__":
            meant = self.meant.get("__init__", set())
        else:
            meant = self._of(func)
            if call.args and func.__class__ in (ast.Name, ast.Attribute) and _ends_with_partial(func):
                meant = self._of(call.args[0])
        return {path for each in meant for path in _paths(each)}


def _ends_with_partial(func: ast.expr) -> bool:
    return getattr(func, "attr", getattr(func, "id", "")) == "partial"


def _package(module: str) -> str:
    top = module.partition(".")[0]
    return ALIASES.get(top, top)


def _paths(meant: str) -> Iterator[str]:
    """A name as it is written, and the full names in the tables that end with the same name."""
    package, _, rest = meant.partition(".")
    yield meant
    yield from _paths_by_name(package).get(rest.rpartition(".")[2], ())


@cache
def _paths_by_name(package: str) -> Mapping[str, tuple[str, ...]]:
    """The classes and functions of a package by the last part of their names, without methods."""
    found = defaultdict[str, list[str]](list)
    for path in tables.callable_names(package):
        owner, _, name = path.rpartition(".")
        if not owner.rpartition(".")[2][:1].isupper():
            found[name].append(path)
    return {name: tuple(paths) for name, paths in found.items()}
