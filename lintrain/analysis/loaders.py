"""Questions about data loaders: which of them feed a training loop, and what kind of data set they read."""

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


MENTIONS_OVERFITTING = lazy_pattern(r"overfit(?!t)|overfit_|sanity|memori[sz]e", re.IGNORECASE)
MENTIONS_TEST_RUN = lazy_pattern(
    r"debug|smoke|dry.?run|\btoy\b|dummy|quick (test|check)|on purpose|intentional|train(ing)?[ _-]acc",
    re.IGNORECASE,
)
"""Words for runs that overfit a few rows on purpose, or only test the code."""


@dataclass(frozen=True, slots=True)
class Feeding:
    """A loader over whose batches a training loop iterates: `loop` is the loop over the batches."""

    training: TrainingLoop
    loop: Loop
    loader: Loader

    @property
    def is_repeated(self) -> bool:
        """Whether the loop over the batches is certainly inside another one: there are several epochs."""
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
    """The loaders whose batches a loop's element contains: alone, or in a tuple with an index."""
    match each:
        case Batch(loader=Loader() as loader):
            yield loader
        case Sequence(items=items):
            for item in items[:4]:
                yield from loaders_in(item)
        case _:
            return


def is_stream(value: Value) -> bool:
    """Whether a data set is certainly iterable only, without access by index."""
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
    """Whether a data set certainly returns its rows by index."""
    match value:
        case Dataset(is_streaming=is_streaming, may_differ=may_differ):
            return not is_streaming and not may_differ
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
    """Whether the script mentions overfitting on purpose, or a test run next to a location."""
    source = pipeline.source_of(location)
    near = "\n".join(source.lines[max(0, location.line - 4) : location.end_line])
    return (
        any(each.contains(MENTIONS_OVERFITTING) for each in pipeline.sources.values())
        or MENTIONS_TEST_RUN.search(near) is not None
    )


def expects_error(pipeline: Pipeline, location: Location) -> bool:
    """Whether code is in a `try`, or in a `with` that expects an error."""
    return any(guard.holds(location) for guard in pipeline.source_of(location).cached(_guards))


def _guards(source: Source) -> tuple[Location, ...]:
    """The `try` and `with` statements of a file that expect an error."""
    kinds = (ast.With, ast.Try) if "raises" in source.text.lower() else (ast.Try,)
    nodes: abc.Sequence[ast.With | ast.Try] = source.nodes_of(*kinds)
    return tuple(source.location(node) for node in nodes if _expects(node))


def _expects(node: ast.With | ast.Try) -> bool:
    if isinstance(node, ast.Try):
        return bool(node.handlers)
    return any("raises" in ast.unparse(item).lower() for item in node.items)
