"""Files of arrays that are not here: of NumPy, MATLAB and HDF5, and pickles. Names and uses tell what they hold."""

from __future__ import annotations

import functools
import linecache
import math
import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.frames import is_called_by_user, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import library
from lintrain.runtime.stand_ins.array_shapes import SIZES
from lintrain.runtime.stand_ins.array_uses import Uses, is_label, targets_at, targets_of_load, uses_of
from lintrain.runtime.stand_ins.ledger import Ledger, is_there

CLASSES = 4
MOST_NUMBERS = 40_000_000
"""In one array, however many rows are asked for."""
TEXT_READERS = ("loadtxt", "genfromtxt")


def install(ledger: Ledger, hooks: AfterImport) -> ArrayFiles:
    """Answer the readers of arrays."""
    files = ArrayFiles(ledger)
    hooks.add("numpy", lambda module: _answer_numpy(files, module))
    hooks.add("scipy.io", lambda module: _answer(files, module, "loadmat", files.archive))
    hooks.add("h5py", lambda module: _answer_archives(files, module))
    hooks.add("joblib", lambda module: _answer(files, module, "load", files.value))
    return files


class Archive(dict[str, Any]):
    """Arrays by name; one that the script asks for and that is not here is made."""

    def __init__(self, make: Callable[[str], Any], names: Sequence[str]) -> None:
        super().__init__({name: make(name) for name in names})
        self._make = make

    def __missing__(self, name: str) -> Any:
        self[name] = self._make(name)
        return self[name]

    @property
    def files(self) -> list[str]:
        """The names of the arrays, as an `.npz` lists them."""
        return [*self]

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        """No file is open."""


class ArrayFiles:
    """Makes what the files of a script hold; errors may have shown other sizes (`corrections.arrays`)."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def is_missing(self, file: Any) -> bool:
        """Whether the script itself asks for a file that is not here."""
        is_path = isinstance(file, str | os.PathLike)
        return is_path and not is_there(file) and is_called_by_user("numpy", "scipy", "h5py", "joblib", "contextlib")

    def array(self, file: Any) -> Any:
        """The one array of a file."""
        return self._made(file, "", self._target())

    def archive(self, file: Any) -> Archive:
        """The arrays of a file by their names."""
        # A script that asks for all names of a file has to find those that it reads later.
        target = self._target()
        # `load(file)["images"]` assigns the array itself.
        names = self._uses().keys.get(target, ())
        return Archive(functools.partial(self._made, file, target="" if names else target), names)

    def value(self, file: Any) -> Any:
        """What a pickle holds: several arrays, those of a dictionary, or one."""
        targets = self._targets(loads=True)
        # As many as the line takes apart: one more or less would end it.
        if len(targets) > 1:
            return tuple(self._made(file, name, name) for name in targets)
        if targets and self._uses().keys.get(targets[0]):
            return self.archive(file)
        return self.array(file)

    def _made(self, file: Any, name: str, target: str = "") -> Any:
        numpy = library("numpy")
        # Paths of Windows as well, which many scripts have in their text.
        stem = os.path.basename(str(file).replace("\\", "/")).rpartition(".")[0]
        known = self._ledger.corrections.arrays
        names = [stem, name, target]
        is_of_labels = is_label(*names)
        uses = self._uses()
        takers = [target] if target else [each for each in uses.taken_from(name) if is_label(each) == is_of_labels]
        named = next((each for each in takers if each in uses.dimensions), "")
        count = known.dimensions(stem, name) or uses.dimensions.get(named) or (1 if is_of_labels else 2)
        shape = [known.sizes.get(size, size) for size in (*SIZES, *SIZES)[:count]]
        rows = min(self._ledger.corrections.rows, MOST_NUMBERS // max(1, math.prod(shape[1:])))
        shape[:1] = [max(shape[0], rows)]
        random = numpy.random.default_rng(zlib.crc32(f"{stem} {name}".encode()))
        # Every class equally often, so that a split has some of each.
        if is_of_labels:
            made = random.permutation(numpy.arange(int(numpy.prod(shape))) % CLASSES).reshape(shape) + known.first_label
        else:
            made = random.standard_normal(shape).astype("float32")
        # An error that follows is only about arrays which this run has made.
        known.remember(stem, name, count, is_label=is_of_labels)
        self._ledger.corrections.count(f"{stem} {name}", shape[0] if shape else 0)
        label = f"{os.path.basename(str(file))}{', ' if name else ''}{name}"
        kind = f"labels of {CLASSES} classes" if is_of_labels else "random numbers"
        self._ledger.renew(StandInKind.DATA, label, f"{kind} of shape {tuple(shape)}")
        return made

    def _uses(self) -> Uses:
        return uses_of(self._ledger.script)

    def _target(self) -> str:
        return next(iter(self._targets()), "")

    def _targets(self, *, loads: bool = False) -> list[str]:
        """The names that the line of the script assigns, or what it `loads` from the file that the line opens."""
        frame = users_frame()
        if frame is None:
            return []
        text = "".join(linecache.getlines(frame.f_code.co_filename))
        found = targets_at(text, frame.f_lineno, whole=loads)
        return (targets_of_load(text, frame.f_lineno, found[0]) if loads and found else None) or found


def _answer(files: ArrayFiles, module: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(module, name)

    @functools.wraps(original)
    def reading(file: Any, *args: Any, **kwargs: Any) -> Any:
        return make(file) if files.is_missing(file) else original(file, *args, **kwargs)

    setattr(module, name, reading)


def _answer_numpy(files: ArrayFiles, module: Any) -> None:
    original = module.load

    def made(file: Any) -> Any:
        name = str(file)
        return files.archive(file) if name.endswith(".npz") else files.value(file)

    _answer(files, module, "load", made)
    module.load.__wrapped__ = original
    for name in TEXT_READERS:
        _answer(files, module, name, files.array)


def _answer_archives(files: ArrayFiles, module: Any) -> None:
    """`h5py.File` of a file that is read; it stays a class, as `isinstance` needs it."""
    original = module.File

    class StandInFile(original):  # type: ignore[misc, valid-type]
        def __new__(cls, name: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            # A file that is written is the script's own result.
            is_made = mode.startswith("r") and files.is_missing(name)
            return files.archive(name) if is_made else original(name, mode, *args, **kwargs)

    module.File = StandInFile


def bytes_of_pickle(files: ArrayFiles, name: str) -> bytes:
    """What a pickle file holds, for a script that opens it itself."""
    import pickle

    value = files.value(name)
    # A plain dictionary: an archive's own class holds functions, which are not pickled.
    return pickle.dumps(dict(value) if isinstance(value, Archive) else value)
