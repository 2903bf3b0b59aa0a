"""Images that OpenCV reads, in the order blue, green, red, for a network that was trained on red, green, blue."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import handed_on, origins
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

READERS = frozenset({"flow_from_directory", "flow_from_dataframe", "image_dataset_from_directory", "ImageFolder"})
"""What reads the images of a training, in the order red, green, blue."""

TURNS = ("cvtColor", "::-1", "cv2.split(", "cv2.merge(", "fromarray", "flip(", "[2, 1, 0]", "gray", "GRAY", "L'")
"""Code that changes the order of the channels, or leaves one of them."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """An image in another order of the channels: where it is read, where it is used, what read the training."""

    location: Location
    used: Location
    training: Location
    reader: str


def swapped(source: Source) -> Iterator[Swapped]:
    """The images that OpenCV reads for a prediction of a network that this file trains on images of another reader."""
    if not source.contains(r"cv2\.imread\(") or not source.contains(r"\.fit|backward\("):
        return
    readers = [call for call in source.nodes_of(ast.Call) if _name(call) in READERS]
    readers = [each for each in readers if _reads_colours(source, each)]
    if not readers:
        return
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "predict" and call.args:
            read = _read_by_opencv(source, call.args[0])
            if read is not None:
                reader = _name(readers[0])
                yield Swapped(source.location(read), source.location(call), source.location(readers[0]), reader)


MEANS = r"0\.485\d*\s*,\s*0\.456"
"""The means of ImageNet, of red and green."""

TRANSFORMS = lazy_pattern(r"(?i)transform|aug|tfm|preproc")


def swapped_means(source: Source) -> Iterator[Swapped]:
    """The images that OpenCV reads for a transform that subtracts the means of red, green and blue, in this order."""
    if not source.contains(r"cv2\.imread\(") or not source.contains(r"Normalize\("):
        return
    normalize = next((each for each in source.nodes_of(ast.Call) if _subtracts_means(source, each)), None)
    if normalize is None:
        return
    for call in source.nodes_of(ast.Call):
        named = [each.value for each in call.keywords if each.arg == "image"]
        given = named or (call.args if len(call.args) == 1 else [])
        # A function of the script may turn the channels itself.
        is_transform = not handed_on.functions_of(source, _name(call)) and TRANSFORMS.search(_name(call)) is not None
        if given and isinstance(given[0], ast.Name) and (named or is_transform):
            read = _read_by_opencv(source, given[0])
            if read is not None:
                at = source.location
                yield Swapped(at(read), at(call), at(normalize), _name(normalize))


def _subtracts_means(source: Source, call: ast.Call) -> bool:
    """Whether a call normalizes with the means of ImageNet: by default in albumentations, or as the file has them."""
    if _name(call) != "Normalize":
        return False
    is_by_default = not call.args and not call.keywords and source.contains(r"\balbumentations\b")
    return is_by_default or ((bool(call.args) or bool(call.keywords)) and source.contains(MEANS))


def _reads_colours(source: Source, reader: ast.Call) -> bool:
    """Whether a reader gives three channels: by default, or as it is asked to."""
    mode = next((each.value for each in reader.keywords if each.arg == "color_mode"), None)
    if isinstance(mode, ast.Name):
        mode = handed_on.given_to(source, mode) or handed_on.default_of(source, mode) or mode
    return mode is None or (isinstance(mode, ast.Constant) and mode.value == "rgb")


def _read_by_opencv(source: Source, image: ast.expr) -> ast.Call | None:
    """The call that reads an image as it is, if nothing on the way to its use changes its channels."""
    for origin in origins.origins(source, image):
        if any(turn in unparse(origin.expression) for turn in TURNS):
            return None
        for node in walk(origin.expression):
            if not isinstance(node, ast.Call):
                continue
            if unparse(node.func) == "cv2.imread":
                return node if _keeps_colours(node) else None
            made = handed_on.returned(source, node)
            if made is not None and (found := _read_by_opencv(source, made)) is not None:
                return found
            if made is not None and "imread" in unparse(handed_on.functions_of(source, _name(node))[0]):
                return None
    return None


def _name(call: ast.Call) -> str:
    return handed_on.plain_name(call.func)


def _keeps_colours(read: ast.Call) -> bool:
    flags = [*read.args[1:], *(each.value for each in read.keywords)]
    return all(unparse(each) in {"1", "cv2.IMREAD_COLOR"} for each in flags)
