"""Lightning: the schedules that `configure_optimizers` of a module returns, in every documented form.

Lightning: the names that the modules of a script log values under.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from lintrain.analysis.script_text import mentions, nodes_of_kind
from lintrain.libraries.lightning_checkpoints import NOT_SAVED
from lintrain.model.location import Location
from lintrain.pipeline.modules import lineage_of
from lintrain.pipeline.record import Misuse, Pipeline, Returned
from lintrain.pipeline.values.model import Role, Scheduler, Tensor
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Class,
    Instance,
    Mapping,
    Sequence,
    Unknown,
    Value,
    literal,
    options_of,
)
from lintrain.pipeline.values.tensors import Operation
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

MODULES = frozenset({"lightning.LightningModule", "pytorch_lightning.LightningModule"})


@dataclass(frozen=True, slots=True)
class ReturnedSchedule:
    """The code of a schedule, or of the dictionary around it, in the result of `configure_optimizers`."""

    location: Location
    code: str
    is_dictionary: bool

    def with_interval(self, interval: str) -> str:
        """The code with this interval added."""
        if not self.is_dictionary:
            return f'{{"scheduler": {self.code}, "interval": "{interval}"}}'
        return f'{self.code[:-1].rstrip().rstrip(",")}, "interval": "{interval}"}}'


@dataclass(frozen=True, slots=True)
class Configured:
    """A schedule that a module returns to Lightning; `settings` is the dictionary around it, if there is one."""

    scheduler: Scheduler
    settings: Mapping | None
    returned: Returned

    @property
    def interval(self) -> str | None:
        """How often Lightning steps it, once per "epoch" by default; None if it is unknown."""
        if self.settings is None:
            return "epoch"
        if "interval" in self.settings.entries:
            interval = literal(self.settings.entries["interval"])
            return interval if isinstance(interval, str) else None
        return "epoch" if self.settings.is_complete else None

    def returned_schedule(self, pipeline: Pipeline) -> ReturnedSchedule | None:
        """The dictionary of settings around the schedule, or the schedule in a `return` statement."""
        names = {binding.name for binding in pipeline.names_of(self.scheduler)}
        method = self.returned.method
        source = pipeline.source_of(method.origin) if method.origin else pipeline.source
        for node in walk(method.node):
            if isinstance(node, ast.Dict) and any(_is_setting(pair, self, names, source) for pair in _pairs(node)):
                return ReturnedSchedule(source.location(node), source.code(source.location(node)), True)
        for node in walk(method.node):
            for inner in walk(node) if isinstance(node, ast.Return) else ():
                if isinstance(inner, ast.expr) and _is_schedule(inner, self, names, source):
                    return ReturnedSchedule(source.location(inner), source.code(source.location(inner)), False)
        return None


def _pairs(node: ast.Dict) -> list[tuple[ast.expr | None, ast.expr]]:
    return list(zip(node.keys, node.values, strict=True))


def _is_setting(
    pair: tuple[ast.expr | None, ast.expr], configured: Configured, names: set[str], source: Source
) -> bool:
    key, value = pair
    is_key = isinstance(key, ast.Constant) and key.value == "scheduler"
    return is_key and _is_schedule(value, configured, names, source)


def _is_schedule(node: ast.expr, configured: Configured, names: set[str], source: Source) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    return isinstance(node, ast.Call) and source.location(node) == configured.scheduler.origin


def is_lightning_module(cls: Class) -> bool:
    """Whether a class of the script is a LightningModule."""
    return not MODULES.isdisjoint(lineage_of(cls.library_bases))


def unsaved_arguments(pipeline: Pipeline) -> list[Misuse]:
    """The calls of `load_from_checkpoint` that lack arguments, whose names are the text; `value` is the constructor."""
    found = [each for each in pipeline.misuses if each.use == NOT_SAVED]
    # The command line of Lightning adds the arguments that it has made the module with.
    return [] if found and any("LightningCLI" in source.text for source in pipeline.sources.values()) else found


def configured_schedules(pipeline: Pipeline) -> Iterator[Configured]:
    """The schedules that the script's modules return to Lightning."""
    for returned in pipeline.returned:
        if returned.method.name == "configure_optimizers" and _is_automatic(returned.cls):
            for value in options_of(returned.value):
                for scheduler, settings in schedules(value):
                    yield Configured(scheduler, settings, returned)


