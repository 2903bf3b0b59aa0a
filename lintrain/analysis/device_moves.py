"""Networks and batches of which only one is moved to the GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.expressions import assignment_at, escapes_of, touched_by
from lintrain.analysis.script_text import mentions
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.modules import has_parameters
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.loading import Loader, TorchDataset
from lintrain.pipeline.values.model import Module
from lintrain.pipeline.values.python import Absent, Instance, Value
from lintrain.source import places
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import unparse, walk
from lintrain.source.project_search import scripts_build_on_cpu, scripts_have
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MOVES = frozenset({"to", "cuda"})
MOVED = lazy_pattern(r"\.(to|cuda)\(")
DEVICE = lazy_pattern(r"device|cuda", re.IGNORECASE)
ON_GPU = lazy_pattern(r"cuda|gpu|torch\.accelerator", re.IGNORECASE)
IS_DEVICE = lazy_pattern(r"(?:^|[._])(?:dev|device|(?:local_)?rank|gpu|gpu_id)(?:_id)?$", re.IGNORECASE)
ON_CPU = lazy_pattern(r"""["']cpu""")
CHOOSES_DEVICE = lazy_pattern(r"(?<![\w.])device\s*(?::[^=,()\n]+)?=(?!=)|import [^\n]*\bdevice\b")
MOVES_BATCHES = (
    r"set_default_(tensor_type|device)|with torch\.device|\bAccelerator\(|(?:import|from) accelerate|deepspeed|"
    r"(?<!torch\.)\baccelerator\.|\b[Ff]abric[.(]|(?:import|from) (?:pytorch_)?lightning|\bLightning|"
    r"\bxla(?:\b|_)|torch_xla|\bhpu\b"
)
"""Code after which the parts of a batch may be anywhere."""

MOVES_OTHERWISE = rf"{MOVES_BATCHES}|DataParallel|DistributedDataParallel|map_location|torch\.load\(|jit\.load"
"""Code after which a network or its inputs may be anywhere."""

LOADER = lazy_pattern(r"load|batch|_dl\b|^dl$|enumerate|tqdm|data", re.IGNORECASE)
ONLY_READS = lazy_pattern(r"(?:^|\.)(?:watch|print|info|add_graph|\w*summary|(?:count|get|num|print)_\w*param\w*)$")
MADE_BY_TORCH = lazy_pattern(r"^torch\.|^F\.|^np\.")
APART = ("to be on the same device", "are not at the same device", "is not on the expected device")
"""The errors of torch about tensors on two devices that are used together."""
SHAPES = frozenset({"view", "reshape", "flatten", "float", "long", "unsqueeze", "squeeze", "permute", "contiguous"})
"""Methods that leave a tensor where it is."""


@dataclass(frozen=True, slots=True)
class Apart:
    """A call of a network with a batch on another device: where, and whether the network is the one that was moved."""

    location: Location
    name: str
    is_network_moved: bool
    other: Location | None


def apart(pipeline: Pipeline) -> Iterator[Apart]:
    """The forward passes of a training in which only the network, or only the batch, was moved."""
    if pipeline.source.contains(MOVED):
        yield from (each for each in _apart(pipeline) if not mentions(pipeline, MOVES_OTHERWISE))


def _apart(pipeline: Pipeline) -> Iterator[Apart]:
    for event in pipeline.acts(Act.FORWARD):
        module = event.subject
        if not isinstance(module, Module | Instance) or not event.loops or not has_parameters(module):
            continue
        names = _names_of(pipeline, module, event.location)
        batch = _batch_moved(pipeline, event) if names else None
        if batch is None:
            continue
        network = _network_moved(pipeline, event, module, names)
        if network is not None and network != batch:
            yield Apart(event.location, names[0], network, module.origin)


def _names_of(pipeline: Pipeline, module: Value, called: Location) -> list[str]:
    """The names and attributes of a network, the one that is called here included."""
    names = [binding.name for binding in pipeline.names_of(module)]
    made = assignment_at(pipeline, module.origin) if module.origin else None
    call = places.call_at(pipeline.source_of(called), called)
    spelled = [unparse(call.func)] if call is not None else []
    return list(dict.fromkeys([*names, *([target.code for target in made.targets] if made else []), *spelled]))


def _network_moved(pipeline: Pipeline, event: Event, module: Value, names: list[str]) -> bool | None:
    """Whether a network is on a GPU at a forward pass, as its last move says; None if that is not known."""
    if module.origin is None or any(not _only_reads(pipeline, each) for each in escapes_of(pipeline, module)):
        return None
    moves = pipeline.acts(Act.TO_DEVICE)
    own = [each for each in moves if id(module) in touched_by(pipeline, each.subject)]
    if own:
        before = [each.location for each in own if each.order < event.order]
        return True if before and _is_move_to_gpu(pipeline, before[-1]) else None
    if DEVICE.search(pipeline.code(module.origin)):
        return None
    followed = {each.location for each in moves}
    for each in pipeline.sources.values():
        for call in each.nodes_of(ast.Call):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in MOVES:
                continue
            owner = call.func.value
            # What is moved here is another network, a tensor, or not followed: then it could be this one.
            if each.location(call) not in followed and (unparse(owner) in names or not _is_tensor(each, owner)):
                return None
    return False


