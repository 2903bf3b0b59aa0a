"""The normalization of images for training and evaluation, as `Compose` of torchvision and albumentations has it.

Also that of the images which a pretrained network of torchvision gets.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.evaluations import EVALUATION_WORDS, TRAINING_WORDS
from lintrain.analysis.named_steps import written_step
from lintrain.analysis.training_loops import training_loops, words_of
from lintrain.interpreter.tracing import DATA
from lintrain.libraries.torch.images import steps_of
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.loading import TorchDataset
from lintrain.pipeline.values.model import Module, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Instance,
    Library,
    LibraryObject,
    Sequence,
    Value,
    is_missing,
    is_true,
    number_of,
)
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

TO_TENSOR = frozenset({"ToTensor", "ToTensorV2", "ToDtype", "PILToTensor", "ToImage"})
"""The steps that end the transforms of images for a network."""

OTHERS = frozenset(
    {"inv", "inverse", "show", "plot", "viz", "vis", "raw", "display", "denormalize", "unnormalize", "orig"}
)
"""Words in the names of transforms that are not for a network."""


@dataclass(frozen=True, slots=True)
class OtherNormalization:
    """A transform for evaluation that normalizes otherwise than the one for training: where, what, and the other."""

    location: Location
    problem: str
    other: Location


@dataclass(frozen=True, slots=True)
class _Transform:
    """A `Compose`: its call, whether it is for training, and the code of its normalization, empty without one."""

    call: ast.Call
    is_training: bool
    normalization: str


def other_normalizations(source: Source) -> list[OtherNormalization]:
    """The transforms of a file that has one for training and one for evaluation, in one place."""
    return source.cached(_other_normalizations)


def _other_normalizations(source: Source) -> list[OtherNormalization]:
    if not source.contains(r"Normalize\(") or not source.contains(r"Compose\("):
        return []
    found: list[OtherNormalization] = []
    scopes: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for scope in scopes:
        transforms = list(_transforms(source, scope.body))
        trained = [each for each in transforms if each.is_training]
        held_out = [each for each in transforms if not each.is_training]
        if len(trained) == 1:
            found += [mismatch for each in held_out if (mismatch := _compared(source, trained[0], each)) is not None]
    return found


def _compared(source: Source, train: _Transform, held_out: _Transform) -> OtherNormalization | None:
    one, other = train.normalization, held_out.normalization
    if one == other:
        return None
    if one and other:
        # Names may stand for the same numbers; other numbers are others.
        if not _are_numbers(one) or not _are_numbers(other):
            return None
        problem = "evaluation images are normalized by other numbers than training images"
    else:
        which, other_part = ("evaluation", "training") if one else ("training", "evaluation")
        problem = f"{which} images are not normalized, but {other_part} images are"
    return OtherNormalization(source.location(held_out.call), problem, source.location(train.call))


def _are_numbers(code: str) -> bool:
    return not any(isinstance(each, ast.Name) for each in walk(ast.parse(code, mode="eval").body) if each)


def _transforms(source: Source, body: list[ast.stmt]) -> Iterator[_Transform]:
    """The transforms of a block by their names, and those of a dictionary by its keys."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[target], value=ast.Dict(keys=keys, values=values)):
                texts = [each.value if isinstance(each, ast.Constant) else "" for each in keys]
                named = [(str(text), value) for text, value in zip(texts, values, strict=True)]
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
                named = [(unparse(target), value)]
            case _:
                named = []
        for name, value in named:
            transform = _transform(source, name, value)
            if transform is not None:
                yield transform


def _transform(source: Source, name: str, value: ast.expr) -> _Transform | None:
    words = words_of(name)
    is_training, is_held_out = bool(words & TRAINING_WORDS), bool(words & EVALUATION_WORDS)
    if is_training == is_held_out or words & OTHERS or not isinstance(value, ast.Call):
        return None
    if last_name(value.func) != "Compose" or not value.args or not isinstance(value.args[0], ast.List):
        return None
    steps = [written_step(source, step) for step in value.args[0].elts]
    # A step that is a name may be a normalization, and so may one of the script's own.
    if not all(map(_is_library, steps)):
        return None
    calls = [each for step in steps for each in walk(step) if isinstance(each, ast.Call)]
    names = {last_name(each.func) for each in calls}
    normalizing = [each for each in calls if last_name(each.func) == "Normalize"]
    if not names & TO_TENSOR or len(normalizing) > 1 or "Lambda" in names:
        return None
    given = normalizing[0] if normalizing else None
    code = ", ".join(unparse(each) for each in [*given.args, *(k.value for k in given.keywords)]) if given else ""
    return _Transform(value, is_training, f"({code},)" if given else "")


