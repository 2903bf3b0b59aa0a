"""Signatures of classes and functions, read from a package's text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.api_tables import refusals
from tools.api_tables.package_tree import Definition, Found, PackageTree, is_overload

Items = tuple[str, ...]
"""A signature as written in the tables: `name`, `name=literal`, `name=?` (a default that is no literal), `*`,
`*name`, `/`, `**name`; `~old=new` for a keyword that a decorator still takes; `<other.Class` for the parameters of
another package's class."""

TRANSPARENT_DECORATORS = frozenset(
    {
        "_deprecate_arguments",
        "_deprecate_method",
        "_deprecate_positional_args",
        "_defaults_from_env_vars",
        "_insert_env_defaults",
        "_no_grad",
        "abstractmethod",
        "allow_initializer_layout",
        "add_code_sample_docstrings",
        "add_end_docstrings",
        "add_start_docstrings",
        "auto_docstring",
        "cache",
        "can_return_tuple",
        "classmethod",
        "contextmanager",
        "dataclass",
        "dataclass_transform",
        "deprecated",
        "experimental",
        "filter_out_non_signature_kwargs",
        "filter_traceback",
        "final",
        "fingerprint_transform",
        "inference_mode",
        "is_documented_by",
        "is_tracking_allowed",
        "keras_export",
        "lru_cache",
        "no_automatic_dependency_tracking",
        "no_grad",
        "on_last_process",
        "on_local_main_process",
        "on_main_process",
        "override",
        "property",
        "replace_return_docstrings",
        "requires",
        "requires_backends",
        "runtime_checkable",
        "staticmethod",
        "strict_signature",
        "tf_keras_export",
        "torch_only_method",
        "total_ordering",
        "transmit_format",
        "transmit_tasks",
        "wraps",
    }
)
"""Decorators that leave what a function takes as it is."""

EMPTY_BASES = frozenset({"object", "ABC", "Generic", "Protocol", "PushToHubMixin", "Mapping", "MutableMapping"})


def signature_items(tree: PackageTree, module: str, name: str) -> Items | None:
    """The signature of a public class or function; None where the text alone does not tell."""
    found = tree.find(module, name)
    if found is None or found.node is None:
        return None
    if isinstance(found.node, ast.FunctionDef):
        return _function_items(found.node, bound=False)
    return _class_items(tree, found)


def method_items(tree: PackageTree, module: str, name: str) -> Iterator[tuple[str, Items]]:
    """The public methods of a class, inherited ones too, with their signatures."""
    found = tree.find(module, name)
    seen: set[str] = set()
    for part in lineage_of(tree, found) if found is not None else ():
        for node in part.node.body if isinstance(part.node, ast.ClassDef) else ():
            is_own = isinstance(node, ast.FunctionDef) and not is_overload(node)
            if is_own and isinstance(node, ast.FunctionDef) and node.name not in seen and not _is_attribute(node):
                seen.add(node.name)
                if not node.name.startswith("_") or node.name == "__call__":
                    yield node.name, _function_items(node, bound="staticmethod" not in _decorators(node))


def _class_items(tree: PackageTree, found: Found) -> Items | None:
    lineage = lineage_of(tree, found)
    items = _constructor_items(lineage)
    nodes = [part.node for part in lineage if isinstance(part.node, ast.ClassDef)]
    wrapped = any(not set(_decorators(node)) <= TRANSPARENT_DECORATORS for node in nodes)
    return items if items is None or not wrapped or items[-1:] == ("**kwargs",) else (*items, "**kwargs")


def _constructor_items(lineage: list[Found]) -> Items | None:
    for position, part in enumerate(lineage):
        if part.node is None:
            if part.name.split("[")[0] in EMPTY_BASES:
                continue
            return (f"<{part.module}.{part.name}",) if part.module == "transformers" else None
        if (constructor := _constructor(part.node)) is not None:
            return closed_items(lineage[position:], _function_items(constructor, bound=True))
        if "dataclass" in _decorators(part.node):
            return _dataclass_items(lineage[position:])
    return ()


def closed_items(lineage: list[Found], items: Items) -> Items:
    """The items without `**kwargs` where a constructor further up refuses what is left in them.

    `Dense(**kwargs)` of Keras 3 passes them on to `Layer`, which raises an error for all but a few names.
    """
    constructors = [node for part in lineage if part.node is not None and (node := _constructor(part.node)) is not None]
    accepted = refusals.accepted_names(constructors)
    # Elsewhere a last constructor without `**kwargs` may be a stub of what an environment provides.
    is_keras = lineage[0].module.partition(".")[0] == "keras"
    if not is_keras or accepted is None or not items or not items[-1].startswith("**") or _is_wrapped(constructors):
        return items
    known = {item.partition("=")[0] for item in items}
    left = [name for name in accepted if name not in known]
    separator = () if any(item.startswith("*") for item in items[:-1]) or not left else ("*",)
    return (*items[:-1], *separator, *(f"{name}=?" for name in left))