def _only_reads(pipeline: Pipeline, escape: Event) -> bool:
    """Whether unknown code that gets a network only shows, counts or writes it."""
    call = places.call_at(pipeline.source_of(escape.location), escape.location)
    return call is not None and ONLY_READS.search(unparse(call.func)) is not None


def _is_move_to_gpu(pipeline: Pipeline, location: Location) -> bool:
    source = pipeline.source_of(location)
    call = places.call_at(source, location)
    return call is not None and _goes_to_gpu(source, call)


def _is_tensor(source: Source, owner: ast.expr) -> bool:
    """Whether what is moved is certainly a tensor: made by torch, or part of what a loop gets from a loader."""
    while isinstance(owner, ast.Subscript) or (isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute)):
        if isinstance(owner, ast.Call) and MADE_BY_TORCH.search(unparse(owner.func)):
            return True
        owner = owner.value if isinstance(owner, ast.Subscript) else owner.func.value  # type: ignore[attr-defined]
    return isinstance(owner, ast.Name) and owner.id in source.cached(_batch_names)


def _batch_names(source: Source) -> frozenset[str]:
    """The names that loops over loaders bind, and those that calls of torch are assigned to."""
    found: set[str] = set()
    for node in source.nodes_of(ast.For, ast.comprehension, ast.Assign):
        match node:
            case ast.For(target=target, iter=over) | ast.comprehension(target=target, iter=over):
                if LOADER.search(unparse(over)):
                    found |= {each.id for each in walk(target) if isinstance(each, ast.Name)}
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=callee)):
                found |= {name} if MADE_BY_TORCH.search(unparse(callee)) else set()
            case _:
                pass
    for function in source.nodes_of(ast.FunctionDef):
        found |= {each.arg for each in function.args.args[1:]} if function.name == "forward" else set()
    for node in source.nodes_of(ast.Assign):  # `x, y = batch`, and items of it
        if isinstance(node.value, ast.Name | ast.Subscript) and unparse(node.value).partition("[")[0] in found:
            found |= {each.id for target in node.targets for each in walk(target) if isinstance(each, ast.Name)}
    return frozenset(found)


def _goes_to_gpu(source: Source, call: ast.Call) -> bool:
    """Whether a move goes to a GPU, at least on a machine that has one."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "device")]
    code = unparse(given[0]) if given else ""
    # A device that a function gets is what its callers choose: on a machine with a GPU that one.
    known = _devices_in(source, code)
    is_parameter = code == "device" and not source.contains(CHOOSES_DEVICE) and not ON_CPU.search(known)
    return is_parameter or ON_GPU.search(known) is not None


def goes_to_device(source: Source, call: ast.Call) -> bool:
    """Whether a move goes to a device that is not certainly the CPU: its name, an option or attribute, or `rank`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "device")]
    code = unparse(given[0]) if given else ""
    if not IS_DEVICE.search(code):
        return _goes_to_gpu(source, call)
    known = _devices_in(source, code)
    return ON_GPU.search(known) is not None or not ON_CPU.search(known)


def _devices_in(source: Source, code: str) -> str:
    """Some code, with that of the values of its names that are about devices, and of theirs: `self.device = device`."""
    values, found = source.cached(_device_values), [code]
    for known in found:
        found += [values[name] for name in re.findall(r"[\w.]+", known) if name in values and values[name] not in found]
    return " ".join(found)


def _device_values(source: Source) -> dict[str, str]:
    """The code of all that names about devices are given by assignments and calls, else the defaults of parameters."""
    found: dict[str, str] = {}
    given: dict[str, str] = {}
    for function in source.nodes_of(ast.FunctionDef):
        arguments = [*function.args.args[len(function.args.args) - len(function.args.defaults) :]]
        found |= {
            each.arg: unparse(default)
            for each, default in zip(arguments, function.args.defaults, strict=True)
            if "device" in each.arg and isinstance(default, ast.Constant) and default.value is not None
        }
    for parameter, argument in _device_arguments(source):
        given[parameter] = f"{given.get(parameter, '')} {unparse(argument)}"
    for node in source.nodes_of(ast.Assign):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if "device" in (code := unparse(name)):
                    given[code] = f"{given.get(code, '')} {unparse(value)}"
    return found | given


def _device_arguments(source: Source) -> Iterator[tuple[str, ast.expr]]:
    """What the calls of a file give to parameters about devices: `train(net, "cpu")` of `def train(net, device)`."""
    functions = {each.name: each for each in source.nodes_of(ast.FunctionDef) if "device" in unparse(each.args)}
    for call in calls_of(source, functions):
        called = functions[last_name(call.func)]
        names = [each.arg for each in called.args.args if each.arg != "self"]
        given = [*zip(names, call.args, strict=False), *((each.arg, each.value) for each in call.keywords)]
        yield from ((name, value) for name, value in given if name and "device" in name and unparse(value) != name)


