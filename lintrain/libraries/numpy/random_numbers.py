"""Random numbers of NumPy: generators, the arrays that they give, and permutations of rows.

Random numbers of Python.
"""

from __future__ import annotations

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.registry import function, method
from lintrain.interpreter.shapes import ANY, integer, viewed
from lintrain.libraries.torch.literals import data
from lintrain.pipeline.values.python import UNKNOWN, Constant, LibraryObject, Sequence, Unknown, Value, is_missing
from lintrain.pipeline.values.tensors import Real, Whole
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SIZES = {
    "normal": 2,
    "uniform": 2,
    "integers": 2,
    "randint": 2,
    "random": 0,
    "random_sample": 0,
    "standard_normal": 0,
    "choice": 1,
}
"""Which argument is the size, counted from 0, by the name of the function or method."""

WHOLE = frozenset({"integers", "randint"})


@dataclass(eq=False, slots=True)
class Generator(LibraryObject):
    """A source of random numbers of its own: `np.random.default_rng(0)`."""


@function("numpy.random.default_rng", "numpy.random.RandomState")
def _generator(call: Call) -> Value:
    return Generator(call.path, call.values(), origin=call.location)


@function(*(f"numpy.random.{name}" for name in SIZES if name not in {"integers", "random"}))
@method(Generator, *SIZES)
def _drawn(call: Call) -> Value:
    """`rng.normal(size=(96, 8))`; one number where no size is given."""
    name = call.path.rpartition(".")[2]
    size = call.value("size", SIZES[name])
    if is_missing(size) or call.is_open:
        return UNKNOWN
    count = integer(size)
    # A single number is a shape with one axis: `rng.normal(size=96)`.
    shape = viewed(ANY, [size if count is None else Constant(count)])
    return data(call, shape, "" if name == "choice" else "int" if name in WHOLE else "float")


@method(Generator, "randn", "rand")
def _sized(call: Call) -> Value:
    """`state.randn(96, 8)`: one argument for each axis."""
    sizes = [argument.value for argument in call.positional]
    return UNKNOWN if call.is_open or not sizes else data(call, viewed(ANY, sizes), "float")


GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator"})
LENGTH = lazy_pattern(r"\d+|len\([\w.]+\)|[\w.]+\.shape\[0\]")
"""Code that is a number for certain."""

DRAWN = "numpy.random.permutation(…)"
"""The name of a random permutation."""


def is_permutation(value: Value) -> bool:
    """Whether a value is certainly a random permutation of row numbers."""
    return isinstance(value, Unknown) and value.name == DRAWN


@function("numpy.random.permutation")
def _permutation(call: Call) -> Value:
    """The numbers up to a length; of an array, its own items."""
    given = call.argument("x", 0)
    # `permutation(n)` gives row numbers, `permutation(array)` the array's own rows. For a plain name it
    # could be either.
    is_length = given is not None and (
        given.text.startswith("len(") or given.text.isdigit() or ".shape[0]" in given.text
    )
    return Unknown(name=DRAWN) if is_length else UNKNOWN


@method(LibraryObject, "permutation")
def _drawn_permutation(call: Call) -> Value:
    made = call.receiver
    return _permutation(call) if isinstance(made, LibraryObject) and made.path in GENERATORS else UNKNOWN


@function("random.choice", "random.SystemRandom.choice")
def _chosen(call: Call) -> Value:
    """`random.choice(captions)`: any of the items."""
    return dispatch.element(call.reader, call.value("seq", 0))


@function("random.sample", "random.choices")
def _some(call: Call) -> Value:
    """Some of the items; how many is not known."""
    each = dispatch.element(call.reader, call.value("population", 0))
    return Sequence([each], "list", False, True, origin=call.location)


@function("random.randint", "random.randrange", "random.getrandbits")
def _whole(call: Call) -> Value:
    return Whole(origin=call.location)


@function("numpy.random.beta")
def _drawn_share(call: Call) -> Value:
    """`lam = np.random.beta(alpha, alpha)`: one number, or as many as `size` asks for."""
    escape(call)
    is_one = len(call.positional) == 2 and not call.keywords and not call.is_open
    return Real(origin=call.location) if is_one else UNKNOWN


@function("random.random", "random.uniform", "random.gauss", "random.normalvariate", "random.betavariate")
def _real(call: Call) -> Value:
    return Real(origin=call.location)
