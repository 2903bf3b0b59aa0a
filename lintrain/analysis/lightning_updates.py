"""Lightning: modules that train without an optimizer, or clear no gradients where they update by themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.lightning_modules import configured_schedules, is_lightning_module, sets_optimization
from lintrain.analysis.module_classes import misspellings_of
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Scheduler
from lintrain.pipeline.values.python import Class, Function, Instance, Mapping, Sequence, options_of, text_of
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

CONFIGURES = "configure_optimizers"

ONLY_LOOK = frozenset({"toggle_optimizer", "untoggle_optimizer", "clip_gradients", "print", "isinstance", "len"})
"""Functions that are given an optimizer and clear no gradients."""

PLATEAU = "ReduceLROnPlateau"

READ_KEYS = frozenset({"optimizer", "lr_scheduler", "monitor", "frequency"})
"""The keys that Lightning reads of the dictionary that `configure_optimizers` returns."""


@dataclass(frozen=True, slots=True)
class Uncleared:
    """A module's own update whose gradients are never cleared: the backward call, the step, the optimizer's code."""

    backward: Location
    step: Location
    optimizer: str


def uncleared_updates(pipeline: Pipeline) -> Iterator[Uncleared]:
    """The updates of modules with manual optimization that clear the gradients of an optimizer nowhere."""
    seen = set[int]()
    for returned in pipeline.returned:
        cls = returned.cls
        if returned.method.name == "training_step" and id(cls) not in seen and updates_by_itself(cls):
            seen.add(id(cls))
            source = pipeline.source_of(returned.method.origin) if returned.method.origin else pipeline.source
            yield from _uncleared_in(source, cls)


def updates_by_itself(cls: Class) -> bool:
    """Whether a module certainly sets `automatic_optimization` to False, all of its code being known."""
    if not is_lightning_module(cls) or cls.has_unknown_base or len(cls.library_bases) > 1:
        return False
    return any(_is_manual(node) for owner in cls.lineage() for node in walk(owner.node))


def _is_manual(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[target], value=ast.Constant(value=False)):
            return unparse(target) in {"self.automatic_optimization", "automatic_optimization"}
        case ast.FunctionDef(name="automatic_optimization", body=[*_, ast.Return(value=ast.Constant(value=False))]):
            return True
        case _:
            return False


def _uncleared_in(source: Source, cls: Class) -> Iterator[Uncleared]:
    nodes = [node for owner in cls.lineage() for node in walk(owner.node)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    methods = [(call, call.func) for call in calls if isinstance(call.func, ast.Attribute)]
    optimizers = _optimizers(nodes)
    cleared = {unparse(method.value) for _, method in methods if method.attr == "zero_grad"}
    if _handles_gradients(nodes) or not cleared <= optimizers or _is_passed_on(calls, optimizers):
        return
    backwards = [call for call, method in methods if method.attr in {"manual_backward", "backward"}]
    for call, method in methods:
        owner = unparse(method.value)
        is_step = method.attr == "step" and (owner in optimizers or owner == "self.optimizers()")
        before = [each for each in backwards if each.lineno < call.lineno]
        if is_step and before and owner not in cleared:
            yield Uncleared(source.location(before[-1]), source.location(call), owner)
            return


def _optimizers(nodes: list[ast.AST]) -> set[str]:
    """The names that are given what `self.optimizers()` gives, one or several of them."""
    names = set[str]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=value) if _is_optimizers(value):
                parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                names |= {part.id for part in parts if isinstance(part, ast.Name)}
            case _:
                pass
    return names


def _is_optimizers(value: ast.expr) -> bool:
    match value:
        case ast.Subscript(value=inner):
            return _is_optimizers(inner)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr="optimizers")):
            return True
        case _:
            return False


def _handles_gradients(nodes: list[ast.AST]) -> bool:
    """Whether a class reaches for gradients itself: what it does with them is not followed."""
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return bool(names & {"grad", "optimizer_zero_grad", "set_to_none"})


def _is_passed_on(calls: list[ast.Call], optimizers: set[str]) -> bool:
    """Whether an optimizer goes to other code, which may clear its gradients."""
    given = (
        part.id
        for call in calls
        if (call.func.attr if isinstance(call.func, ast.Attribute) else unparse(call.func)) not in ONLY_LOOK
        for part in (*call.args, *(each.value for each in call.keywords))
        if isinstance(part, ast.Name)
    )
    return not optimizers.isdisjoint(given)


def backwards_by_hand(pipeline: Pipeline) -> Iterator[tuple[Location, str]]:
    """The backward calls of steps for which Lightning calls `backward` itself, and why each fails."""
    seen = set[int]()
    for returned in pipeline.returned:
        cls, node = returned.cls, returned.method.node
        is_known = is_lightning_module(cls) and not cls.has_unknown_base and len(cls.library_bases) == 1
        if returned.method.name != "training_step" or not is_known or id(node) in seen or _trains_by_hand(cls):
            continue
        seen.add(id(node))
        source = pipeline.source_of(returned.method.origin) if returned.method.origin else pipeline.source
        values = [each.value for each in walk(node) if isinstance(each, ast.Return)]
        losses = {value.id for value in values if isinstance(value, ast.Name)}
        for call in (each for each in walk(node) if isinstance(each, ast.Call)):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr="manual_backward")):
                    yield source.location(call), "`manual_backward` needs `self.automatic_optimization = False`"
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="backward"), args=[], keywords=[]):
                    if name in losses:
                        yield source.location(call), f"Lightning calls `backward` on the returned `{name}` once more"
                case _:
                    pass


def _trains_by_hand(cls: Class) -> bool:
    """Whether a class may run its backward passes itself, or takes them over."""
    return sets_optimization(cls) or cls.lookup("backward") is not None


def left_in_eval_mode(pipeline: Pipeline) -> Iterator[Location]:
    """The `self.eval()` of training steps, after which Lightning trains the module in eval mode until an evaluation."""
    seen = set[int]()
    for returned in pipeline.returned:
        node = returned.method.node
        is_step = returned.method.name == "training_step" and is_lightning_module(returned.cls)
        if not is_step or id(node) in seen:
            continue
        seen.add(id(node))
        source = pipeline.source_of(returned.method.origin) if returned.method.origin else pipeline.source
        calls = [each for each in walk(node) if isinstance(each, ast.Call)]
        called = {unparse(each.func): each for each in reversed(calls)}
        restores = {"self.train", "self.trainer.model.train"} & called.keys()
        # A hook may put the module into train mode before each batch.
        hooks = [each.name for owner in returned.cls.lineage() for each in _methods_that_train(owner.node)]
        if "self.eval" in called and not restores and not hooks:
            yield source.location(called["self.eval"])


def _methods_that_train(cls: ast.AST) -> Iterator[ast.FunctionDef]:
    for method in walk(cls):
        if isinstance(method, ast.FunctionDef):
            calls = (each for each in walk(method) if isinstance(each, ast.Call))
            if any(unparse(each.func) == "self.train" for each in calls):
                yield method


@dataclass(frozen=True, slots=True)
class Unconfigured:
    """A module that gives Lightning no optimizer: where, and in words why not."""

    location: Location
    reason: str
    remedy: str
    fails: bool


def unconfigured(pipeline: Pipeline) -> Iterator[Unconfigured]:
    """The modules whose `configure_optimizers` returns nothing or something else, and trained ones without any."""
    for returned in pipeline.returned:
        method = returned.method
        if method.name != CONFIGURES or not is_lightning_module(returned.cls) or method.decorators:
            continue
        source = pipeline.source_of(method.origin) if method.origin else pipeline.source
        forgotten = _forgotten(method.node)
        if forgotten is not None:
            name = unparse(forgotten.targets[0]) if isinstance(forgotten, ast.Assign) else ""
            yield Unconfigured(
                source.location(forgotten),
                f"`{CONFIGURES}` returns nothing, so nothing is trained",
                f"end it with `return {name}`" if name else "write `return` before it",
                fails=False,
            )
        yield from _mixed(pipeline, returned.value)
        yield from _unbuilt(source, method.node)
        yield from (each for option in options_of(returned.value) for each in _misnamed(option, source, method.node))
    for fit in pipeline.lightning_fits:
        module = fit.module
        if isinstance(module, Instance) and _has_none(module.cls) and not fit.may_be_given_optimizer:
            yield Unconfigured(
                fit.location,
                f"`{module.cls.node.name}` has no `{CONFIGURES}`, which raises an error",
                f"add a method `{CONFIGURES}` that returns the optimizer",
                fails=True,
            )


def _forgotten(node: ast.AST) -> ast.Assign | ast.Expr | None:
    """The statement that makes an optimizer in a method that returns nothing."""
    if not isinstance(node, ast.FunctionDef) or isinstance(node.body[-1], ast.Raise):
        return None
    # A function inside the method, such as that of a schedule, has a `return` of its own.
    nodes = own_nodes(node)
    if any(isinstance(each, ast.Return | ast.Yield) for each in nodes):
        return None
    assigned = [each for each in nodes if isinstance(each, ast.Assign | ast.Expr) and _makes_optimizer(each)]
    return assigned[0] if assigned else None


OPTIMIZERS = frozenset(
    {"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Adafactor"}
)
"""Classes of optimizers, whose names alone are no optimizer."""


def _unbuilt(source: Source, method: ast.AST) -> Iterator[Unconfigured]:
    """`return torch.optim.Adam`: the class of an optimizer, which nothing has built."""
    for node in own_nodes(method):
        match node:
            case ast.Return(value=ast.Attribute(attr=name) | ast.Name(id=name) as given) if name in OPTIMIZERS:
                yield Unconfigured(
                    source.location(given),
                    f"`{name}` is the class of an optimizer, and no optimizer",
                    f"build it: `return {unparse(given)}(self.parameters(), lr=…)`",
                    fails=True,
                )
            case _:
                pass


def _makes_optimizer(assigned: ast.Assign | ast.Expr) -> bool:
    """Whether a call builds an optimizer by its name, or gets `self.parameters()` or those of a part, as they do."""
    targets = assigned.targets if isinstance(assigned, ast.Assign) else []
    if len(targets) > 1 or not all(isinstance(each, ast.Name) for each in targets):
        return False
    made = assigned.value
    if not isinstance(made, ast.Call):
        return False
    is_named = unparse(made.func).rpartition(".")[2] in OPTIMIZERS
    return is_named or any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "parameters"
        for each in walk(made)
    )


def _mixed(pipeline: Pipeline, value: object) -> Iterator[Unconfigured]:
    """`return optimizer, scheduler`: Lightning takes a pair of lists, or a dictionary."""
    if not isinstance(value, Sequence) or not value.is_complete:
        return
    for item in value.items:
        if isinstance(item, Scheduler) and item.origin is not None:
            names = sorted({each.name for each in pipeline.names_of(item)})
            yield Unconfigured(
                item.origin,
                "a schedule beside the optimizer is no form that Lightning takes",
                f"return two lists: `return [optimizer], [{names[0] if names else 'schedule'}]`",
                fails=True,
            )


def _misnamed(value: object, source: Source, method: ast.AST) -> Iterator[Unconfigured]:
    """`{"optimizer": optimizer, "scheduler": schedule}`: Lightning reads `lr_scheduler`."""
    entries = value.entries if isinstance(value, Mapping) and "optimizer" in value.entries else {}
    for key, given in entries.items() if "lr_scheduler" not in entries else ():
        schedule = given.entries.get("scheduler") if isinstance(given, Mapping) else given
        keys = [each for node in walk(method) if isinstance(node, ast.Dict) for each in node.keys]
        written = next((each for each in keys if isinstance(each, ast.Constant) and each.value == key), None)
        if isinstance(schedule, Scheduler) and written is not None and isinstance(key, str) and key not in READ_KEYS:
            yield Unconfigured(
                source.location(written),
                f"Lightning reads no key `{key}`, so it never steps this schedule",
                "return it under the key `lr_scheduler`",
                fails=False,
            )


def _has_none(cls: Class) -> bool:
    is_known = is_lightning_module(cls) and not cls.has_unknown_base and len(cls.library_bases) == 1
    found = cls.lookup("training_step")
    # A misspelled one is reported by its name.
    has_one = any(cls.lookup(name) for name in (CONFIGURES, *misspellings_of(CONFIGURES)))
    return is_known and not has_one and found is not None and isinstance(found[1], Function)


def unmonitored_plateaus(pipeline: Pipeline) -> Iterator[tuple[Location, str]]:
    """The schedules that wait for a value to stop falling and are returned without the name of one; their names."""
    for configured in configured_schedules(pipeline):
        settings, scheduler = configured.settings, configured.scheduler
        is_known = settings is None or (settings.is_complete and "monitor" not in settings.entries)
        is_named = any(_names_monitor(option) for option in options_of(configured.returned.value))
        if scheduler.name == PLATEAU and scheduler.origin is not None and is_known and not is_named:
            yield scheduler.origin, scheduler.name


def monitored_plateaus(pipeline: Pipeline) -> Iterator[tuple[Scheduler, str]]:
    """The schedules that wait for a value to stop falling or rising, with the name of the value where it is known."""
    for configured in configured_schedules(pipeline):
        around = [configured.settings, *options_of(configured.returned.value)]
        named = [each.entries["monitor"] for each in around if isinstance(each, Mapping) and "monitor" in each.entries]
        if configured.scheduler.name == PLATEAU and named and (watched := text_of(named[0])) is not None:
            yield configured.scheduler, watched


def _names_monitor(value: object) -> bool:
    """Whether the dictionary around an optimizer names what is monitored, or may do so."""
    return isinstance(value, Mapping) and ("monitor" in value.entries or not value.is_complete)


@dataclass(frozen=True, slots=True)
class Undivided:
    """A module's own update once every few batches, whose losses are not divided: the backward call, step, number."""

    backward: Location
    step: Location
    batches: str