def _is_automatic(cls: Class) -> bool:
    """Whether Lightning alone steps the optimizers and schedules of a module: no code of the module does."""
    return is_trained_by_lightning(cls) and not _attributes_of(cls).issuperset(("lr_schedulers", "step"))


def is_trained_by_lightning(cls: Class) -> bool:
    """Whether Lightning runs the backward passes of a module; who steps its schedules does not matter."""
    return is_lightning_module(cls) and not sets_optimization(cls)


def sets_optimization(cls: Class) -> bool:
    """Whether a class mentions `automatic_optimization`: as an attribute, in the class, or as a property."""
    nodes = [node for owner in cls.lineage() for node in walk(owner.node)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    return "automatic_optimization" in names | _attributes_of(cls)


def _attributes_of(cls: Class) -> set[str]:
    """The names of all attributes in the code of a class and the classes of the script that it derives from."""
    nodes = (node for owner in cls.lineage() for node in walk(owner.node))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def schedules(value: Value) -> Iterator[tuple[Scheduler, Mapping | None]]:
    """The schedules in the dictionary of one optimizer, in several, or in a pair of lists."""
    match value:
        case Mapping():
            yield from _schedule(value.entries.get("lr_scheduler", ABSENT))
        case Sequence(items=[Sequence(), Sequence() as listed]):
            for item in listed.items:
                yield from _schedule(item)
        case Sequence():
            for item in value.items:
                if isinstance(item, Mapping):
                    yield from schedules(item)
        case _:
            pass


def _schedule(value: Value) -> Iterator[tuple[Scheduler, Mapping | None]]:
    for option in options_of(value):
        if isinstance(option, Scheduler):
            yield option, None
        elif isinstance(option, Mapping):
            scheduler = option.entries.get("scheduler")
            if isinstance(scheduler, Scheduler):
                yield scheduler, option


def steps(pipeline: Pipeline, name: str = "training_step") -> Iterator[Returned]:
    """What a method of each module gives that Lightning trains by itself."""
    for returned in pipeline.returned:
        if returned.method.name == name and is_trained_by_lightning(returned.cls):
            yield returned


def losses_of(returned: Returned) -> list[Value]:
    """The losses that a `training_step` may give: tensors, or those under `loss`; empty if one is not known."""
    found = [
        option.entries.get("loss", UNKNOWN) if isinstance(option, Mapping) else option
        for option in options_of(returned.value)
    ]
    return [] if any(isinstance(each, Unknown) for each in found) else found


def cut_losses(pipeline: Pipeline) -> Iterator[Operation]:
    """The operations that take each loss that a `training_step` returns off the graph."""
    for returned in steps(pipeline):
        losses = losses_of(returned)
        cuts = [each.cut for each in losses if isinstance(each, Tensor) and each.role is Role.LOSS]
        if len(cuts) == len(losses):
            yield from (cut for cut in cuts[:1] if cut is not None and None not in cuts)


def forgotten_schedules(pipeline: Pipeline) -> Iterator[tuple[Scheduler, str]]:
    """The schedules that `configure_optimizers` gives a name and then neither returns nor uses, with the name."""
    for returned in steps(pipeline, "configure_optimizers"):
        method = returned.method
        if not _is_automatic(returned.cls):
            continue
        source = pipeline.source_of(method.origin) if method.origin else pipeline.source
        names = Counter(node.id for node in walk(method.node) if isinstance(node, ast.Name))
        assigned = [node for node in walk(method.node) if isinstance(node, ast.Assign)]
        made = {source.location(node.value): node.targets for node in assigned}
        for scheduler in pipeline.schedulers:
            match made.get(scheduler.origin) if scheduler.origin else None:
                case [ast.Name(id=name)] if names[name] == 1:
                    yield scheduler, name
                case _:
                    pass


ENDINGS = ("_step", "_epoch", "/dataloader_idx_")
"""Suffixes that Lightning may add to the name of a logged value."""

OTHER_LOGS = frozenset({"math", "np", "numpy", "torch", "tf", "jnp", "cmath", "wandb", "mlflow"})
"""Objects with a `log` method that does not reach callbacks."""

HARMLESS = frozenset({"super", "isinstance", "hasattr", "type", "id", "print", "len"})


@dataclass(frozen=True, slots=True)
class Logged:
    """The name of a logged value, and the location of the call."""

    name: str
    location: Location

    def gives(self, watched: str) -> bool:
        """Whether the logged value may be available under a name."""
        return watched == self.name or watched.startswith(tuple(self.name + ending for ending in ENDINGS))


def logged_values(pipeline: Pipeline) -> list[Logged] | None:
    """All values that the script logs for callbacks; None if a name is unknown."""
    if mentions(pipeline, r"callback_metrics|logged_metrics|\blog_fn\b") or not _are_fitted_modules_plain(pipeline):
        return None
    found: list[Logged] = []
    understood = set[ast.AST]()
    for source in pipeline.sources.values():
        for node in source.nodes_of(ast.Call):
            if isinstance(node.func, ast.Attribute) and _is_logging(node.func):
                understood.add(node.func)
                names = _names_in(node) or _names_read(pipeline, source, node)
                if names is None:
                    return None
                found.extend(Logged(name, source.location(node)) for name in names)
    others = (node for node in nodes_of_kind(pipeline, ast.Attribute) if _is_logging(node))
    return found if found and all(node in understood for node in others) else None


def _is_logging(function: ast.Attribute) -> bool:
    owner = unparse(function.value)
    is_other = owner.partition(".")[0] in OTHER_LOGS or "logger" in owner.lower()
    return function.attr in {"log", "log_dict"} and not is_other


def _names_in(call: ast.Call) -> list[str] | None:
    """The names in a call of `log` or `log_dict`; None unless they are literal."""
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
    """The names in all evaluations of a call, if its function is only ever called."""
    location = source.location(call)
    read = [each.names for each in pipeline.lightning_logs if each.location == location]
    known = [names for names in read if names is not None]
    functions = [node for node in source.nodes_of(ast.FunctionDef) if source.location(node).holds(location)]
    is_called = all(_is_only_called(pipeline, function.name) for function in functions)
    return sorted({name for names in known for name in names}) if known and known == read and is_called else None


def _is_only_called(pipeline: Pipeline, name: str) -> bool:
    """Whether a method of this name is never used as a value, so that all of its calls are known."""
    called = {id(node.func) for node in nodes_of_kind(pipeline, ast.Call)}
    return all(id(node) in called for node in nodes_of_kind(pipeline, ast.Attribute) if node.attr == name)


def _are_fitted_modules_plain(pipeline: Pipeline) -> bool:
    """Whether every `fit` gets a module of the script without other base classes or hidden logging."""
    fits = [
        (source, node) for source in pipeline.sources.values() for node in source.nodes_of(ast.Call) if _is_fit(node)
    ]
    classes = [_class_given(pipeline, source, node) for source, node in fits]
    return bool(fits) and all(cls is not None and _logs_only_itself(cls) for cls in classes)


def _is_fit(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "fit"


def _class_given(pipeline: Pipeline, source: Source, fit: ast.Call) -> Class | None:
    """The class of the module that a `fit` certainly gets."""
    given = fit.args[0] if fit.args else next((each.value for each in fit.keywords if each.arg == "model"), None)
    read = [each.module for each in pipeline.lightning_fits if each.location == source.location(fit)]
    named = [binding.value for binding in pipeline.bindings if isinstance(given, ast.Name) and binding.name == given.id]
    values = read or named
    classes = {id(value.cls): value.cls for value in values if isinstance(value, Instance)}
    is_known = len(classes) == 1 and all(isinstance(value, Instance) for value in values)
    return next(iter(classes.values())) if is_known else None


def _logs_only_itself(cls: Class) -> bool:
    """Whether a module is never passed to code that could log for it."""
    is_plain = is_lightning_module(cls) and not cls.has_unknown_base and set(cls.library_bases) <= MODULES
    nodes = (node for owner in cls.lineage() for node in walk(owner.node))
    return is_plain and not any(isinstance(node, ast.Call) and _passes_itself(node) for node in nodes)


def _passes_itself(call: ast.Call) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    is_given = any(isinstance(part, ast.Name) and part.id == "self" for part in given)
    return is_given and not (isinstance(call.func, ast.Name) and call.func.id in HARMLESS)
