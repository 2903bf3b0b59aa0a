"""Modules of torch: what they contain, whether they have weights, and whether train and eval mode differ in one."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache

from lintrain.knowledge.networks import READY_MADE, certainly_differs
from lintrain.knowledge.trainers import TRAINER, TRAINING_ARGUMENTS, is_training_arguments, trainer_parameters
from lintrain.pipeline.values.model import Model, ModelPart, Module
from lintrain.pipeline.values.python import (
    Class,
    Constant,
    Either,
    Instance,
    LibraryObject,
    Mapping,
    Sequence,
    Unknown,
    Value,
)
from lintrain.source.nodes import unparse, walk
from lintrain.startup.lazy_pattern import lazy_pattern

MODULE = "torch.nn.Module"

LEAVES_GRAPH = lazy_pattern(r"detach|_grad\b|_grad_|inference_mode|\.data\b|\.item\(|numpy|argmax|round")
"""Code that takes a tensor off autograd's graph, or may."""

MOST_PARTS = 400
"""Parts of a module that are looked at."""

CALM = lazy_pattern(
    r"(Lazy)?(Conv(Transpose)?\dd|Linear|Bilinear)|(Adaptive)?(Avg|Max|LP)Pool\dd|MaxUnpool\dd|(Group|Layer|RMS)Norm|"
    r"Embedding(Bag)?|(Zero|Reflection|Replication|Constant|Circular)Pad\dd|Pixel(Unshuffle|Shuffle)|Upsample\w*|"
    r"Identity|Flatten|Unflatten|Fold|Unfold|Sequential|ModuleList|ModuleDict|"
    r"[CS]?ELU|PReLU|(Leaky)?ReLU6?|GELU|GLU|SiLU|Mish|(Log)?Softmax|(Log|Hard)?[Ss]igmoid|"
    r"(Hard)?[Tt]anh|Hardswish|Softplus|Softsign|Softmin|Softmax2d|(Hard|Soft|Tanh)shrink|Threshold|\w+Loss(\dd)?|"
    r"(RNN|LSTM|GRU)Cell|CosineSimilarity|PairwiseDistance|ChannelShuffle|LocalResponseNorm|FractionalMaxPool\dd"
)
"""Classes of `torch.nn` that do the same in train mode as in eval mode."""

QUIET_WITHOUT_DROPOUT = frozenset({"RNN", "LSTM", "GRU", "MultiheadAttention"})
"""Classes that only differ between the modes when they are given a dropout."""


WITH_PARAMETERS = lazy_pattern(
    r"torch\.nn\.((Lazy)?(Conv(Transpose)?\dd|Linear)|Bilinear|Embedding(Bag)?|(Group|Layer|RMS)Norm|"
    r"(Lazy|Sync)?BatchNorm(\dd)?|RNN|LSTM|GRU|(RNN|LSTM|GRU)Cell|MultiheadAttention|Transformer\w*|PReLU)"
)
"""Layers of torch that have weights to learn."""

TRANSFORMERS_MODULE = lazy_pattern(r"transformers\.\w*(PreTrainedModel|Model|For[A-Z]\w+)$")


def lineage_of(paths: Iterable[str]) -> Iterator[str]:
    """Library classes by their dotted names, each followed by the class that stands for all of its kind.

    These are `torch.nn.Module`, `transformers.Trainer` and `transformers.TrainingArguments`.
    """
    for path in paths:
        yield path
        if _derives_from_module(path):
            yield MODULE
        elif path != TRAINER and trainer_parameters(path):
            yield TRAINER
        elif path != TRAINING_ARGUMENTS and is_training_arguments(path):
            yield TRAINING_ARGUMENTS


def _derives_from_module(path: str) -> bool:
    match path.partition(".")[0]:
        case "torch":
            package, _, name = path.rpartition(".")
            return package == "torch.nn" and name[:1].isupper() and path != MODULE
        case "transformers":
            return TRANSFORMERS_MODULE.match(path) is not None
        case _:
            return path == "lightning.LightningModule"


