"""Lightning: what the modules of a script log, by name, and which of them a Trainer fits."""

from __future__ import annotations

import ast

from lintrain.analysis.lightning_modules import MODULES, is_lightning_module
from lintrain.analysis.script_text import mentions, nodes_of_kind
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class, Instance
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

ENDINGS = ("_step", "_epoch", "/dataloader_idx_")
"""What Lightning may put after the name that a value was logged by."""

OF_NUMBERS = frozenset({"math", "np", "numpy", "torch", "tf", "jnp", "cmath", "wandb", "mlflow"})
"""What has a `log` of its own that no callback hears of."""

HARMLESS = frozenset({"super", "isinstance", "hasattr", "type", "id", "print", "len"})


@dataclass(frozen=True, slots=True)
class Logged:
    """A name that a value is logged by, and where."""

    name: str
    location: Location

    def gives(self, watched: str) -> bool:
        """Whether what is logged here may be found under a name."""
        return watched == self.name or watched.startswith(tuple(self.name + ending for ending in ENDINGS))


def logged_values(pipeline: Pipeline) -> list[Logged] | None:
    """Everything that the script logs for callbacks; None where some name of it is not in the text."""
    if mentions(pipeline, r"callback_metrics|logged_metrics|\blog_fn\b") or not _are_fitted_modules_plain(pipeline):
        return None
    found: list[Logged] = []
    heard = set[ast.AST]()
    for source in pipeline.sources.values():
        for node in source.nodes_of(ast.Call):
            if isinstance(node.func, ast.Attribute) and _is_logging(node.func):
                heard.add(node.func)
                names = _names_in(node) or _names_read(pipeline, source, node)
                if names is None:
                    return None
                found.extend(Logged(name, source.location(node)) for name in names)
    loose = (node for node in nodes_of_kind(pipeline, ast.Attribute) if _is_logging(node))
    return found if found and all(node in heard for node in loose) else None


def _is_logging(function: ast.Attribute) -> bool:
    owner = ast.unparse(function.value)
    is_other = owner.partition(".")[0] in OF_NUMBERS or "logger" in owner.lower()
    return function.attr in {"log", "log_dict"} and not is_other


def _names_in(call: ast.Call) -> list[str] | None:
    """The names that a call of `log` or `log_dict` gives; None where they are not literal."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    given = call.args[0] if call.args else keywords.get("name", keywords.get("dictionary"))
    match given:
        case ast.Constant(value=str(name)):
            return [name]
        case ast.Dict(keys=keys):
            names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            return names if len(names) == len(keys) else None
        case _:
            return None


def _names_read(pipeline: Pipeline, source: Source, call: ast.Call) -> list[str] | None:
    """The names that all readings of a call gave, where its function is called and nothing else is done to it."""
    location = source.location(call)
    read = [each.names for each in pipeline.lightning_logs if each.location == location]
    known = [names for names in read if names is not None]
    functions = [node for node in source.nodes_of(ast.FunctionDef) if source.location(node).holds(location)]
    is_called = all(_is_only_called(pipeline, function.name) for function in functions)
    return sorted({name for names in known for name in names}) if known and known == read and is_called else None


def _is_only_called(pipeline: Pipeline, name: str) -> bool:
    """Whether a method of this name is never handed on, so that every call of it is in sight."""
    called = {id(node.func) for node in nodes_of_kind(pipeline, ast.Call)}
    return all(id(node) in called for node in nodes_of_kind(pipeline, ast.Attribute) if node.attr == name)


def _are_fitted_modules_plain(pipeline: Pipeline) -> bool:
    """Whether every `fit` is given a module of the script that Lightning alone stands above, and that hides nothing."""
    fits = [
        (source, node) for source in pipeline.sources.values() for node in source.nodes_of(ast.Call) if _is_fit(node)
    ]
    classes = [_class_given(pipeline, source, node) for source, node in fits]
    return bool(fits) and all(cls is not None and _logs_in_the_open(cls) for cls in classes)


def _is_fit(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "fit"


def _class_given(pipeline: Pipeline, source: Source, fit: ast.Call) -> Class | None:
    """The script's class that the module given to a `fit` is certainly of, each time it is read."""
    given = fit.args[0] if fit.args else next((each.value for each in fit.keywords if each.arg == "model"), None)
    read = [each.module for each in pipeline.lightning_fits if each.location == source.location(fit)]
    named = [binding.value for binding in pipeline.bindings if isinstance(given, ast.Name) and binding.name == given.id]
    values = read or named
    classes = {id(value.cls): value.cls for value in values if isinstance(value, Instance)}
    is_known = len(classes) == 1 and all(isinstance(value, Instance) for value in values)
    return next(iter(classes.values())) if is_known else None


def _logs_in_the_open(cls: Class) -> bool:
    """Whether a module hands itself to no code that could log in its stead."""
    is_plain = is_lightning_module(cls) and not cls.has_unknown_base and set(cls.library_bases) <= MODULES
    nodes = (node for owner in cls.lineage() for node in ast.walk(owner.node))
    return is_plain and not any(isinstance(node, ast.Call) and _gives_itself_away(node) for node in nodes)


def _gives_itself_away(call: ast.Call) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    is_given = any(isinstance(part, ast.Name) and part.id == "self" for part in given)
    return is_given and not (isinstance(call.func, ast.Name) and call.func.id in HARMLESS)
