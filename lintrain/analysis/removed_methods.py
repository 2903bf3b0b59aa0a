"""Methods and attributes of tokenizers and of iterators over loaders that a version no longer has, by their code.

Most tokenizers and loaders come from another file, as a parameter or an attribute, so that their value is unknown. The
names are enough: in a script that imports transformers, `tokenizer.encode_plus` is the library's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from lintrain.knowledge import tables
from lintrain.knowledge.target import Targets, Version, written
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.source.training_syntax import imports
from lintrain.startup.lazy_pattern import lazy_pattern

PACKAGE = "transformers"
_TORCH = "torch"
_LAST_NEXT: Version = (1, 12)
"""The last version of torch whose iterators over a loader have the `next` of Python 2."""
_OWNER = "transformers.PreTrainedTokenizerBase"
_SINCE_5 = ("additional_special_tokens", "additional_special_tokens_ids", "all_special_tokens_extended")
_LAST: dict[str, Version] = {
    "max_len": (3, 5),
    "special_tokens_map_extended": (4, 57),
    **dict.fromkeys(_SINCE_5, (4, 57)),
}
"""The last versions with an attribute that is no method: the tables contain methods alone."""

_KEPT_BY_SLOW = frozenset(
    {
        "prepare_for_model",
        "prepare_seq2seq_batch",
        "build_inputs_with_special_tokens",
        "create_token_type_ids_from_sequences",
    }
    | {"truncate_sequences", "clean_up_tokenization"}
)
"""Methods that tokenizers in Python, or those of some models, still have: which a script loads is seldom known."""

_WITH_OWN = lazy_pattern(r"(?i)layoutlm|layoutxlm|markuplm|tapas|udop|roc_?bert|pop2piano")
"""Models whose tokenizers still have an `encode_plus` of their own."""

ADVICE = {
    "next": "call the function: `next(batches)`",
    "encode_plus": "call the tokenizer itself: `tokenizer(text)`",
    "batch_encode_plus": "call the tokenizer itself: `tokenizer(texts)`",
    "as_target_tokenizer": "pass the targets to the tokenizer: `tokenizer(text_target=targets)`",
    "max_len": "write `model_max_length`",
    "additional_special_tokens": "write `extra_special_tokens`",
    "additional_special_tokens_ids": "write `extra_special_tokens_ids`",
}


class RemovedMethod(NamedTuple):
    """An access to a method or attribute that the target versions no longer have, and their last with it."""

    node: ast.Attribute
    last_with: str
    package: str = PACKAGE
    owners: str = "tokenizers"
    call: ast.Call | None = None
    """The call `batches.next()` of an iterator, which the function `next` replaces."""


def removed_methods(source: Source, targets: Targets) -> Iterator[RemovedMethod]:
    """The accesses in a file; none where the file itself defines or asks for the name."""
    yield from _of_tokenizers(source, targets)
    yield from _of_iterators(source, targets)


def _of_iterators(source: Source, targets: Targets) -> Iterator[RemovedMethod]:
    target = targets.get(_TORCH)
    if target is None or not target.versions or target.versions[0] <= _LAST_NEXT or ".next()" not in source.text:
        return
    if not any(_names_package(node, _TORCH) for node in imports(source)) or "next" in source.cached(_defined):
        return
    made, guarded = source.cached(_iterators), source.cached(_guarded)
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=owner, attr="next") as used, args=[], keywords=[]):
                if used not in guarded and (_is_over_loader(source, owner) or unparse(owner) in made):
                    yield RemovedMethod(used, written(_LAST_NEXT), _TORCH, "iterators of loaders", call)
            case _:
                pass


def _iterators(source: Source) -> frozenset[str]:
    """The code of what a file binds to iterators over loaders, and to nothing else."""
    bound: dict[str, bool] = {}
    for node in source.nodes_of(ast.Assign):
        for target in node.targets:
            code = unparse(target)
            bound[code] = bound.get(code, True) and _is_over_loader(source, node.value)
    return frozenset(code for code, is_iterator in bound.items() if is_iterator)


def _is_over_loader(source: Source, node: ast.expr) -> bool:
    """Whether an expression is `iter(loader)`, of what is a loader by its name or by how the file makes it."""
    match node:
        case ast.Call(func=ast.Name(id="iter"), args=[loader]):
            pass
        case ast.Call(func=ast.Attribute(value=loader, attr="__iter__"), args=[]):
            pass
        case _:
            return False
    return "loader" in _last_name(loader).lower() or unparse(loader) in source.cached(_loaders)


def _loaders(source: Source) -> frozenset[str]:
    """The code of what a file binds to a `DataLoader`."""
    return frozenset(
        unparse(target)
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and _last_name(node.value.func) == "DataLoader"
        for target in node.targets
    )


def _of_tokenizers(source: Source, targets: Targets) -> Iterator[RemovedMethod]:
    gone = _gone(targets)
    used = [node for node in source.nodes_of(ast.Attribute) if node.attr in gone] if gone else []
    if not used or not any(map(_names_package, imports(source))) or source.contains(_WITH_OWN.pattern):
        return
    own, guarded = source.cached(_defined), source.cached(_guarded)
    loaded = source.cached(_loaded)
    for node in used:
        receiver = _last_name(node.value)
        is_tokenizer = receiver in loaded if node.attr == "max_len" else "tok" in receiver.lower()
        if is_tokenizer and node.attr not in own and node not in guarded:
            yield RemovedMethod(node, gone[node.attr])


def may_use_removed_method(source: Source, targets: Targets) -> bool:
    """Whether a file accesses a removed method or attribute of a tokenizer or an iterator."""
    return next(removed_methods(source, targets), None) is not None


def _gone(targets: Targets) -> dict[str, str]:
    target = targets.get(PACKAGE)
    return _gone_in(target.versions) if target is not None and target.versions else {}


@cache
def _gone_in(versions: tuple[Version, ...]) -> dict[str, str]:
    """The removed names of tokenizers, with the last version that has each."""
    covered = tables.covered_versions(PACKAGE)
    first = covered.index(versions[0])
    found = {name: written(last) for name, last in _LAST.items() if last < versions[0]}
    for path in tables.callable_names(PACKAGE):
        owner, _, name = path.rpartition(".")
        history = tables.history_of(PACKAGE, path) if owner == _OWNER and name not in _KEPT_BY_SLOW else ()
        having = [at for at, signature in enumerate(history) if signature is not None]
        if having and having[-1] < first:
            found[name] = written(covered[having[-1]])
    return found


def _names_package(node: ast.Import | ast.ImportFrom, package: str = PACKAGE) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return any(name.partition(".")[0] == package for name in names)


def _last_name(node: ast.expr) -> str:
    """The last name of an object's code: `tokenizer` for `self.tokenizer`."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        owner = node.value
        is_loader = node.attr == "from_pretrained"
        return _last_name(owner) if is_loader else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _defined(source: Source) -> frozenset[str]:
    """The names that a file defines or sets as attributes, and the strings with which it may ask for one."""
    found = {node.name for node in source.nodes_of(ast.FunctionDef)}
    found.update(node.attr for node in source.nodes_of(ast.Attribute) if not isinstance(node.ctx, ast.Load))
    found.update(node.value for node in source.nodes_of(ast.Constant) if isinstance(node.value, str))
    return frozenset(found)


def _guarded(source: Source) -> frozenset[ast.AST]:
    """The nodes in a `try` that handles a missing attribute."""
    tried = (node for node in source.nodes_of(ast.Try) if any(map(_handles, node.handlers)))
    return frozenset(inner for node in tried for statement in node.body for inner in walk(statement))


def uses_alike(source: Source, location: Location) -> list[Location]:
    """The reads of an attribute with the same code (`np.float`) in its file, outside of `try`; at least this one."""
    owner, _, name = source.code(location).rpartition(".")
    guarded = source.cached(_guarded)
    found = [
        source.location(node)
        for node in source.nodes_of(ast.Attribute)
        if node.attr == name and isinstance(node.ctx, ast.Load) and unparse(node.value) == owner and node not in guarded
    ]
    return sorted(found, key=lambda each: (each.line, each.column)) or [location]


def _handles(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or _last_name(kind) in ("AttributeError", "Exception", "BaseException") for kind in kinds)


def _loaded(source: Source) -> frozenset[str]:
    """The names that a file binds to a tokenizer which it loads."""
    return frozenset(
        _last_name(target)
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "from_pretrained"
        and "Tokenizer" in _last_name(node.value.func.value)
        for target in node.targets
    )