def _is_wrapped(constructors: list[ast.FunctionDef]) -> bool:
    """Whether a decorator of the first constructor may take more, as those of Keras 2 do for names of Keras 1."""
    return not set(_decorators(constructors[0])) <= TRANSPARENT_DECORATORS


def lineage_of(tree: PackageTree, found: Found) -> list[Found]:
    """A class and its bases, nearest first; of a base that is met twice the last meeting counts, as in Python."""
    order = [found]
    if isinstance(found.node, ast.ClassDef):
        for base in found.node.bases:
            part = _base(tree, found.module, base)
            order += lineage_of(tree, part) if part != found else []
    return [part for position, part in enumerate(order) if part not in order[position + 1 :]]


def _base(tree: PackageTree, module: str, base: ast.expr) -> Found:
    name = ast.unparse(base)
    if isinstance(base, ast.Name) and (found := tree.find(module, base.id)) is not None:
        return found
    if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
        inner = tree.find(f"{module.rpartition('.')[0]}.{base.value.id}", base.attr)
        imported = tree.imported_module(module, base.value.id) if tree.package == "keras" and inner is None else None
        return inner or (tree.find(imported, base.attr) if imported else None) or Found("", name, None)
    return Found("", name, None)


def _constructor(node: Definition) -> ast.FunctionDef | None:
    methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
    return methods.get("__init__") or methods.get("__new__")


def _dataclass_items(lineage: list[Found]) -> Items | None:
    fields: dict[str, str] = {}
    inherited: Items = ()
    for part in reversed(lineage):
        if part.node is None:
            if part.module == "transformers":
                inherited = (f"<{part.module}.{part.name}",)
            elif part.name.split("[")[0] not in EMPTY_BASES:
                return None
        elif "dataclass" in _decorators(part.node):
            _update_fields(fields, part.node)
    return (*inherited, *fields.values())


def _update_fields(fields: dict[str, str], node: Definition) -> None:
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                text = ast.unparse(annotation)
                if "ClassVar" not in text and "KW_ONLY" not in text and (item := _field_item(name, value)) is not None:
                    fields[name] = item
            case _:
                pass


def _field_item(name: str, value: ast.expr | None) -> str | None:
    if value is None:
        return name
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field"):
        options = {keyword.arg: keyword.value for keyword in value.keywords}
        if isinstance(unused := options.get("init"), ast.Constant) and unused.value is False:
            return None
        if "default" in options:
            return f"{name}={literal_text(options['default'])}"
        return f"{name}=?" if "default_factory" in options else name
    return f"{name}={literal_text(value)}"


def _function_items(node: ast.FunctionDef, bound: bool) -> Items:
    every = node.args
    positional = every.posonlyargs + every.args
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(every.defaults)) + list(every.defaults)
    items = [_item(part.arg, default) for part, default in zip(positional, defaults, strict=True)]
    if every.posonlyargs:
        items.insert(len(every.posonlyargs), "/")
    if bound:
        items = items[1:]
    if every.vararg is not None or every.kwonlyargs:
        items.append(f"*{every.vararg.arg if every.vararg else ''}")
    items += [_item(part.arg, default) for part, default in zip(every.kwonlyargs, every.kw_defaults, strict=True)]
    items += sorted(_still_taken(node))
    if every.kwarg is not None:
        items.append(f"**{every.kwarg.arg}")
    elif not set(_decorators(node)) <= TRANSPARENT_DECORATORS | {"deprecate_kwarg"}:
        items.append("**kwargs")
    return tuple(items)


def _still_taken(node: ast.FunctionDef) -> Iterator[str]:
    """Old keywords that a `deprecate_kwarg` decorator translates or throws away."""
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Name(id="deprecate_kwarg"), args=[ast.Constant(value=str(old)), *_], keywords=keywords
            ):
                options = {keyword.arg: keyword.value for keyword in keywords}
                new = options.get("new_name")
                yield f"~{old}={_text(new)}"
            case _:
                pass


def _text(value: ast.expr | None) -> str:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _item(name: str, default: ast.expr | None) -> str:
    return name if default is None else f"{name}={literal_text(default)}"


def literal_text(value: ast.expr) -> str:
    try:
        return repr(ast.literal_eval(value))
    except ValueError:
        return "?"


def _is_attribute(node: ast.FunctionDef) -> bool:
    names = set(_decorators(node))
    return bool(names & {"property", "cached_property", "overload", "setter", "deleter"})


def _decorators(node: Definition) -> list[str]:
    return [
        ast.unparse(part.func if isinstance(part, ast.Call) else part).rpartition(".")[2]
        for part in node.decorator_list
    ]