def is_module(value: Value) -> bool:
    """Whether a value is certainly a module of torch."""
    if isinstance(value, Instance):
        return MODULE in lineage_of(value.cls.library_bases)
    return isinstance(value, Module) or (isinstance(value, Model) and value.framework == "torch")


def is_module_class(cls: Class) -> bool:
    """Whether a class of the script makes modules."""
    return MODULE in lineage_of(cls.library_bases)


def modules_in(value: Value) -> Iterator[Value]:
    """A value and everything inside it that may be a module, each once, the outermost first.

    Of a large model the innermost layers are left out: a script speaks of `model.encoder`, seldom of what is in it.
    """
    pending, seen = deque([value]), set[int]()
    while pending and len(seen) < MOST_PARTS:
        part = pending.popleft()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        pending.extend(_parts(part))


HOLDERS = (Instance, Module, ModelPart, Sequence, Mapping, Either)
"""What has parts."""


def _parts(value: Value) -> list[Value]:
    match value:
        case Instance():
            return list(value.attributes.values())
        case Module():
            return [*value.parts, *value.attributes.values()]
        case ModelPart():
            return [value.model]
        case Sequence():
            return value.items
        case Mapping():
            return list(value.entries.values())
        case Either():
            return list(value.options)
        case _:
            return []


def overlap(one: Value, other: Value) -> bool:
    """Whether two modules share anything, so that a mode set on one may show in the other."""
    if not _parts(one) and not _parts(other):  # most models: a script of many compares each with each
        return one is other and _can_be_shared(one)
    return not shared_parts(one).isdisjoint(shared_parts(other))


def shared_parts(value: Value) -> frozenset[int]:
    """The identities of what a value holds, itself included, that other modules may hold too."""
    if not isinstance(value, HOLDERS):  # most values that events concern
        return frozenset((id(value),)) if _can_be_shared(value) else frozenset()
    return frozenset(id(part) for part in modules_in(value) if _can_be_shared(part))


def _can_be_shared(part: Value) -> bool:
    """The one nameless Unknown stands for many things, and a literal belongs to no module."""
    return isinstance(part, Instance | Module | Model) or (isinstance(part, Unknown) and bool(part.name))


PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})


def ignores_mode(value: Value) -> bool:
    """Whether a module certainly does the same in train mode and in eval mode."""
    parts = list(modules_in(value))
    return is_module(value) and len(parts) < MOST_PARTS and all(_part_ignores_mode(part) for part in parts)


def _part_ignores_mode(part: Value) -> bool:
    match part:
        case Instance():
            return not part.cls.has_unknown_base and not any(
                _speaks_of_modes(owner.node, part) for owner in part.cls.lineage()
            )
        case Module():
            return _module_ignores_mode(part)
        case Sequence() | Mapping():
            return part.is_complete
        case LibraryObject():
            return part.path in PARAMETERS
        case Model() | ModelPart() | Unknown() | Either():
            return False
        case _:
            return True


def _speaks_of_modes(node: ast.ClassDef, made: Instance) -> bool:
    words = ("drop", "training", "norm", "bn")
    return any(word in name.lower() for name in _own_names(node, made) for word in words)


def _own_names(node: ast.ClassDef, made: Instance) -> Iterator[str]:
    """The names in a class that say something about one object of it: not those of layers that it does not have.

    Of `if norm == "batch": self.norm = nn.BatchNorm2d(8)`, an object that was made without has no such attribute.
    """
    stores = [each for each in walk(node) if isinstance(each, ast.Assign) and made.attributes]
    missing = [each for each in stores if _attributes(each) and made.attributes.keys().isdisjoint(_attributes(each))]
    unset = {name for each in missing for name in _attributes(each)}
    left_out = {id(part) for each in missing for part in walk(each)} | _asked_for(node)
    unset |= made.switched_off
    left_out |= _switched_off(node, made.switched_off)
    for part in walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) | ast.Name(id=name) if name in unset:
                pass
            case ast.Attribute(attr=name) | ast.Name(id=name) if id(part) not in left_out:
                yield name
            case _:
                pass


