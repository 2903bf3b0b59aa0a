"""Whether the rows of a data set come in the order of their source: nothing that they are made of shuffles them.

What a data set is made of is followed by names: its class and what that calls, what its arguments are bound to, and
what is passed to the functions around them. Code that is merely in the same file says nothing about its rows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import field

from lintrain.analysis import module_classes
from lintrain.interpreter.core import storing
from lintrain.model.location import Location
from lintrain.pipeline.dataset_rows import IN_ORDER
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Loader, TorchDataset
from lintrain.pipeline.values.python import Instance, Sequence, Unknown, Value, is_missing, literal, options_of
from lintrain.source.nodes import children, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SHUFFLES = lazy_pattern(
    r"shuffle|permutation|randperm|(random|train_test|stratified)_?split|choice|^rand|_rand|normal$|uniform$|"
    r"[kK]_?[fF]old|bootstrap|synthetic|generate|fit_resample|"
    # `load_samples` and `get_sample` only name rows, and audio or images are resampled.
    r"(?<!(?i:re))(?<!(?i:up))(?<!own)(?<!get_)(?<!load_)(?<!read_)(?<!make_)(?<!process_)sample(?!s\b|_?rate|r\b)"
)
"""Names of functions that put rows into a random order, or into one on purpose, or that draw rows at random."""

MEANS_ORDER = lazy_pattern(
    r"time_?series|forecast|stock|^sequence|window|temporal|video|episode|bucket|sort_by|sorted|^dates?$|^time(stamp)?s?$",
    re.IGNORECASE,
)
"""Words in the names of data whose order matters."""

CARRIES_STATE = lazy_pattern(r"bptt|repackage_hidden|stateful|curricul", re.IGNORECASE)
"""Words of scripts that need their batches in order, whatever the data."""

SIZES = lazy_pattern(r"(?i)size|scale|resolution|shape")

TRAINING_SET = lazy_pattern(
    r"(?i)(self\.)?_?(train|training)_?(data_?set|data|set|ds)|(self\.)?(data_?set|data)_train|"
    r"[\w.]*data_?set\(\s*((mode|split|phase|subset|partition)\s*=\s*)?['\"]train(ing)?['\"](?s:.*)"
)
"""Code that names a training set, whatever class it has: `train_set`, `Speech(mode="train")`."""

STREAMS = lazy_pattern(r"(?i)iterable_?data|stream|web_?dataset|\bwds\b|shard|replay|rollout|episod|sampler|shuffle")
"""Words of scripts whose data sets may have no rows by index, or an order of their own."""

NO_ROWS = frozenset(
    {"self", "print", "len", "range", "int", "float", "str", "open", "isinstance", "enumerate", "super"}
    | {"args", "opt", "opts", "options", "config", "cfg", "hparams", "params", "parser", "logger", "device", "model"}
)
"""Names that stand for no data and make none, whatever else has such a name in another file, or is given it."""

OF_NETWORKS = frozenset(
    {"eval", "to", "cuda", "cpu", "parameters", "zero_grad", "state_dict", "load_state_dict", "backward", "step"}
)
"""Methods of networks and optimizers, which a class of the script may have too."""

Key = tuple[int, str]
"""A name, with the function that binds it (0 for a file); attributes have -1, on whatever object they are."""

ATTRIBUTE = -1


def keeps_source_order(pipeline: Pipeline, loader: Loader) -> bool:
    """Whether the rows of a loader are certainly in the order of their source, and nothing indicates intention."""
    # A function that may return None instead makes no loader then.
    datasets = [each for each in options_of(loader.dataset) if not is_missing(each)]
    return bool(datasets) and all(_keeps_order(pipeline, loader, each) for each in datasets)


def _keeps_order(pipeline: Pipeline, loader: Loader, rows: Value) -> bool:
    match rows:
        case Dataset() as dataset:
            is_plain = IN_ORDER | {"select", "take", "skip", "filter"} >= set(dataset.operations)
            is_known = all(made.cut is None or made.cut.first is not None for made in dataset.lineage)
            return is_plain and is_known and MEANS_ORDER.search(dataset.steps[0].text) is None
        case TorchDataset(name="TensorDataset" | "ConcatDataset" | "Subset") | Instance() | Sequence():
            return not _may_be_ordered(pipeline, loader, rows)
        case TorchDataset(path=path):
            return path.startswith("torchvision.") and "Fake" not in path
        case Unknown() if loader.dataset_location is not None:
            if literal(loader.value("shuffle")) is False or pipeline.source.is_partial:
                return not _may_be_ordered(pipeline, loader, rows)
            code = pipeline.code(loader.dataset_location)
            is_training_set = TRAINING_SET.fullmatch(code) is not None and MEANS_ORDER.search(code) is None
            return is_training_set and not _may_stream(pipeline) and not _may_be_ordered(pipeline, loader, rows)
        case _:
            return False


def _may_stream(pipeline: Pipeline) -> bool:
    """Whether a data set of which nothing is known may be a stream, or put its rows into another order itself."""
    return any(source.contains(STREAMS) for source in pipeline.sources.values())


def _may_be_ordered(pipeline: Pipeline, loader: Loader, rows: Value) -> bool:
    """Whether something that a loader's rows are made of may shuffle them, or means their order."""
    made_of = pipeline.cached(_origins, pipeline)
    names = made_of.loaded.get(loader.dataset_location) if loader.dataset_location else None
    # A loader that some wrapper makes: what it is given is not in its call.
    if names is None or any(source.contains(CARRIES_STATE) for source in pipeline.sources.values()):
        return True
    if pipeline.source.cached(carries_state):
        return True
    own = {(0, rows.cls.node.name)} if isinstance(rows, Instance) else set[Key]()
    return bool((names | own) & made_of.shuffled)


