"""What Keras gets and cannot use: a network of torch, losses of NumPy, and short embeddings.

`RobertaForSequenceClassification` is a module of torch; the class for Keras has `TF` in front. NumPy knows nothing of
gradients, so what it computes inside of a loss has none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

KERAS_METHODS = frozenset({"fit", "fit_generator", "summary", "evaluate", "predict"})
KERAS_ARGUMENTS = frozenset({"loss", "optimizer", "metrics"})
HEADS = lazy_pattern(
    r"(?!TF|Flax)(?:Auto)?\w*(?:Model|ForSequenceClassification|ForTokenClassification|ForMaskedLM|LMHead\w*)$"
)
BUILDS = frozenset({"zeros", "zeros_like", "empty", "ones", "ones_like"})


@dataclass(frozen=True, slots=True)
class TorchInKeras:
    """A call of Keras on a network of torch: where, the method, the class, and where it was loaded."""

    location: Location
    method: str
    cls: str
    loaded: Location


def torch_networks(source: Source) -> Iterator[TorchInKeras]:
    """The first method of Keras that each network of `transformers` for torch is asked for."""
    imported = {
        alias.asname or alias.name
        for node in source.nodes_of(ast.ImportFrom)
        for alias in node.names
        if node.module == "transformers" and HEADS.match(alias.name)
    }
    bound = dict[str, list[ast.Assign]]()
    for node in source.nodes_of(ast.Assign) if imported else ():
        for target in node.targets:
            bound.setdefault(unparse(target), []).append(node)
    seen = set[ast.Assign]()
    for call in sorted(source.nodes_of(ast.Call), key=lambda each: each.lineno) if imported else ():
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                last = max((each for each in bound.get(name, ()) if each.lineno < call.lineno), key=_line, default=None)
                cls = _loaded_class(last, imported) if last is not None and last not in seen else ""
                if last and cls and (method in KERAS_METHODS or (method == "compile" and _is_of_keras(call))):
                    seen.add(last)
                    yield TorchInKeras(source.location(call), method, cls, source.location(last.value))
            case _:
                pass


def _line(node: ast.Assign) -> int:
    return node.lineno


def _loaded_class(node: ast.Assign, imported: set[str]) -> str:
    """The class for torch of which a statement loads a network; empty for other statements."""
    match node.value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=cls), attr="from_pretrained"), keywords=keywords):
            return cls if cls in imported and not any(each.arg == "from_tf" for each in keywords) else ""
        case _:
            return ""


def _is_of_keras(call: ast.Call) -> bool:
    return not KERAS_ARGUMENTS.isdisjoint(each.arg or "" for each in call.keywords)


def numpy_in_losses(source: Source) -> Iterator[tuple[Location, str, Location]]:
    """The losses given to `compile` whose result NumPy holds: where, the function, and where it is given."""
    functions = {node.name: node for node in source.nodes_of(ast.FunctionDef)}
    for call in source.nodes_of(ast.Call):
        given = next((each.value for each in call.keywords if each.arg == "loss"), None)
        if last_name(call.func) != "compile" or not isinstance(given, ast.Name) or given.id not in functions:
            continue
        function = functions[given.id]
        if len(function.args.args) == 2 and (cut := _cut_by_numpy(function)) is not None:
            yield source.location(cut), function.name, source.location(given)


def _cut_by_numpy(function: ast.FunctionDef) -> ast.expr | None:
    """A call of NumPy on the predictions, or an array that is filled with what was computed from them."""
    predicted = {function.args.args[1].arg}
    arrays = set[str]()
    for node in walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func)) if _is_numpy(func):
                arrays |= {name} if last_name(func) in BUILDS else set()
            case ast.Assign(targets=[target], value=value) if predicted & names_in(value):
                predicted |= {each.id for each in walk(target) if isinstance(each, ast.Name)} - arrays
            case _:
                pass
    for node in walk(function):
        match node:
            case ast.Call(func=func, args=[first, *_]) if _is_numpy(func) and predicted & names_in(first):
                return node
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=value):
                if name in arrays and predicted & names_in(value):
                    return node.targets[0]
            case _:
                pass
    return None


def _is_numpy(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and unparse(func.value) in {"np", "numpy"}


def names_in(node: ast.AST) -> set[str]:
    """The names in an expression, without those of which only the shape is asked."""
    shapes = {
        id(each.value) for each in walk(node) if isinstance(each, ast.Attribute) and each.attr in {"shape", "get_shape"}
    }
    return {each.id for each in walk(node) if isinstance(each, ast.Name) and id(each) not in shapes}


@dataclass(frozen=True, slots=True)
class ShortEmbedding:
    """An embedding with as many rows as a `Tokenizer` has words, whose numbers begin with 1: where, its size, that."""

    location: Location
    size: str
    counted: Location


def short_embeddings(source: Source) -> Iterator[ShortEmbedding]:
    """The embeddings of `len(tokenizer.word_index)` rows, where the tokenizer keeps all of its words."""
    assigned = dict[str, list[ast.expr]]()
    for node in source.nodes_of(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                assigned.setdefault(target.id, []).append(node.value)
    changed = {node.target.id for node in source.nodes_of(ast.AugAssign) if isinstance(node.target, ast.Name)}
    values = {name: given[0] for name, given in assigned.items() if len(given) == 1 and name not in changed}
    tokenizers = {name for name, value in values.items() if _keeps_all_words(value)}
    for call in source.nodes_of(ast.Call) if tokenizers else ():
        if last_name(call.func) != "Embedding":
            continue
        given = call.args[0] if call.args else next((e.value for e in call.keywords if e.arg == "input_dim"), None)
        counted = values.get(given.id, given) if isinstance(given, ast.Name) else given
        if given is not None and counted is not None and _counts_words(counted, values, tokenizers):
            yield ShortEmbedding(source.location(given), unparse(given), source.location(counted))


def _keeps_all_words(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call) or last_name(value.func) != "Tokenizer" or value.args:
        return False
    return not any(each.arg in {None, "num_words"} for each in value.keywords)


def _counts_words(node: ast.expr, values: dict[str, ast.expr], tokenizers: set[str]) -> bool:
    """Whether code is `len(tokenizer.word_index)`, the index by its own name or another."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]) if name in values:
            index: ast.expr = values[name]
        case ast.Call(func=ast.Name(id="len"), args=[given]):
            index = given
        case _:
            return False
    match index:
        case ast.Attribute(value=ast.Name(id=owner), attr="word_index"):
            return owner in tokenizers
        case _:
            return False


