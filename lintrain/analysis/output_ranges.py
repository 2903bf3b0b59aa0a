"""Images that a network gives, next to those of the data: between which numbers the two are."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from lintrain.analysis import loop_verdicts, loss_terms, normalizations
from lintrain.interpreter.tracing import DATA
from lintrain.libraries.torch.images import steps_of
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.loading import TorchDataset
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import LibraryObject, Sequence, Value, number_of
from lintrain.source import places
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

COMPARES = ("mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy")
MOST_STEPS = 3
BOUNDED = ("sigmoid", "tanh")


@dataclass(frozen=True, slots=True)
class RangeMismatch:
    """Images of the data that a last activation does not fit: where each is made, and whether it is `tanh`."""

    location: Location
    activation: Location
    is_tanh: bool


def range_mismatches(pipeline: Pipeline) -> Iterator[RangeMismatch]:
    """The networks whose last activation does not give the numbers of the images that they are to give."""
    datasets = normalizations.datasets_by_origin(pipeline)
    if not datasets:
        return
    for loss in loop_verdicts.losses_called(pipeline, *COMPARES):
        ends = loop_verdicts.operations_before(loss, "sigmoid")
        images = _images(loss.target.value, datasets) if loss.target is not None and ends else None
        if images is not None and images.origin is not None and _is_below_zero(images):
            if (
                loss.target is None
                or _is_rescaled(pipeline, loss.target.location)
                or not _has_pixels(loss.target.value)
            ):
                continue
            yield RangeMismatch(images.origin, ends[0].location or loss.location, is_tanh=False)
    for made, images in _judged(pipeline, datasets):
        end = made.made
        if end is None or end.location is None or images.origin is None:
            continue
        if end.name == "tanh" and _is_from_zero_to_one(images):
            yield RangeMismatch(images.origin, end.location, is_tanh=True)
        elif end.name == "sigmoid" and _is_below_zero(images):
            yield RangeMismatch(images.origin, end.location, is_tanh=False)


def _judged(
    pipeline: Pipeline, datasets: Mapping[Location | None, TorchDataset]
) -> Iterator[tuple[Tensor, TorchDataset]]:
    """What another network made and what the data gave, as a discriminator gets both in one loop."""
    passes = [each for each in pipeline.acts(Act.FORWARD) if each.loops]
    made = [each for each in passes if _is_bounded(each)]
    for fake in made:
        for real in passes:
            if real.subject is fake.subject and real.loops[-1] is fake.loops[-1]:
                images, tensor = _images(real.details.get("given"), datasets), fake.details.get("given")
                if images is None or _is_rescaled(pipeline, real.location):
                    continue
                if isinstance(tensor, Tensor) and tensor.model is not fake.subject:
                    yield tensor, images


def _is_bounded(forward: Event) -> bool:
    given = forward.details.get("given")
    return isinstance(given, Tensor) and given.made is not None and given.made.name in BOUNDED


def _images(value: object, datasets: Mapping[Location | None, TorchDataset]) -> TorchDataset | None:
    """The data set whose images a tensor is, as they are."""
    if not isinstance(value, Tensor) or value.made is None or value.made.name != DATA:
        return None
    return datasets.get(value.made.location)


def _has_pixels(value: Value) -> bool:
    """Whether each row of a tensor has several numbers: the labels of a data set have one."""
    sizes = value.shape.sizes if isinstance(value, Tensor) else None
    return sizes is not None and (len(sizes) > 2 or (len(sizes) == 2 and sizes[-1] != 1))


def _is_rescaled(pipeline: Pipeline, location: Location) -> bool:
    """Whether the images of an argument, or of a call, are computed with before: `real * 2 - 1`."""
    source = pipeline.source_of(location)
    code = places.expression_at(source, location)
    if isinstance(code, ast.Call) and code.args:
        code = code.args[0] if isinstance(code.func, ast.Name) else code
    return code is None or _is_computed(source, code, MOST_STEPS)


def _is_computed(source: Source, node: ast.expr, steps: int) -> bool:
    match node:
        case ast.BinOp():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[inner, *_]):
            return _is_computed(source, inner, steps)
        case ast.Call(func=ast.Attribute(value=inner)):
            return _is_computed(source, inner, steps)
        case ast.Name(id=name) if steps:
            changed = {unparse(each.target) for each in source.nodes_of(ast.AugAssign)}
            given = loss_terms.assigned(source, name)
            return name in changed or any(_is_computed(source, each, steps - 1) for each in given)
        case _:
            return False


def _steps(images: TorchDataset) -> list[str] | None:
    """The names of the transforms of a data set, None if one of them is not known."""
    steps = _transforms(images)
    names = [normalizations.last_part(each.path) for each in steps or ()]
    return names if steps and all(name in normalizations.KNOWN for name in names) else None


def _transforms(images: TorchDataset) -> list[LibraryObject] | None:
    """The transforms that a data set is given, by name or by position."""
    named = images.arguments.get("transform")
    given = [named] if named is not None else list(images.arguments.values())
    return next((steps for each in given if (steps := steps_of(each.value)) is not None), None)


def _is_from_zero_to_one(images: TorchDataset) -> bool:
    names = _steps(images)
    return names is not None and "ToTensor" in names and "Normalize" not in names


def _is_below_zero(images: TorchDataset) -> bool:
    """Whether a mean is subtracted from the images, so that dark pixels are negative."""
    names = _steps(images)
    if names is None or "ToTensor" not in names:
        return False
    for step in _transforms(images) or ():
        if normalizations.last_part(step.path) == "Normalize":
            return _is_positive(step.arguments.get("mean", step.arguments.get("0")))
    return False


def _is_positive(mean: Value | None) -> bool:
    numbers = [number_of(each) for each in mean.items] if isinstance(mean, Sequence) else []
    return bool(numbers) and all(each is not None and each > 0 for each in numbers)