def carries_state(source: Source) -> bool:
    """Whether a loop over batches hands what a network gives to its next pass: `out, state = net(x, state)`.

    A loop over the steps of one sequence does too, but has no backward pass of its own.
    """
    loops = source.nodes_of(ast.For) if source.contains(r"\.backward\(") else ()
    return any(_is_carried(loop) for loop in loops if _has_backward(loop))


def _has_backward(loop: ast.For) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in walk(loop))


def _is_carried(loop: ast.For) -> bool:
    stores = sorted((each for each in walk(loop) if isinstance(each, ast.Assign)), key=lambda each: each.lineno)
    for store in stores:
        given = store.value.args[1:] if isinstance(store.value, ast.Call) else []
        results = _bound(store)
        for state in (each.id for each in given if isinstance(each, ast.Name) and len(results) > 1):
            before = [each for each in stores if each.lineno < store.lineno and state in _bound(each)]
            after = [each for each in stores if each.lineno >= store.lineno]
            is_reset = any(state not in _names(each.value) for each in before)
            if not is_reset and _becomes(state, results, after):
                return True
    return False


def _becomes(state: str, results: set[str], stores: list[ast.Assign]) -> bool:
    """Whether one of the results of a pass is stored under the name of a state, at once or by way of others."""
    known = set(results)
    for each in stores[1:]:
        if known & _names(each.value):
            known |= _bound(each)
    return state in known


def _bound(store: ast.Assign) -> set[str]:
    return {name for target in store.targets for name in _names(target)}


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


