"""Torch's side of data: map-style data sets, samplers, and the loaders that make batches of them.

Files by their paths, and settings that are read from them.
"""

from __future__ import annotations

from dataclasses import field

from lintrain.model.location import Location
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.certainty import Default
from lintrain.pipeline.values.data import CollatedRows
from lintrain.pipeline.values.python import ABSENT, UNKNOWN, Mapping, Unknown, Value
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class Loader(Value):
    """A torch DataLoader: its data set, how it collates, and its other arguments by name.

    `is_complete` if no others can have been given; `locations` are those of the arguments' values.
    """

    dataset: Value = UNKNOWN
    collate: Value = ABSENT
    arguments: dict[str, Value] = field(default_factory=lambda: {})
    text: str = ""
    dataset_location: Location | None = None
    locations: dict[str, Location] = field(default_factory=lambda: {})
    is_complete: bool = True
    collations: int = 0
    """How often its collate function was read."""
    passed_on: CollatedRows | None = None
    """What its collate function returns, if that only passes rows on to a library's collator."""

    @property
    def collator(self) -> Value:
        """What makes its batches: the collator that its collate function calls, else that function itself."""
        return self.collate if self.passed_on is None or self.passed_on.collator is None else self.passed_on.collator

    @property
    def collated_rows(self) -> Value:
        """What its collator gets rows of: its data set, or the rows that its collate function makes of that."""
        return self.dataset if self.passed_on is None else self.passed_on

    def value(self, name: str) -> Value:
        """What an argument was set to: Absent if it was not, Unknown if it may have been."""
        return self.arguments.get(name, ABSENT if self.is_complete else UNKNOWN)


@dataclass(eq=False, slots=True)
class Batch(Unknown):
    """One batch of a loader: what it holds is not followed."""

    loader: Loader | None = None


@dataclass(eq=False, slots=True)
class Collated(Batch):
    """One batch as the script's own collate function gives it: everything that is done to it is done to `content`."""

    content: Value = UNKNOWN


@dataclass(eq=False, slots=True)
class TorchDataset(Value):
    """A data set of torch or torchvision, by its class: `parts` are the data sets or tensors that it is made of.

    `arguments` are those of the call by name, positional ones under their numbers; `rows` is how many rows it has.
    """

    path: str
    parts: tuple[Value, ...] = ()
    arguments: dict[str, Argument] = field(default_factory=lambda: {})
    is_complete: bool = True
    text: str = ""
    rows: int | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class FilePath(Value):
    """A `pathlib.Path` whose text is known; `default` if the user may give another."""

    text: str
    default: Default | None = None


@dataclass(eq=False, slots=True)
class OpenFile(Value):
    """A file that is open for reading, or its whole text."""

    path: FilePath


@dataclass(eq=False, slots=True)
class Settings(Mapping):
    """Values by name that are attributes too: what OmegaConf, Hydra and EasyDict give."""


@dataclass(eq=False, slots=True)
class Named(Settings):
    """Values by name that have numbers too: a namedtuple, what a model returns. Those that are None have none."""
