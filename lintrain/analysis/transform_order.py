"""Transforms of images in an order, or on a kind of image, that torchvision refuses.

`Normalize` reads a tensor and `ToTensor` makes one of an image, so the first cannot come before the second. Arrays
that `cv2` or `skimage` read are no images of PIL, which a list that begins with a crop or a flip requires.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.named_steps import written_step
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MAKES_TENSORS = frozenset({"ToTensor", "PILToTensor"})
READS_TENSORS = frozenset({"Normalize", "RandomErasing", "ConvertImageDtype"})
READS_IMAGES = frozenset(
    {"CenterCrop", "ColorJitter", "Grayscale", "Pad", "RandomAffine", "RandomCrop", "RandomGrayscale", "Resize"}
    | {"RandomHorizontalFlip", "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip", "Scale", "RandomSizedCrop"}
)
"""Transforms of torchvision that take an image of PIL, or a tensor."""

READS_ARRAYS = frozenset(
    {"cv2.imread", "io.imread", "skimage.io.imread", "imageio.imread", "plt.imread", "mpimg.imread"}
)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A transform that refuses what it gets: where, its name, and that of the one that has to come first."""

    location: Location
    name: str
    first: str


@dataclass(frozen=True, slots=True)
class ArrayGiven:
    """A data set whose transforms get an array: where, the function that reads it, and the first transform."""

    location: Location
    reader: str
    first: str


def misplaced(source: Source) -> Iterator[Misplaced]:
    """The transforms that read a tensor before another of the same list makes one, or make one of a tensor."""
    for items in _lists(source):
        names = [_name_of(source, item) for item in items]
        if "ToPILImage" in names or any(name in {"Lambda", ""} for name in names):
            continue
        made = next((at for at, name in enumerate(names) if name in MAKES_TENSORS), None)
        for at, name in enumerate(names if made is not None else []):
            if made is not None and name in READS_TENSORS and at < made:
                yield Misplaced(source.location(items[at]), name, names[made])
            elif made is not None and name == "ToTensor" and at > made:
                yield Misplaced(source.location(items[at]), name, "")


def without_tensors(source: Source) -> Iterator[Location]:
    """The lists of transforms that make no tensor of the images of a data set of torchvision."""
    loaders = [call for call in source.nodes_of(ast.Call) if last_name(call.func) == "DataLoader"]
    if (
        not loaders
        or "collate_fn" in source.text
        or ".transforms." in source.text.replace("torchvision.transforms.", "")
    ):
        return
    lists = {source.location(call): call for call in source.nodes_of(ast.Call) if _keeps_images(source, call)}
    named = {
        unparse(node.targets[0]): node.value
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and source.location(node.value) in lists
    }
    bound = [unparse(node.targets[0]) for node in source.nodes_of(ast.Assign)]
    for call in source.nodes_of(ast.Call):
        given = next((each.value for each in call.keywords if each.arg == "transform"), None)
        if given is None or not DATASETS.match(unparse(call.func)):
            continue
        found = named.get(unparse(given), given) if bound.count(unparse(given)) <= 1 else given
        if isinstance(found, ast.Call) and source.location(found) in lists:
            yield source.location(found)


DATASETS = lazy_pattern(r"(torchvision\.)?datasets\.[A-Z]\w*$")


def _keeps_images(source: Source, call: ast.Call) -> bool:
    """Whether a list has transforms of torchvision only, all of which give an image for an image."""
    match call:
        case ast.Call(args=[ast.List(elts=[_, *_] as items)]) if last_name(call.func) == "Compose":
            return all(_name_of(source, item) in READS_IMAGES for item in items)
        case _:
            return False


def arrays_given(source: Source) -> Iterator[ArrayGiven]:
    """The data sets that read arrays and hand them to transforms of images."""
    starts = dict(_first_transforms(source))
    readers = {cls.name: found for cls in source.nodes_of(ast.ClassDef) if (found := _read_for_transform(cls))}
    calls = (node for node in source.nodes_of(ast.Call) if isinstance(node.func, ast.Name) and node.func.id in readers)
    seen = set[str]()
    for call in calls:
        name = last_name(call.func)
        given = [each.value for each in call.keywords if "transform" in (each.arg or "")] + call.args
        first = next((starts[each.id] for each in given if isinstance(each, ast.Name) and each.id in starts), "")
        if first in READS_IMAGES and name not in seen:
            seen.add(name)
            node, reader = readers[name]
            yield ArrayGiven(source.location(node), reader, first)


def _lists(source: Source) -> Iterator[list[ast.expr]]:
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(args=[ast.List(elts=items)]) if last_name(call.func) == "Compose":
                yield items
            case _:
                pass


def _name_of(source: Source, item: ast.expr) -> str:
    """The name of a transform of torchvision, empty for one of another library or of the script's own."""
    match written_step(source, item):
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return name if unparse(owner) in source.cached(_owners) else ""
        case ast.Call(func=ast.Name(id=name)):
            return name if f"{name}()" in source.cached(_owners) else ""
        case _:
            return ""


