"""Modules of torch: what they contain, whether they have weights, and whether train and eval mode differ in one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from lintrain.knowledge.networks import READY_MADE
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
            return [*value.any_of, *value.attributes.values()]
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
