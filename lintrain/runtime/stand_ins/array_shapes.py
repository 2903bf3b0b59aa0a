"""What an error asks of arrays that were made up: another number of axes, another size of one, labels from 1."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from lintrain.runtime.stand_ins.expressions import Raised, raised, value_of

WANTED_AXES = (
    re.compile(r"input\.dim\(\) = (?P<had>\d+) is not equal to len\(dims\) = (?P<asked>\d+)"),
    re.compile(r"array is (?P<had>\d+)-dimensional, but (?P<asked>\d+) were indexed"),
    re.compile(r"too many indices for tensor of dimension (?P<had>\d+)"),
    re.compile(r"axis (?P<last>\d+) is out of bounds for array of dimension (?P<had>\d+)"),
    re.compile(r"not enough values to unpack \(expected (?P<asked>\d+), got (?P<had>\d+)\)"),
    re.compile(r"too many values to unpack \(expected (?P<asked>\d+)"),
    re.compile(
        r"[Ee]xpected (?P<least>\d)D(?: \(unbatched\))?(?: or (?P<asked>\d)D)?[^\n]*?"
        r"(?:got|input of size:?)\D*(?P<had>\d)D"
    ),
    re.compile(r"[Ee]xpected (?P<least>\d)D[^\n]* or (?P<asked>\d)D[^\n]*got input of size: \[(?P<shape>[\d, ]*)\]"),
    re.compile(r"Found array with dim (?P<had>\d+)\. \w+ expected <= (?P<asked>\d+)"),
    re.compile(r"Expected (?P<asked>\d)D array, got (?P<had>\d)D array"),
    re.compile(r"\((?P<asked>\d),2\)\s+and requested shape \((?P<had>\d),2\)"),
)
"""How torch (2.13), NumPy (2), Python and scikit-learn say that an array has another number of axes."""
WANTED_SIZES = (
    re.compile(r"expected input\[.*\] to have (?P<asked>\d+) channels, but got (?P<had>\d+) channels"),
    re.compile(r"shapes cannot be multiplied \(\d+x(?P<had>\d+) and (?P<asked>\d+)x\d+\)"),
    re.compile(r"[Ee]xpected (?P<asked>\d+),? (?:but )?got (?P<had>\d+)"),
    re.compile(r"should contain (?P<had>\d+) elements not (?P<asked>\d+)"),
    re.compile(r"has (?P<had>\d+) features, but \w+ is expecting (?P<asked>\d+) features"),
    re.compile(r"expected input with shape \[\*, (?P<asked>\d+)\], but got input of size\[(?:\d+, )*(?P<had>\d+)\]"),
)
RESHAPED = re.compile(
    r"reshape array of size (?P<size>\d+) into shape \((?P<shape>[-\d, ]+)\)"
    r"|shape '\[(?P<other>[-\d, ]+)\]' is invalid for input of size (?P<whole>\d+)"
)
LABEL_BELOW = re.compile(r"Target -1 is out of bounds|label.*-1.*(invalid|out of)|Class values must be non-negative")
SIZES = (64, 22, 26, 20, 18)
"""Of the axes of every array: the same rows for inputs and labels, and otherwise sizes that errors tell apart."""
MOST_AXES = 6
LARGEST = 4_096


class ArrayShapes:
    """The arrays that were made, and what errors have shown of them."""

    def __init__(self) -> None:
        self._made = dict[tuple[str, str], int]()
        self._labels = set[tuple[str, str]]()
        self._known = dict[tuple[str, str], int]()
        self.sizes = dict[int, int]()
        self.first_label = 0

    def dimensions(self, file: str, name: str) -> int | None:
        """The number of axes that an error has shown an array to have."""
        return self._known.get((file, name))

    def remember(self, file: str, name: str, dimensions: int, *, is_label: bool) -> None:
        """An array was made."""
        self._made[file, name] = dimensions
        if is_label:
            self._labels.add((file, name))

    def correct(self, error: BaseException, sizes: tuple[int, ...]) -> str | None:
        """Change what an error shows to be wrong; says what arrays have from now on."""
        if not self._made:
            return None
        return self._correct_axes(error) or self._correct_sizes(str(error), sizes) or self._correct_labels(str(error))

    def _correct_axes(self, error: BaseException) -> str | None:
        for asked, had in _axes(error):
            # Inputs first: labels have one axis nearly everywhere.
            several = [each for each, count in self._made.items() if count == had and each not in self._labels]
            several = several or [each for each, count in self._made.items() if count == had]
            # Once for each array: an error that comes back has another cause.
            several = [each for each in several if each not in self._known]
            if several and asked != had and 0 < asked <= MOST_AXES:
                self._known.update(dict.fromkeys(several, asked))
                return f"{asked} axes each: {', '.join(name or file for file, name in several)}"
        return None

    def _correct_sizes(self, message: str, sizes: tuple[int, ...]) -> str | None:
        made = {self.sizes.get(each, each): each for each in sizes[1:]}
        # Patches of squares come with two axes of their side, wherever the script has moved them.
        if (side := _side(message)) is not None and not {*sizes[1:3]} & self.sizes.keys():
            self.sizes.update(dict.fromkeys(sizes[1:3], side))
            return f"{side} along two axes"
        for had, asked in _sizes(message, made.keys() | {sizes[0]}):
            # By the size that was made, since an earlier correction may have changed it.
            origin = made.get(had)
            if origin is not None and origin not in self.sizes and 0 < asked <= LARGEST and asked != had:
                self.sizes[origin] = asked
                return f"{asked} in place of {had} along an axis"
        return None

    def _correct_labels(self, message: str) -> str | None:
        if self.first_label or not LABEL_BELOW.search(message):
            return None
        self.first_label = 1
        return "labels from 1"


def _axes(error: BaseException) -> Iterator[tuple[int, int]]:
    """The numbers of axes that an array should have and has."""
    message = str(error)
    for pattern in WANTED_AXES:
        if found := pattern.search(message):
            given = found.groupdict()
            last, shape = given.get("last"), given.get("shape")
            asked = given.get("asked") or given.get("least") or (int(last) + 1 if last else None)
            had = given.get("had") or (len(shape.split(",")) if shape else None)
            where = next(raised(error), None)
            if asked is None or had is None:
                asked, had = _asked_and_had(where, asked, had)
            if asked is not None and had is not None:
                yield int(asked), int(had)
    if isinstance(error, IndexError) and "tuple index out of range" in message:
        yield from _of_shape(error)


def _asked_and_had(
    where: Raised | None, asked: int | str | None, had: int | str | None
) -> tuple[int | str | None, int | str | None]:
    """For an error that names only one of the numbers: the other is one more, or that of the value."""
    if had is not None:
        return int(had) + 1, had
    return asked, None if where is None or asked is None else int(asked) + 1


def _of_shape(error: BaseException) -> Iterator[tuple[int, int]]:
    """`images.shape[3]` of an array with fewer axes."""
    import ast

    for where in raised(error):
        match where.node:
            case ast.Subscript(value=ast.Attribute(attr="shape", value=owner), slice=key):
                at, count = value_of(key, where.frame), getattr(value_of(owner, where.frame), "ndim", None)
                if isinstance(at, int) and at >= 0 and isinstance(count, int):
                    yield at + 1, count
            case _:
                pass


def _sizes(message: str, made: set[int]) -> Iterator[tuple[int, int]]:
    """The sizes that an axis has and should have."""
    for pattern in WANTED_SIZES:
        if found := pattern.search(message):
            yield int(found["had"]), int(found["asked"])
    if found := RESHAPED.search(message):
        yield from _reshaped(found["shape"] or found["other"], int(found["size"] or found["whole"]), made)
    numbers = {int(each) for each in re.findall(r"(?<![\w.])\d+(?![\w.])", message)}
    # 0 to 2 are mostly the numbers of axes and arguments.
    several, others = numbers & made, numbers - made - {0, 1, 2}
    if len(several) == len(others) == 1 and re.search(
        r"(?i)size|shape|dimension|match|feature|channel|length", message
    ):
        yield several.pop(), others.pop()


def _side(message: str) -> int | None:
    """The side of the squares that the script reshapes arrays to."""
    found = RESHAPED.search(message)
    parts = [int(each) for each in (found["shape"] or found["other"]).split(",") if each.strip()] if found else []
    pairs = (first for first, second in itertools.pairwise(parts) if first == second > 2)
    return next(pairs, None) if len(parts) > 3 else None


def _reshaped(shape: str, size: int, made: set[int]) -> Iterator[tuple[int, int]]:
    """Rows that the script gives a shape: as many numbers in each as the shape holds."""
    parts = [int(each) for each in shape.split(",") if each.strip()]
    inner = 1
    # The rows keep their number, and -1 takes what is left.
    for each in parts:
        inner *= each if each > 0 and each not in made else 1
    yield from ((had, inner) for had in sorted(made) if size % had == 0 and size // had in {1, *made})