@dataclass(eq=False, slots=True)
class Origins:
    """What each name is made of: the names that occur where it is bound, and those that may shuffle rows."""

    made_of: dict[Key, set[Key]] = field(default_factory=lambda: {})
    shuffled: set[Key] = field(default_factory=set[Key])
    loaded: dict[Location, set[Key]] = field(default_factory=lambda: {})
    """The names in the data set of each loader, by the location of that argument."""
    bound: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    """The names that each function binds, by its number less one."""
    passed: dict[str, set[Key]] = field(default_factory=lambda: {})
    """The names in the arguments of all calls of a function, by its name."""
    parameters: dict[str, set[Key]] = field(default_factory=lambda: {})

    def close(self) -> None:
        """Find what is made of something shuffled, over any number of steps."""
        for name, keys in self.parameters.items():
            for key in keys:
                self.made_of.setdefault(key, set()).update(self.passed.get(name, ()))
        makes: dict[Key, list[Key]] = {}
        for made, parts in self.made_of.items():
            for part in parts:
                makes.setdefault(part, []).append(made)
        pending = list(self.shuffled)
        while pending:
            for made in makes.get(pending.pop(), ()):
                if made not in self.shuffled:
                    self.shuffled.add(made)
                    pending.append(made)


def _origins(pipeline: Pipeline, _: Pipeline) -> Origins:
    origins = Origins()
    functions = [node for source in pipeline.sources.values() for node in source.nodes_of(ast.FunctionDef)]
    in_place = {node.name for node in functions if _shuffles_parameter(node)}
    leaving = frozenset(node.name for node in functions) - in_place
    for source in pipeline.sources.values():
        _Walk(source, origins, _modules(source), leaving).go()
    origins.close()
    return origins


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class _Around:
    """What is around a node: the numbers of the functions, innermost last, the class, and whose code it is part of."""

    functions: tuple[int, ...] = ()
    cls: str = ""
    owner: Key | None = None
    of_rows: frozenset[str] = frozenset()
    """The methods of the class that only make the row of an index."""


@dataclass(eq=False, slots=True)
class _Walk:
    """A walk over a file that notes what each name is made of."""

    source: Source
    origins: Origins
    modules: frozenset[str] = frozenset()
    """Names of imported modules: that `np` shuffles one array says nothing about others."""
    leaving: frozenset[str] = frozenset()
    """Names of the script's functions that leave the order of what they are given alone."""

    def go(self) -> None:
        """Note everything in the file."""
        pending: list[tuple[ast.AST, _Around]] = [(self.source.tree, _Around())]
        while pending:
            node, around = pending.pop()
            self._note(node, around)
            inside = around
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = self._enter(node, around)
            pending.extend((child, inside) for child in children(node))

    def _note(self, node: ast.AST, around: _Around) -> None:
        key = self._key(node, around)
        if around.owner is not None:
            self._add(around.owner, {key} if key else set())
            if _shuffles(node):
                self.origins.shuffled.add(around.owner)
        for target, value in _bindings(node, self.leaving):
            if isinstance(target, ast.Attribute) and SIZES.search(target.attr):
                continue  # `rows.image_size = random.choice(sizes)` chooses no rows
            made, shuffles = self._names_in(target, around), any(_shuffles(each) for each in walk(value))
            for each in made:
                self._add(each, self._names_in(value, around))
            self.origins.shuffled |= made if shuffles else set()
        if isinstance(node, ast.Call):
            self._note_call(node, around)

    def _note_call(self, node: ast.Call, around: _Around) -> None:
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        name = _last_name(node.func)
        for each in given:
            keys = self._names_in(each, around)
            self.origins.passed.setdefault(name, set()).update(keys)
            if name == "DataLoader":
                self.origins.loaded[self.source.location(each)] = keys
                self.origins.shuffled |= keys if any(_shuffles(part) for part in walk(each)) else set()

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, around: _Around) -> _Around:
        """What is around the body of a function or class; what it is made of is part of the code around it."""
        is_method = bool(around.cls) and isinstance(node, FUNCTIONS)
        name = f"{around.cls}.{node.name}" if is_method and node.name.startswith("__") else node.name
        key = (ATTRIBUTE if is_method else self._binder(name, around), name)
        self.origins.made_of.setdefault(key, set())
        if isinstance(node, ast.ClassDef):
            if module_classes.changes_one_row(node):
                return _Around(around.functions, node.name)
            self._own(around.owner, key)
            of_rows = module_classes.row_methods(node)
            return _Around(around.functions, node.name, key, of_rows)
        # What is called is a transform, and changes one row: a sampler is iterated over.
        if not (is_method and node.name in around.of_rows | {"__call__"}):
            self._own(around.owner, key)
        return _Around((*around.functions, self._number(node, around.cls)), "", key)

    def _own(self, owner: Key | None, part: Key) -> None:
        if owner is not None:
            self._add(owner, {part})

    def _number(self, node: ast.FunctionDef | ast.AsyncFunctionDef, cls: str) -> int:
        """The number of a function that was not met before; its parameters are what calls of it pass."""
        arguments = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        self.origins.bound.append(frozenset(arguments.union(storing.assigned_names(node.body))))
        number = len(self.origins.bound)
        called = cls if node.name == "__init__" else node.name
        self.origins.parameters.setdefault(called, set()).update((number, each) for each in arguments)
        return number

    def _binder(self, name: str, around: _Around) -> int:
        """The innermost function that binds a name, 0 if it is one of the file, or of another file of the project."""
        return next((each for each in reversed(around.functions) if name in self.origins.bound[each - 1]), 0)

    def _key(self, node: ast.AST, around: _Around) -> Key | None:
        match node:
            case ast.Name(id=name) if name not in self.modules and name not in NO_ROWS:
                return (self._binder(name, around), name)
            case ast.Attribute(attr=name) if name not in OF_NETWORKS:
                return (ATTRIBUTE, name)
            case _:
                return None

    def _names_in(self, node: ast.AST, around: _Around) -> set[Key]:
        return {key for each in walk(node) if (key := self._key(each, around)) is not None}

    def _add(self, made: Key, parts: set[Key]) -> None:
        self.origins.made_of.setdefault(made, set()).update(parts)


