"""Objects that hold the settings of a run: under which names a file has them, and what it reads of them.

    args = parser.parse_args()
    train(args)

The functions and classes that get it are followed into the other files of the project that were read. Where it goes to
any other code, or is taken apart, what is read of it is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from lintrain.source.nodes import children, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SHOWS = lazy_pattern(
    r"(?i)(?:^|[._])(?:p?print\w*|log|logger|logging|info|debug|warn\w*|dumps?|save\w*|write\w*|add_text|wandb|mlflow|neptune"
    r"|p?format|hasattr|set_description|init_trackers|log_\w+|add_hparams|summarywriter|isinstance|type)(?:$|[._])"
)
"""Functions that only show or store what they get, as parts of a dotted name."""

WHOLE = frozenset({"__dict__", "_get_kwargs", "items", "values", "copy", "keys"})
"""Attributes that give all settings at once."""

CONVERTS = frozenset({"vars", "dict", "sorted", "str", "repr", "list", "deepcopy", "OmegaConf.create"})
"""Functions whose result has the same settings."""

SAVED = lazy_pattern(r"(?i)save|check|ckpt|state|log|meta|result|record")
"""Names of what is written to a file."""

MOST_PASSES = 5
"""How often names are handed on: `args`, `self.args`, the parameter of a function, that of another."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """The last names of an object with settings (`args` of `self.args`), and the names that are read of it."""

    names: frozenset[str]
    read: frozenset[str]


def followed(source: Source, makers: Collection[str], others: Sequence[Source] = ()) -> Namespace | None:
    """What a file and others of its project read of the results of some calls; None if more code may read of it.

    `makers` are ends of the code of what is called, such as `parse_args`.
    """
    flows = dict[str, _Flow]()
    flow = flows[source.path] = _Flow(source, makers, others, flows)
    if not flow.follow():
        return None
    names = frozenset(name for each in flows.values() for name in each.names)
    # What one file keeps of the object, as `self.args`, another may read: `model.args.rate`.
    every = [flow, *(flows.get(each.path) or _Flow(each, (), (), flows) for each in others if each is not source)]
    return Namespace(names, frozenset(name for each in every for name in each.read(names)))


class _Flow:
    """The names of an object in a file while they are found, with those in the other files by their paths."""

    def __init__(
        self, source: Source, makers: Collection[str], others: Sequence[Source], flows: dict[str, _Flow]
    ) -> None:
        self.source = source
        self.makers = set(makers)
        self.others = others
        self.flows = flows
        self.names = set[str]()
        self.parents = source.cached(_parents)
        self.functions = source.cached(_functions)

    def follow(self) -> bool:
        """Find all names; whether the object is nowhere lost."""
        for _ in range(MOST_PASSES):
            before = len(self.names) + len(self.makers)
            if not all(self._is_followed(use) for use in list(self._uses())):
                return False
            if len(self.names) + len(self.makers) == before:
                return bool(self.names)
        return False

    def _uses(self) -> Iterator[ast.expr]:
        """Where the object is made, and where one of its names is read."""
        calls = self.source.cached(_calls)
        for maker in self.makers & calls.keys():
            yield from calls[maker]
        for node in self.source.named(*self.names):
            if isinstance(node.ctx, ast.Load) and not self._is_other(node):
                yield node

    def _is_other(self, node: ast.expr) -> bool:
        """Whether a name is that of a function's `*args`."""
        around = self.parents.get(node)
        while around is not None and isinstance(node, ast.Name):
            if isinstance(around, ast.FunctionDef | ast.Lambda):
                taken = around.args.vararg
                if taken is not None and taken.arg == node.id:
                    return True
            around = self.parents.get(around)
        return False

    def _is_followed(self, use: ast.expr) -> bool:
        """Whether it is known what becomes of the object at a use."""
        parent = self.parents.get(use)
        match parent:
            case ast.Attribute(attr=attr):
                called = self.parents.get(parent)
                return attr not in WHOLE or self._is_followed(called if isinstance(called, ast.Call) else parent)
            case ast.Subscript(slice=part):
                # The first of what `parse_known_args` returns is the object itself.
                return self._is_followed(parent) if isinstance(use, ast.Call) else isinstance(part, ast.Constant)
            case ast.Assign(targets=targets):
                return all(self._is_named(target) for target in targets)
            case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
                return self._is_named(target)
            case ast.Return():
                return self._is_returned(use)
            case ast.Compare() | ast.Expr():
                return True
            case ast.Call() | ast.keyword():
                return self._is_given(use, parent)
            case ast.For(iter=over) if over is use:
                return all(_only_shows(each) for each in parent.body)
            case _:
                return self._is_shown(use)

    def _is_named(self, target: ast.expr) -> bool:
        """Take the name of a target, or the first of `args, others = …`."""
        if isinstance(target, ast.Tuple) and target.elts:
            return self._is_named(target.elts[0])
        if not isinstance(target, ast.Name | ast.Attribute):
            return isinstance(target, ast.Subscript) and SAVED.search(unparse(target.value)) is not None
        self.names.add(_last(target))
        return True

    def _is_returned(self, use: ast.expr) -> bool:
        """Take the function around a `return` for one that makes the object, if the file calls it."""
        around = self.parents.get(use)
        while around is not None and not isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
            around = self.parents.get(around)
        if around is None:
            return False
        self.makers.add(around.name)
        return around.name in self.source.cached(_calls)

    def _is_given(self, use: ast.expr, parent: ast.Call | ast.keyword) -> bool:
        """Whether a call that gets the object is one whose code is in the file, or only shows it."""
        call = self.parents.get(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call):
            return False
        name = unparse(call.func)
        if call.func is use:
            return True
        if isinstance(parent, ast.keyword) and parent.arg is None:
            return self._is_shown(use)
        if name in {"getattr", "setattr", "delattr"}:
            return len(call.args) > 1 and (name == "setattr" or isinstance(call.args[1], ast.Constant))
        if name.rpartition(".")[2] in CONVERTS:
            return self._is_followed(call)
        return self._is_taken(use, parent, call) or self._is_shown(use)

    def _is_taken(self, use: ast.expr, parent: ast.Call | ast.keyword, call: ast.Call) -> bool:
        """Take the name of the parameter that gets the object, of a function of the file or of another one."""
        name = unparse(call.func)
        called = self._bases(call) if name.startswith("super()") else [name.rpartition(".")[2]]
        return bool(called) and all(self._is_taken_by(each, use, parent, call) for each in called)

    def _bases(self, node: ast.AST) -> list[str]:
        """The names of the classes that `super()` looks into."""
        around = self.parents.get(node)
        while around is not None and not isinstance(around, ast.ClassDef):
            around = self.parents.get(around)
        return [_last(each) for each in around.bases] if isinstance(around, ast.ClassDef) else []

    def _is_taken_by(self, called: str, use: ast.expr, parent: ast.Call | ast.keyword, call: ast.Call) -> bool:
        own = self.functions.get(called, ())
        if own:
            names = [_parameter(each, use, parent, call) for each in own]
            self.names.update(names)
            return all(names)
        files = [each for each in self.others if each is not self.source and called in each.cached(_functions)]
        taken = [_parameter(each, use, parent, call) for file in files for each in file.cached(_functions)[called]]
        return len(files) == 1 and all(taken) and all(self._is_followed_into(files[0], name) for name in taken)

    def _is_followed_into(self, source: Source, name: str) -> bool:
        """Whether it is known what another file does with a parameter that is the object."""
        flow = self.flows.setdefault(source.path, _Flow(source, (), self.others, self.flows))
        if name in flow.names:
            return True
        flow.names.add(name)
        return flow.follow()

    def _is_shown(self, use: ast.AST) -> bool:
        """Whether a use is inside of a call that only shows it, or of what is saved."""
        node: ast.AST | None = use
        while node is not None and not isinstance(node, ast.stmt):
            if isinstance(node, ast.Call) and _is_shown_by(node):
                return True
            node = self.parents.get(node)
        return isinstance(node, ast.Assign) and SAVED.search(unparse(node.targets[0])) is not None

    def read(self, known: frozenset[str]) -> Iterator[str]:
        """The names that a file reads of the object, and all its texts, which may be such names."""
        names = {*known, *({"hparams"} if "save_hyperparameters" in self.source.text else ())}
        for owner, made, attribute in self.source.gathered(_reads):
            if owner in names or made in self.makers:
                yield attribute
        yield from self.source.gathered(_texts)


