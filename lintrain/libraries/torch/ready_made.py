"""Ready-made networks of torchvision, timm, segmentation_models_pytorch, efficientnet_pytorch, MONAI and torch.hub."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import Transfer, family, function, method, subscript_of
from lintrain.interpreter.layer_shapes import OPEN, STAGE
from lintrain.knowledge.networks import HUB_OF_TORCHVISION, MAKERS, Maker
from lintrain.libraries.torch.modules import make_module
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import is_module
from lintrain.pipeline.values.model import Module
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Library,
    LibraryObject,
    Sequence,
    Value,
    literal,
    text_of,
)
from lintrain.startup.lazy_pattern import lazy_pattern

TORCHVISION = "torchvision.models."
ANY = "any"
"""The name of a network that the script chooses by a text which is not known."""


@family("torchvision")
def _of_torchvision(path: str) -> Transfer | None:
    """`torchvision.models.resnet18(…)`, also inside `detection` and `segmentation`; names in lower case are models.

    What a class has is none: `ViT_B_16_Weights.DEFAULT.transforms()` changes images.
    """
    name = path.rpartition(".")[2]
    is_model = path.startswith(TORCHVISION) and path.islower() and not name.startswith(("get_", "__"))
    return make_module if is_model else None


@function("torchvision.models.get_model")
def _named_model(call: Call) -> Value:
    """`models.get_model("resnet18", num_classes=3)`."""
    arguments = {name: value for name, value in call.values().items() if name not in {"0", "name"}}
    return _made(call, f"{TORCHVISION}{_name_in(call.value('name', 0))}", arguments)


@subscript_of(Library)
def _chosen(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`models.__dict__[arch]`: a network of torchvision by its name, or any of them."""
    if not isinstance(value, Library) or value.path != f"{TORCHVISION}__dict__":
        return UNKNOWN
    return Library(f"{TORCHVISION}{_name_in(key)}")


def _name_in(value: Value) -> str:
    """The name of an architecture, without the owner and the tag that timm allows: `hf-hub:timm/resnet18.a1_in1k`."""
    name = text_of(value) if literal(value) is not None else None
    plain = (name or "").rpartition("/")[2].partition(".")[0].lower()
    return plain if plain.isidentifier() else ANY


@function("torch.hub.load")
def _of_hub(call: Call) -> Value:
    """`torch.hub.load("pytorch/vision", "resnet18")`: a network of torchvision; others are not known."""
    repository, name = text_of(call.value("repo_or_dir", 0)), _name_in(call.value("model", 1))
    if repository is None or not HUB_OF_TORCHVISION.fullmatch(repository):
        escape(call)
        return LibraryObject(call.path, call.values(), origin=call.location)
    package = "segmentation." if name.startswith(("deeplab", "fcn_", "lraspp")) else ""
    arguments = {name: value for name, value in call.values().items() if not name.isdecimal()}
    return _made(call, f"{TORCHVISION}{package}{name}", arguments)


def _made(call: Call, path: str, arguments: dict[str, Value]) -> Module:
    """A module of this path; networks that a script gives to its call are its parts."""
    parts = [value for value in call.values().values() if is_module(value)]
    return Module(path, parts, {**arguments, **({OPEN: UNKNOWN} if call.is_open else {})}, origin=call.location)


@function(*MAKERS)
def _of_package(call: Call) -> Value:
    """`timm.create_model("resnet18", num_classes=3)`, `smp.Unet(classes=2)`: its classes count as `num_classes`."""
    maker = MAKERS[call.path]
    if any(not _is_off(call.value(name)) for name in maker.other):
        escape(call)
        return UNKNOWN  # a list of maps, or a pair
    named = _name_in(call.value(*maker.named)) if maker.named else call.path.rpartition(".")[2]
    arguments = {name: value for name, value in call.values().items() if name not in {"classes", "out_channels"}}
    return _made(call, f"{maker.package}.{named}", {**arguments, "num_classes": _classes(call, maker)})


def _is_off(value: Value) -> bool:
    """Whether an option that changes the kind of output is certainly not set."""
    return isinstance(value, Absent) or (isinstance(value, Constant) and not value.value and not value.may_differ)


def _classes(call: Call, maker: Maker) -> Value:
    given = call.value(*maker.classes)
    if not isinstance(given, Absent):
        return given
    # A decoder has so many arguments before its classes that few give them by position; those who do are not followed.
    is_named = all(name in {"0", "1", "2"} for name in call.values() if name.isdecimal())
    return Constant(maker.default) if maker.default is not None and is_named else UNKNOWN


@method(Module, "reset_classifier")
def _reset(call: Call) -> Value:
    """A new head for another number of classes, as networks of timm have it."""
    if isinstance(call.receiver, Module):
        call.receiver.arguments["num_classes"] = call.value("num_classes", 0)
    call.reader.act(Act.REPLACE, call.location, call.receiver, name=UNKNOWN, value=UNKNOWN)
    return UNKNOWN


@method(Module, "get_classifier")
def _head(call: Call) -> Value:
    """The head of a network of timm: a part of it that is not known more closely."""
    return Module("", [call.receiver], origin=call.location)


@method(Module, "set_grad_checkpointing", "no_weight_decay", "set_swish", "set_distilled_training")
def _ask(call: Call) -> Value:
    """Methods of networks of timm and efficientnet_pytorch that run nothing."""
    return UNKNOWN


@method(Module, "children")
def _children(call: Call) -> Value:
    """The parts of a ready-made ResNet: its stages, the pooling and the head."""
    module = call.receiver
    found = RESNET.fullmatch(module.path) if isinstance(module, Module) else None
    if found is None or not isinstance(module, Module) or module.attributes.keys() - {"fc"}:
        return UNKNOWN
    wide = 1 if found["plain"] else 4
    sizes = [64, 64, 64, 64, *(maps * wide for maps in (64, 128, 256, 512))]
    # They share their weights with the network, so they count as parts without weights of their own.
    stages: list[Value] = [Module(STAGE, arguments={"maps": Constant(size)}, origin=call.location) for size in sizes]
    pool = Module("torch.nn.AdaptiveAvgPool2d", arguments={"output_size": Constant(1)}, origin=call.location)
    return Sequence([*stages, pool, UNKNOWN], "list", origin=call.location)


RESNET = lazy_pattern(r"torchvision\.models\.((?P<plain>resnet(18|34))|resnet(50|101|152)|resnext\w+|wide_resnet\w+)")