@dataclass(frozen=True, slots=True)
class UnadaptedLayer:
    """A layer that was to learn its statistics or its words from the data, and never sees them: where, its class."""

    location: Location
    name: str


ADAPTS = {
    "Normalization": frozenset({"mean", "variance"}),
    "TextVectorization": frozenset({"vocabulary"}),
    "StringLookup": frozenset({"vocabulary"}),
    "IntegerLookup": frozenset({"vocabulary"}),
    "Discretization": frozenset({"bin_boundaries", "bins"}),
}
"""Layers of Keras that `adapt` prepares, with the arguments that make it needless."""

LEARNS = r"adapt\(|set_vocabulary|load_weights|set_weights|load_model|load_assets|from_config|\.assign\(|\.build\("


def unadapted_layers(source: Source) -> list[UnadaptedLayer]:
    """The layers of a file that trains, in which no code adapts one or loads what it learned before."""
    return source.cached(_unadapted_layers)


def _unadapted_layers(source: Source) -> list[UnadaptedLayer]:
    layers = [
        call
        for call in source.nodes_of(ast.Call)
        if (name := last_name(call.func)) in ADAPTS
        and not call.args[1:]
        and not {each.arg for each in call.keywords} & (ADAPTS[name or ""] | {None})
    ]
    if not layers or not source.contains(r"\.fit\("):
        return []
    adapted = source.contains(LEARNS)
    found = (call for call in layers if not adapted or _is_never_adapted(source, call))
    return [UnadaptedLayer(source.location(call), last_name(call.func) or "") for call in found]


def _is_never_adapted(source: Source, layer: ast.Call) -> bool:
    """Whether a layer has one name, by which it is only put into networks, where the file adapts others."""
    if source.contains(LEARNS.replace(r"adapt\(|", "")):
        return False
    names = [
        each.targets[0].id
        for each in source.nodes_of(ast.Assign)
        if each.value is layer and isinstance(each.targets[0], ast.Name)
    ]
    if not names or _owners_of_adapt(source, names[0]):
        return False
    uses = [each for each in source.nodes_of(ast.Name) if each.id == names[0] and isinstance(each.ctx, ast.Load)]
    fine = {id(each) for node in source.nodes_of(ast.List) for each in node.elts}
    fine |= {id(call.func) for call in source.nodes_of(ast.Call)}
    fine |= {id(arg) for call in source.nodes_of(ast.Call) if last_name(call.func) == "add" for arg in call.args}
    return bool(uses) and all(id(each) in fine for each in uses)


def _owners_of_adapt(source: Source, name: str) -> list[ast.expr]:
    """What `adapt` is called on, if it may be the layer of a name: the name itself, or no plain name."""
    called = (call.func for call in source.nodes_of(ast.Call) if isinstance(call.func, ast.Attribute))
    owners = [each.value for each in called if each.attr == "adapt"]
    return [each for each in owners if not isinstance(each, ast.Name) or each.id == name]
