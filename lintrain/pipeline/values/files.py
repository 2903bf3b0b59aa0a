"""Files by their paths, and settings that are read from them."""

from __future__ import annotations

from lintrain.pipeline.values.python import Mapping, Value
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class FilePath(Value):
    """A `pathlib.Path` whose text is known; `is_default` if the user may give another."""

    text: str
    is_default: bool = False


@dataclass(eq=False, slots=True)
class OpenFile(Value):
    """A file that is open for reading, or its whole text."""

    path: FilePath


@dataclass(eq=False, slots=True)
class Settings(Mapping):
    """Values by name that are attributes too: what OmegaConf, Hydra and EasyDict give."""