def _parameter(function: ast.FunctionDef, use: ast.expr, parent: ast.Call | ast.keyword, call: ast.Call) -> str:
    """The name of the parameter that gets an argument of a call; empty where that is not known."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args) if each.arg != "self"]
    if isinstance(parent, ast.keyword):
        taken = {*names, *(each.arg for each in function.args.kwonlyargs)}
        return parent.arg if parent.arg in taken else ""
    position = next((index for index, each in enumerate(call.args) if each is use), len(names))
    is_open = any(isinstance(each, ast.Starred) for each in call.args[:position])
    return names[position] if position < len(names) and not is_open else ""


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_shown_by(call: ast.Call) -> bool:
    return SHOWS.search(unparse(call.func)) is not None


def _only_shows(statement: ast.stmt) -> bool:
    """Whether a statement shows something, and does nothing else."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and _is_shown_by(statement.value)


def _calls(source: Source) -> dict[str, list[ast.Call]]:
    """The calls of a file by the last name of what is called."""
    found: dict[str, list[ast.Call]] = {}
    for name, call in source.gathered(_calls_in):
        found.setdefault(name, []).append(call)
    return found


def _calls_in(statement: ast.stmt) -> list[tuple[str, ast.Call]]:
    calls = (each for each in walk(statement) if isinstance(each, ast.Call))
    return [(unparse(each.func).rpartition(".")[2], each) for each in calls]