def _switched_off(node: ast.ClassDef, off: frozenset[str]) -> set[int]:
    """What a class does not build or run if parameters are 0 or False: `if rate > 0:`, and `nn.Dropout(rate)`."""
    found: list[ast.AST] = []
    for each in walk(node) if off else ():
        match each:
            case ast.If(test=test, body=body) if _name_in(test) in off:
                found += body
            case ast.IfExp(test=test, body=chosen) if _name_in(test) in off:
                found.append(chosen)
            case ast.Call(args=args, keywords=keywords):
                given = (*args, *(keyword.value for keyword in keywords))
                found += [each] if any(_name_in(value) in off for value in given) else []
            case _:
                pass
    return {id(part) for each in found for part in walk(each)}


def _name_in(node: ast.expr) -> str:
    """The name in `rate`, `self.rate`, `rate > 0` and `rate is not None`; empty for anything else."""
    match node:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case ast.Compare(
            left=left, ops=[ast.Gt() | ast.NotEq() | ast.IsNot()], comparators=[ast.Constant(value=value)]
        ):
            return "" if value else _name_in(left)
        case _:
            return ""


def _asked_for(node: ast.ClassDef) -> frozenset[int]:
    """The classes in `isinstance(layer, nn.BatchNorm2d)`: who sets up all kinds of layers need not have this one."""
    tests = (each for each in walk(node) if isinstance(each, ast.Call) and len(each.args) == 2)
    asked = (each for each in tests if isinstance(each.func, ast.Name) and each.func.id == "isinstance")
    return frozenset(id(part) for each in asked for part in walk(each.args[1]))


def _attributes(node: ast.Assign) -> list[str]:
    """The attributes of `self` that a statement assigns, if it assigns nothing else."""
    found = [
        each.attr
        for each in node.targets
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
    ]
    return found if len(found) == len(node.targets) else []


def _module_ignores_mode(module: Module) -> bool:
    if not module.path.startswith("torch.nn."):
        return False
    dropout = module.arguments.get("dropout")
    if module.name in QUIET_WITHOUT_DROPOUT:
        return dropout is None or (isinstance(dropout, Constant) and dropout.value == 0)
    if module.name.startswith("InstanceNorm"):
        tracks = module.arguments.get("track_running_stats", module.arguments.get("4", Constant(False)))
        return isinstance(tracks, Constant) and not tracks.value
    if module.name.startswith("Dropout"):
        rate = module.arguments.get("p", module.arguments.get("0"))
        return isinstance(rate, Constant) and rate.value == 0  # what an option is by default counts
    return CALM.fullmatch(module.name) is not None


DIFFERS = lazy_pattern(r"drop_?(out|path|block)|batch_?norm|(^|_)(sync_?)?bn(_?\d*|_.*)$|^training$", re.IGNORECASE)
"""Names that a class uses if it has dropout or batch normalization, or asks for its own mode."""


@lru_cache(maxsize=4096)
def _differs(name: str) -> bool:
    return DIFFERS.search(name) is not None


def _names_in(node: ast.ClassDef) -> Iterator[str]:
    asked = _asked_for(node)
    for part in walk(node):
        if id(part) in asked:
            continue
        if isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Name):
            yield part.id


def differs_by_mode(value: Value) -> bool:
    """Whether a part of a module certainly differs between train and eval mode; what is unknown is no such part."""
    parts = list(modules_in(value))
    # `vgg19().features[:-1]`: what drops out there is in the classifier.
    taken_out = {id(inner) for part in parts if isinstance(part, Module) and not part.path for inner in part.parts}
    return any(_part_differs(part) and not (id(part) in taken_out and _has_calm_features(part)) for part in parts)


CALM_FEATURES = lazy_pattern(r"torchvision\.models\.(?:alexnet|vgg\d+)$")


def _has_calm_features(part: Value) -> bool:
    return isinstance(part, Module) and CALM_FEATURES.match(part.path) is not None


