"""Images that OpenCV reads, in the order blue, green, red, for a network that was trained on red, green, blue."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import handed_on, origins
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

READERS = frozenset({"flow_from_directory", "flow_from_dataframe", "image_dataset_from_directory", "ImageFolder"})
"""What reads the images of a training, in the order red, green, blue."""

TURNS = ("cvtColor", "::-1", "split(", "merge(", "fromarray", "flip(", "[2, 1, 0]", "gray", "GRAY", "L'")
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
    readers = [call for call in source.nodes_of(ast.Call) if handed_on.plain_name(call.func) in READERS]
    if not readers or any("color_mode" in unparse(each) or "shape=" in unparse(each) for each in readers):
        return
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "predict" and call.args:
            read = _read_by_opencv(source, call.args[0])
            if read is not None:
                reader = handed_on.plain_name(readers[0].func)
                yield Swapped(source.location(read), source.location(call), source.location(readers[0]), reader)


def _read_by_opencv(source: Source, image: ast.expr) -> ast.Call | None:
    """The call that reads an image as it is, if nothing on the way to its use changes its channels."""
    found: ast.Call | None = None
    for origin in origins.origins(source, image):
        code = unparse(origin.expression)
        if any(turn in code for turn in TURNS):
            return None
        for node in walk(origin.expression):
            if isinstance(node, ast.Call) and unparse(node.func) == "cv2.imread" and _keeps_colours(node):
                found = node
            elif isinstance(node, ast.Call) and (made := handed_on.returned(source, node)) is not None:
                inner = _read_by_opencv(source, made)
                if inner is None and "imread" in unparse(handed_on.functions_of(source, handed_on.plain_name(node.func))[0]):
                    return None
                found = found or inner
    return found


def _keeps_colours(read: ast.Call) -> bool:
    flags = [*read.args[1:], *(each.value for each in read.keywords)]
    return all(unparse(each) in {"1", "cv2.IMREAD_COLOR"} for each in flags)