def _modules(source: Source) -> frozenset[str]:
    """The names that `import` statements bind."""
    names = (each for node in source.nodes_of(ast.Import) for each in node.names)
    return frozenset(each.asname or each.name.partition(".")[0] for each in names)


def _shuffles_parameter(function: ast.FunctionDef) -> bool:
    """Whether a function shuffles something that it is given in place: `random.shuffle(rows)`."""
    names = {each.arg for each in function.args.args}
    calls = (each.value for each in walk(function) if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call))
    shuffling = (call for call in calls if SHUFFLES.search(_last_name(call.func)))
    return any(isinstance(given, ast.Name) and given.id in names for call in shuffling for given in call.args)


def _bindings(node: ast.AST, leaving: frozenset[str]) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What a node binds or changes in place, and what it is made of."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
            yield target, value
        case ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            yield target, value
        case ast.comprehension(target=target, iter=value):
            yield target, value
        case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
            yield target, value
        case ast.Expr(value=ast.Call(func=func, args=args) as call):
            # `random.shuffle(rows)`, `rows.append(row)`: what is called on, and what it is given, may change.
            changed = [] if _last_name(func) in leaving else list(args)
            changed += [func.value] if isinstance(func, ast.Attribute) else []
            # `print(len(rows))` changes neither `rows` nor what `len` is.
            yield from ((each, call) for each in changed if isinstance(each, ast.Name | ast.Attribute | ast.Subscript))
        case _:
            return


def _shuffles(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="sorted"):
            return False
        case ast.Call(func=ast.Name(id="sorted"), keywords=keywords):
            return bool(keywords)  # by name, files of one class are next to each other; by length that is meant
        case ast.Call(func=called):
            name = _last_name(called)
            return SHUFFLES.search(name) is not None or MEANS_ORDER.search(name) is not None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return MEANS_ORDER.search(name) is not None
        case ast.Constant(value=str(text)):
            return len(text) < MOST_TEXT and MEANS_ORDER.search(text) is not None
        case _:
            return False


MOST_TEXT = 60
"""Characters of a literal that may name data; longer ones are texts."""


def _last_name(func: ast.expr) -> str:
    """The last part of the dotted name that is called."""
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""