def _part_differs(part: Value) -> bool:
    match part:
        case Instance():
            nodes = [owner.node for owner in part.cls.lineage()]
            owners = [node for node in nodes if any(map(_differs, _names_in(node)))]
            return any(_differs(name) for owner in owners for name in _own_names(owner, part)) or any(
                _asks_for_dropout(node, part.switched_off) for node in nodes
            )
        case Module():
            if part.path.startswith("torch.nn."):
                return not _module_ignores_mode(part)
            return part.path.startswith(READY_MADE) and certainly_differs(part.path, part.arguments)
        case Model():
            return True
        case _:
            return False


def _asks_for_dropout(node: ast.ClassDef, off: frozenset[str]) -> bool:
    """Whether a class gives a rate to a layer of a library: `GATConv(8, 8, dropout=0.6)`; layers of torch are parts."""
    calls = (each for each in walk(node) if isinstance(each, ast.Call) and each.keywords)
    given = (each for call in calls if not unparse(call.func).startswith(("nn.", "torch.")) for each in call.keywords)
    rates = (each.value for each in given if each.arg == "dropout")
    return any(not _is_nothing(rate) and _name_in(rate) not in off for rate in rates)


def _is_nothing(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def only_computes(layer: Module) -> bool:
    """Whether calling a layer of torch certainly does nothing but give a result, and leaves its input as it is."""
    inplace = layer.arguments.get("inplace", Constant(False))
    switches = [value for value in layer.arguments.values() if isinstance(value, Constant) and value.value is True]
    is_known = layer.name.startswith("Dropout") or CALM.fullmatch(layer.name) is not None
    holds_others = layer.name in {"Sequential", "ModuleList", "ModuleDict"} or layer.name.endswith("Loss")
    is_copy = isinstance(inplace, Constant) and not switches
    return layer.path.startswith("torch.nn.") and is_known and is_copy and not holds_others


WEIGHT = "part"
"""Under what a weight that is read from a layer holds its name, among the arguments of a module without a path."""


def weight_of(value: Value) -> tuple[Module, str] | None:
    """The layer of torch and the name of its `weight` or `bias`, for a value that is one or an item of one."""
    while isinstance(value, Module) and not value.path and len(value.parts) == 1:
        layer, name = value.parts[0], value.arguments.get(WEIGHT)
        if isinstance(name, Constant):
            is_weight = isinstance(name.value, str) and name.value in {"weight", "bias"}
            if is_weight and isinstance(layer, Module) and WITH_PARAMETERS.fullmatch(layer.path):
                return layer, str(name.value)
            return None
        value = layer
    return None


def is_method_of_weight(value: Value) -> bool:
    """Whether a value is a method of a weight or of its gradient: `layer.weight.std`, `layer.weight.grad[0].norm`."""
    names = list[str]()
    while isinstance(value, Module) and not value.path and len(value.parts) == 1:
        name = value.arguments.get(WEIGHT)
        names += [str(name.value)] if isinstance(name, Constant) else []
        value = value.parts[0]
    return not TENSORS_OF_LAYERS.isdisjoint(names[1:])


TENSORS_OF_LAYERS = frozenset({"bias", "data", "grad", "weight"})
"""Attributes of layers and of their weights that are tensors."""


def has_parameters(value: Value) -> bool:
    """Whether a value is certainly a module with weights of its own."""
    if not is_module(value):
        return False
    parts = list(modules_in(value))
    return any(_has_weights(part) for part in parts)


def _has_weights(part: Value) -> bool:
    match part:
        case Module():
            given = (part.arguments.get(name) for name in ("affine", "elementwise_affine"))
            is_plain = any(isinstance(each, Constant) and each.value is False for each in given)
            is_ready = part.path.startswith(READY_MADE)
            return is_ready or (WITH_PARAMETERS.fullmatch(part.path) is not None and not is_plain)
        case Model():
            return True
        case LibraryObject():
            return part.path in PARAMETERS and not _is_fixed(part)
        case _:
            return False  # the attributes of an instance are looked at themselves


def _is_fixed(parameter: LibraryObject) -> bool:
    trains = parameter.arguments.get("requires_grad", parameter.arguments.get("1"))
    return isinstance(trains, Constant) and trains.value is False