def _owners(source: Source) -> frozenset[str]:
    """What stands before the transforms of torchvision, and the transforms that are imported themselves."""
    found = {"torchvision.transforms", "transforms"} if source.is_partial else {"torchvision.transforms"}
    for node in source.nodes_of(ast.ImportFrom):
        for alias in node.names:
            if node.module == "torchvision" and alias.name == "transforms":
                found.add(alias.asname or alias.name)
            elif node.module == "torchvision.transforms":
                found.add(f"{alias.asname or alias.name}()")
    for imported in source.nodes_of(ast.Import):
        found |= {each.asname for each in imported.names if each.name == "torchvision.transforms" and each.asname}
    return frozenset(found)


def _first_transforms(source: Source) -> Iterator[tuple[str, str]]:
    """The names of lists of transforms, each with the name of its first one."""
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=func, args=[ast.List(elts=[first, *_])]),
            ) if last_name(func) == "Compose":
                yield name, _name_of(source, first)
            case _:
                pass


def _read_for_transform(cls: ast.ClassDef) -> tuple[ast.Call, str] | None:
    """The call of `self.transform(image)` on an array as it was read, and the function that read it."""
    read = dict[str, str]()
    statements = [node for method in cls.body if isinstance(method, ast.FunctionDef) for node in walk(method)]
    for node in statements:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func)) if name not in read:
                if unparse(func) in READS_ARRAYS:
                    read[name] = unparse(func)
            case _:
                pass
    changed = {
        node.targets[0].id
        for node in statements
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and "Image" in unparse(node.value)
    }
    for node in statements:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr="transform"), args=[ast.Name(id=name)]):
                if name in read and name not in changed:
                    return node, read[name]
            case _:
                pass
    return None


MOVES = frozenset(
    {"RandomHorizontalFlip", "RandomVerticalFlip", "RandomCrop", "RandomResizedCrop", "RandomRotation", "RandomAffine"}
    | {"RandomPerspective"}
)
"""Transforms that move the pixels of an image at random."""

MASK = lazy_pattern(r"mask|label|lbl|seg|target|\bgt|_gt|ground|annot|depth", re.IGNORECASE)
SEEDS = lazy_pattern(r"seed\(|rng_state|get_params")
"""Names of images that belong to another one, and code that repeats the random numbers."""


@dataclass(frozen=True, slots=True)
class Unpaired:
    """A mask that is moved at random by itself: where, its code, where its image is transformed, and how."""

    location: Location
    mask: str
    image: Location
    transform: str


def unpaired(source: Source) -> Iterator[Unpaired]:
    """The masks that get the random transform of their images in a call of their own."""
    moving = source.cached(_moving_transforms)
    for cls in source.nodes_of(ast.ClassDef) if moving else ():
        methods = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
        own = {f"self.{name}": move for name, move in _moving_attributes(source, cls, moving).items()}
        for method in methods:
            if method.name == "__getitem__" and not SEEDS.search(unparse(method)):
                yield from _apart(source, method, own | moving)


def _apart(source: Source, method: ast.FunctionDef, moving: dict[str, str]) -> Iterator[Unpaired]:
    """The calls of one transform on an image, and by itself on the mask of the image."""
    calls: dict[str, list[ast.Call]] = {}
    for node in walk(method):
        if isinstance(node, ast.Call) and unparse(node.func) in moving and len(node.args) == 1 and not node.keywords:
            calls.setdefault(unparse(node.func), []).append(node)
    for code, found in calls.items():
        masks = [call for call in found if MASK.search(unparse(call.args[0]))]
        images = [call for call in found if call not in masks]
        if len(masks) == 1 and len(images) == 1 and unparse(masks[0].args[0]) != unparse(images[0].args[0]):
            mask = unparse(masks[0].args[0])
            yield Unpaired(source.location(masks[0]), mask, source.location(images[0]), moving[code])


def _moving_transforms(source: Source) -> dict[str, str]:
    """The names and attributes with a list of transforms that moves pixels at random, with such a transform."""
    found: dict[str, str] = {}
    for node in source.nodes_of(ast.Assign):
        match node.value:
            case ast.Call(args=[ast.List(elts=items)]) if last_name(node.value.func) == "Compose":
                move = next((name for item in items if (name := _name_of(source, item)) in MOVES), "")
                found.update({unparse(target): move for target in node.targets} if move else {})
            case _:
                pass
    return found


def _moving_attributes(source: Source, cls: ast.ClassDef, moving: dict[str, str]) -> dict[str, str]:
    """The attributes of a data set that its constructor gives such a list, which one of its calls passes."""
    given: dict[str, str] = {}
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == cls.name:
            given.update(
                {
                    each.arg: moving[code]
                    for each in call.keywords
                    if each.arg and (code := unparse(each.value)) in moving
                }
            )
    stored: dict[str, str] = {}
    for node in walk(cls):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Name(id=value)):
                stored.update({name: given[value]} if value in given else {})
            case _:
                pass
    return stored