def undivided_updates(pipeline: Pipeline) -> Iterator[Undivided]:
    """The updates of modules with manual optimization that add up gradients of several batches as they are."""
    seen = set[int]()
    for returned in pipeline.returned:
        method = returned.method.node
        if returned.method.name != "training_step" or id(method) in seen or not is_lightning_module(returned.cls):
            continue
        seen.add(id(method))
        nodes = list(walk(method))
        counted = [each for each in nodes if isinstance(each, ast.If) and _modulus(each.test)]
        divisors = {
            unparse(each.right if isinstance(each, ast.BinOp) else each.value)
            for each in nodes
            if isinstance(each, ast.BinOp | ast.AugAssign) and isinstance(each.op, ast.Div | ast.Mult)
        }
        source = pipeline.source_of(returned.method.origin) if returned.method.origin else pipeline.source
        optimizers = _optimizers(nodes)
        backwards = [each for each in nodes if _is_call(each, "manual_backward")]
        if len(counted) == 1 and len(backwards) == 1 and not divisors and len(optimizers) == 1:
            inside = set(walk(counted[0]))
            found = [each for each in nodes if _is_call(each, "step") and _owner(each) in optimizers]
            if found and all(each in inside for each in found) and backwards[0] not in inside:
                first, backward = found[0], backwards[0]
                if isinstance(first, ast.expr) and isinstance(backward, ast.expr):
                    batches = _modulus(counted[0].test)
                    yield Undivided(source.location(backward), source.location(first), batches)


def _is_call(node: ast.AST, method: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def _owner(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Attribute(value=value)):
            return unparse(value)
        case _:
            return ""


def _modulus(test: ast.expr) -> str:
    """The code of the number of batches in `(batch_idx + 1) % n == 0`; empty for other conditions."""
    match test:
        case ast.Compare(left=ast.BinOp(op=ast.Mod(), right=right), ops=[ast.Eq()], comparators=[ast.Constant()]):
            return unparse(right)
        case _:
            return ""