def _batch_moved(pipeline: Pipeline, event: Event) -> bool | None:
    """Whether the batch of a forward pass was moved to a GPU; None if that is not known."""
    source = pipeline.source_of(event.location)
    call = places.call_at(source, event.location)
    if call is None:
        return None
    given = [*call.args, *(each.value for each in call.keywords)]
    moved = [_part_moved(pipeline, source, event, each) for each in given]
    if any(moved):
        return True
    return False if moved == [False] and not call.keywords else None


def _part_moved(pipeline: Pipeline, source: Source, event: Event, given: ast.expr) -> bool | None:
    """The same for one of the values that a forward pass gets."""
    if isinstance(given, ast.Starred | ast.Subscript):
        given = given.value  # all parts of a batch, or one of them
    while isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute):
        if given.func.attr in MOVES:
            return True if goes_to_device(source, given) else None
        if given.func.attr not in SHAPES:
            return None
        given = given.func.value
    return _name_moved(pipeline, source, event, given.id) if isinstance(given, ast.Name) else None


def _name_moved(pipeline: Pipeline, source: Source, event: Event, name: str) -> bool | None:
    loop = event.loops[-1]
    scope = blocks.scope_of(pipeline, event.location)
    located = [node for node in walk(scope) if isinstance(node, ast.Assign | ast.Name)]
    inside = [node for node in located if loop.location.holds(source.location(node))]
    for node in inside:
        if isinstance(node, ast.Assign) and node.lineno <= event.location.line:
            moved = assigned_move(node, name)
            if moved is not None:
                return True if goes_to_device(source, moved) else None
    stored = [node for node in inside if isinstance(node, ast.Name) and node.id == name]
    is_plain = sum(isinstance(node.ctx, ast.Store) for node in stored) == 1
    is_given = any(
        isinstance(node, ast.For)
        and source.location(node) == loop.location
        and any(isinstance(each, ast.Name) and each.id == name for each in walk(node.target))
        for node in walk(scope)
    )
    return False if is_plain and is_given and _gives_cpu_rows(pipeline, loop.over) else None


def assigned_move(node: ast.Assign, name: str) -> ast.Call | None:
    """The move whose result a statement assigns to a name: `x, y = x.to(device), y.to(device)`."""
    for target in node.targets:
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        elif isinstance(target, ast.Tuple):
            pairs = [(each, node.value) for each in target.elts]
        for left, right in pairs:
            right = _each_item(right)
            while isinstance(right, ast.Call) and isinstance(right.func, ast.Attribute):
                if right.func.attr in MOVES and unparse(left) == name:
                    return right
                right = right.func.value
    return None


def _each_item(node: ast.expr) -> ast.expr:
    """What a comprehension over the parts of a batch makes of each: `[part.to(device) for part in batch]`."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"tuple", "list"}
        and node.args
    ):
        node = node.args[0]
    match node:
        case ast.ListComp(elt=item) | ast.GeneratorExp(elt=item) | ast.DictComp(value=item):
            return item
        case _:
            return node


def _gives_cpu_rows(pipeline: Pipeline, over: Value) -> bool:
    """Whether a loop goes through a loader whose rows are certainly on the CPU."""
    if not isinstance(over, Loader) or not isinstance(over.collate, Absent):
        return False
    rows = over.dataset
    if isinstance(rows, TorchDataset) and rows.path.startswith("torchvision."):
        return True
    code = pipeline.code(rows.origin) if rows.origin else "device"
    names = [name for name in re.findall(r"\b[A-Za-z_]\w*", code) if not name.startswith(("Tensor", "torch"))]
    is_moved = any(mentions(pipeline, rf"\b{name}\b[^\n]*(device|cuda)") for name in names)
    return isinstance(rows, TorchDataset) and not re.search(r"device|cuda", code) and not is_moved


MOVED_TO = lazy_pattern(r"\.to\((?:device\s*=\s*)?(\w+)\)\s*$")


def may_stay(source: Source, owner: str, made: Location) -> bool:
    """Whether a constructor moves what it makes to a device that it is given, and a script gives it the CPU."""
    moved = MOVED_TO.search(source.code(made))
    cls = next((node for node in source.nodes_of(ast.ClassDef) if node.name == owner), None)
    given = {part.arg for part in walk(cls) if isinstance(part, ast.arg)} if cls is not None else set[str]()
    return moved is not None and moved[1] in given and scripts_build_on_cpu(source.path, owner)


def is_used(pipeline: Pipeline, location: Location) -> bool:
    """Whether code is in no method that nothing in the project names: of such a one no argument was ever moved."""
    scope = blocks.scope_of(pipeline, location)
    source = pipeline.source_of(location)
    is_method = isinstance(scope, ast.FunctionDef) and any(scope in each.body for each in source.nodes_of(ast.ClassDef))
    if not isinstance(scope, ast.FunctionDef) or not is_method or scope.decorator_list or scope.name in CALLED_BY_TORCH:
        return True
    return source.contains(rf"\.{scope.name}\b") or scripts_have(source.path, rf"\.{scope.name}\b")


CALLED_BY_TORCH = frozenset({"forward", "__init__", "__call__", "__getitem__", "training_step", "validation_step"})
"""Methods that code calls without naming them."""