def _is_library(step: ast.expr) -> bool:
    """Whether a step belongs to a library: by its name, or as a part of a module."""
    match step:
        case ast.Call(func=ast.Name(id=name)):
            return name in KNOWN
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner))):
            return owner != "self"
        case _:
            return False


KNOWN = TO_TENSOR | {
    "CenterCrop", "ColorJitter", "Normalize", "Pad", "RandomAffine", "RandomCrop", "RandomErasing", "RandomGrayscale",
    "RandomHorizontalFlip", "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip", "Resize", "AutoAugment",
    "RandAugment", "TrivialAugmentWide", "GaussianBlur", "RandomPerspective", "HorizontalFlip", "VerticalFlip",
    "Rotate",
}  # fmt: skip
"""Transforms of torchvision and albumentations."""


PRETRAINED = lazy_pattern(
    r"torchvision\.models\.(?:\w+\.)?(?:(?:wide_)?res|dense|squeeze|shuffle|mobile|mnas|reg|efficient)net\w*|"
    r"torchvision\.models\.(?:\w+\.)?(?:resnext\w+|vgg\w+|alexnet|convnext\w*|swin_\w+|vit_\w+)"
)
"""Networks that learned from images with the mean and scale of ImageNet, and do not apply these themselves."""

HALF = 0.5


@dataclass(frozen=True, slots=True)
class Unprepared:
    """A data set that gives a pretrained network other images than it learned from: where, and the network."""

    location: Location
    network: Module
    is_halved: bool
    """Whether the images are normalized by 0.5, and not at all otherwise."""


def unprepared_images(pipeline: Pipeline) -> Iterator[Unprepared]:
    """The data sets of torchvision whose images reach a pretrained network as they are, in a training."""
    datasets = datasets_by_origin(pipeline)
    loops = {id(training.loop) for training in training_loops(pipeline)}
    for forward in pipeline.acts(Act.FORWARD):
        given = forward.details.get("given")
        if not isinstance(given, Tensor) or given.made is None or given.made.name != DATA:
            continue
        network, dataset = _first_network(forward), datasets.get(given.made.location)
        if network is None or dataset is None or dataset.origin is None or not loops & {*map(id, forward.loops)}:
            continue
        transform = dataset.arguments.get("transform")
        steps = steps_of(transform.value) if transform is not None else None
        normalized = [each for each in steps or () if last_part(each.path) == "Normalize"]
        if steps is not None and all(map(_is_by_halves, normalized)):
            yield Unprepared(dataset.origin, network, bool(normalized))


def datasets_by_origin(pipeline: Pipeline) -> dict[Location | None, TorchDataset]:
    """The data sets of all loaders, also those that they are parts of, by where they are made."""
    return {each.origin: each for loader in pipeline.loaders for each in _whole(loader.dataset)}


def last_part(path: str) -> str:
    """The name of a class without its module."""
    return path.rpartition(".")[2]


def _whole(dataset: Value) -> Iterator[TorchDataset]:
    """The data sets that a data set, or a part of one, takes its rows from."""
    if isinstance(dataset, TorchDataset):
        yield dataset
        for part in dataset.parts:
            yield from _whole(part)


def _is_by_halves(step: LibraryObject) -> bool:
    mean = step.arguments.get("mean", step.arguments.get("0"))
    return isinstance(mean, Sequence) and bool(mean.items) and all(number_of(each) == HALF for each in mean.items)


def _first_network(forward: Event) -> Module | None:
    """The pretrained network that a pass gives its images to: the whole one, or the first part of the script's own."""
    match forward.subject:
        case Module() as network if _is_pretrained(network):
            return network
        case Instance(cls=cls, attributes=attributes):
            own = next(
                (each for each in cls.node.body if isinstance(each, ast.FunctionDef) and each.name == "forward"), None
            )
            part = attributes.get(_part_given_input(own)) if own is not None else None
            return part if isinstance(part, Module) and _is_pretrained(part) else None
        case _:
            return None


def _part_given_input(forward: ast.FunctionDef) -> str:
    """The attribute that the first statement of a `forward` calls with its input; empty for another one."""
    names = [each.arg for each in forward.args.args]
    body = [each for each in forward.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    for node in walk(body[0]) if body else ():
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=part), args=[ast.Name(id=given)]):
                return part if given in names[1:2] else ""
            case _:
                pass
    return ""


def _is_pretrained(network: Module) -> bool:
    if not PRETRAINED.fullmatch(network.path):
        return False
    weights = network.arguments.get("weights")
    if weights is not None:
        return not is_missing(weights) and (isinstance(weights, Library) or is_true(weights))
    return is_true(network.arguments.get("pretrained", network.arguments.get("0", UNKNOWN)))
