"""By which angles the calls of a script rotate images, and in which unit: degrees, or full turns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import handed_on
from lintrain.model.location import Location
from lintrain.pipeline.record import LibraryCall, Pipeline
from lintrain.pipeline.values.python import Sequence, Value, number_of
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

IN_DEGREES = {
    "ImageDataGenerator": "rotation_range",
    "RandomRotation": "degrees",
    "RandomAffine": "degrees",
    "Rotate": "limit",
    "SafeRotate": "limit",
    "ShiftScaleRotate": "rotate_limit",
}
"""Transforms with the argument that is an angle in degrees."""

BY_NAME_ONLY = frozenset({"ImageDataGenerator", "ShiftScaleRotate"})
"""Transforms whose first argument is another one."""

LIBRARIES = ("torchvision.", "albumentations.", "keras.", "tensorflow.", "tf_keras.")


@dataclass(frozen=True, slots=True)
class Rotation:
    """The largest angle of a transform, and whether it counts full turns."""

    location: Location
    name: str
    angle: float
    counts_turns: bool


def rotations(pipeline: Pipeline) -> Iterator[Rotation]:
    """The transforms that rotate images by angles that are known."""
    for call in pipeline.calls:
        name = call.path.rpartition(".")[2]
        if name not in IN_DEGREES or not call.path.startswith(LIBRARIES):
            continue
        counts_turns = "layers" in call.path
        given = call.arguments.get("factor" if counts_turns else IN_DEGREES[name])
        angles = _in_value(given.value) if given is not None else list(_first_angles(pipeline, call, name))
        if angles:
            location = given.location if given is not None else call.location
            yield Rotation(location, name, max(map(abs, angles)), counts_turns)


def _in_value(value: Value) -> list[float]:
    """The bounds of an angle, if all of them are known."""
    parts = value.items if isinstance(value, Sequence) else [value]
    found = [number for each in parts if (number := number_of(each)) is not None]
    return found if len(found) == len(parts) else []


def _first_angles(pipeline: Pipeline, call: LibraryCall, name: str) -> Iterator[float]:
    """The bounds of an angle that is given without its name."""
    source = pipeline.source_of(call.location)
    for node in source.nodes_of(ast.Call) if name not in BY_NAME_ONLY else ():
        if node.args and source.location(node) == call.location:
            yield from _in_code(source, node.args[0])


def _in_code(source: Source, node: ast.expr) -> list[float]:
    made = handed_on.given_to(source, node) if isinstance(node, ast.Name) else node
    match made:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return [number]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return [-number]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            found = [angle for each in parts for angle in _in_code(source, each)]
            return found if len(found) == len(parts) else []
        case _:
            return []
