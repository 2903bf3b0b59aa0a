"""What rules ask of data loaders: which of them feed a training loop, and what kind of data set they read."""

from __future__ import annotations

import ast
import re
from collections import abc
from collections.abc import Iterator

from lintrain.analysis.training_loops import TrainingLoop, training_loops
from lintrain.model.location import Location
from lintrain.pipeline.events import Loop
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Batch, Loader, TorchDataset
from lintrain.pipeline.values.python import Either, Instance, Sequence, Value
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

STREAM = "torch.utils.data.IterableDataset"
MAP_STYLE = "torch.utils.data.Dataset"


SAYS_OVERFITTING = lazy_pattern(r"overfit(?!t)|overfit_|sanity|memori[sz]e", re.IGNORECASE)
SAYS_TRIAL = lazy_pattern(
    r"debug|smoke|dry.?run|\btoy\b|dummy|quick (test|check)|on purpose|intentional|train(ing)?[ _-]acc",
    re.IGNORECASE,
)
"""Words of runs that are meant to learn a few rows by heart, or to show that the code works."""


@dataclass(frozen=True, slots=True)
class Feeding:
    """A loader that a training loop goes through: `loop` is the one over its batches."""

    training: TrainingLoop
    loop: Loop
    loader: Loader

    @property
    def is_repeated(self) -> bool:
        """Whether the loop over the batches certainly stands inside another one: there are several epochs."""
        around = self.training.backward.loops
        return any(not _runs_once(outer) for outer in around[: around.index(self.loop)])


def _runs_once(loop: Loop) -> bool:
    """`for epoch in range(1)`."""
    over = loop.over
    return isinstance(over, Sequence) and over.is_complete and len(over.items) <= 1


def feedings(pipeline: Pipeline) -> Iterator[Feeding]:
    """Each loader that certainly feeds a loop in which an optimizer steps."""
    for training in training_loops(pipeline):
        for loop in training.backward.loops:
            loaders = list(loaders_in(loop.each))
            if len(loaders) == 1:
                yield Feeding(training, loop, loaders[0])


def loaders_in(each: Value) -> Iterator[Loader]:
    """The loaders whose batches a loop's element is made of: alone, or in a tuple beside a number."""
    match each:
        case Batch(loader=Loader() as loader):
            yield loader
        case Sequence(items=items):
            for item in items[:4]:
                yield from loaders_in(item)
        case _:
            return


def is_stream(value: Value) -> bool:
    """Whether a data set certainly gives its rows one after the other, without a number."""
    match value:
        case Dataset(is_streaming=is_streaming):
            return is_streaming
        case Instance(cls=cls):
            return STREAM in cls.library_bases
        case Either(options=options):
            return all(is_stream(option) for option in options)
        case _:
            return False


def is_map_style(value: Value) -> bool:
    """Whether a data set certainly gives its rows by their number."""
    match value:
        case Dataset(is_streaming=is_streaming, is_default=is_default):
            return not is_streaming and not is_default
        case Instance(cls=cls):
            return MAP_STYLE in cls.library_bases and STREAM not in cls.library_bases and not cls.has_unknown_base
        case TorchDataset(path=path):
            return path.startswith(("torch.", "torchvision."))
        case Sequence(kind=kind):
            return kind == "list"
        case Either(options=options):
            return all(is_map_style(option) for option in options)
        case _:
            return False


def is_deliberate(pipeline: Pipeline, location: Location) -> bool:
    """Whether the script says that it tries something out: anywhere of overfitting, or near a place of a trial."""
    source = pipeline.source_of(location)
    near = "\n".join(source.lines[max(0, location.line - 4) : location.end_line])
    return any(each.says(SAYS_OVERFITTING) for each in pipeline.sources.values()) or SAYS_TRIAL.search(near) is not None


def expects_error(pipeline: Pipeline, location: Location) -> bool:
    """Whether the code at a place is tried, or stands in a `with` that waits for an error."""
    return any(guard.holds(location) for guard in pipeline.source_of(location).told(_guards))


def _guards(source: Source) -> tuple[Location, ...]:
    """Where code is tried, or stands in a `with` that waits for an error."""
    kinds = (ast.With, ast.Try) if "raises" in source.text.lower() else (ast.Try,)
    nodes: abc.Sequence[ast.With | ast.Try] = source.nodes_of(*kinds)
    return tuple(source.location(node) for node in nodes if _expects(node))


def _expects(node: ast.With | ast.Try) -> bool:
    if isinstance(node, ast.Try):
        return bool(node.handlers)
    return any("raises" in ast.unparse(item).lower() for item in node.items)