def _reads(statement: ast.stmt) -> list[tuple[str, str, str]]:
    """The attributes that a statement reads: the last name of the owner, or of the call that makes it, and its own."""
    found = set[tuple[str, str, str]]()
    for node in walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = node.value
            made = unparse(owner.func).rpartition(".")[2] if isinstance(owner, ast.Call) else ""
            found.add((_last(owner), made, node.attr))
    return list(found)


def _texts(statement: ast.stmt) -> list[str]:
    """The texts of a statement that may be names of settings: all but those that declare an option."""
    nodes = walk(statement)
    declared = {
        id(part)
        for call in nodes
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"
        for part in walk(call)
    }
    constants = (each for each in nodes if isinstance(each, ast.Constant) and id(each) not in declared)
    return list({each.value for each in constants if isinstance(each.value, str)})


def _parents(source: Source) -> Mapping[ast.AST, ast.AST]:
    """The node above each node of a file."""
    found: dict[ast.AST, ast.AST] = dict.fromkeys(source.tree.body, source.tree)
    for statement in source.tree.body:
        found.update(dict.fromkeys(children(statement), statement))
        found.update(source.once(_parents_below, statement))
    return found


def _parents_below(statement: ast.stmt) -> dict[ast.AST, ast.AST]:
    """The node above each node in a statement, but for those right below it: a tree has no circle."""
    return {below: node for node in walk(statement)[1:] for below in children(node)}


def _functions(source: Source) -> Mapping[str, list[ast.FunctionDef]]:
    """The functions of a file by their names, and how its classes are made by theirs."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for each in source.nodes_of(ast.FunctionDef):
        if each.name != "__init__":
            found.setdefault(each.name, []).append(each)
    for owner in source.nodes_of(ast.ClassDef):
        made = [part for part in owner.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
        found.setdefault(owner.name, []).extend(made)
    return found
