"""Images in the hands of code: opened by Pillow or OpenCV, changed by the transforms of torchvision and albumentations.

What calling an object of a library gives that is called like a function.
"""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.registry import Transfer, called, family, function, method
from lintrain.interpreter.shapes import ANY
from lintrain.interpreter.tracing import DATA
from lintrain.libraries.torch.images import MODULE, SAME, TENSORS, after
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import Column, ColumnValues, Kind
from lintrain.pipeline.values.loading import Named
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    Function,
    Instance,
    Library,
    LibraryObject,
    Literal,
    Mapping,
    Partial,
    Sequence,
    Unknown,
    Value,
    join,
    literal,
    options_of,
)
from lintrain.pipeline.values.tensors import Operation, Shape
from lintrain.startup.lazy_pattern import lazy_pattern

CHANNELS_FIRST = Shape((None, None, None), False)

MAKES_TENSORS = TENSORS | {"PILToTensor", "ToImage", "ToImageTensor", "ToTensorV2", "ToDtype"}

INNER = frozenset({"Compose", "Sequential", "RandomApply", "RandomOrder", "OneOf", "SomeOf"})
"""Transforms that are made of others."""


def image(call: Call) -> ColumnValues:
    """An image as Pillow has it."""
    return ColumnValues(Column("", Kind.IMAGE), origin=call.location)


def is_image(value: Value) -> bool:
    """Whether a value is an image that is no tensor yet."""
    return isinstance(value, ColumnValues) and value.column.kind is Kind.IMAGE


@function("PIL.Image.open", "PIL.Image.fromarray", "PIL.Image.new", "PIL.Image.merge", "PIL.Image.blend")
@function("torchvision.datasets.folder.default_loader", "torchvision.datasets.folder.pil_loader")
@function("torchvision.transforms.functional.to_pil_image", "PIL.ImageOps.exif_transpose", "PIL.ImageOps.grayscale")
def _open(call: Call) -> Value:
    return image(call)


@method(ColumnValues, "convert", "resize", "crop", "rotate", "transpose", "thumbnail", "filter", "point", "quantize")
def _changed_image(call: Call) -> Value:
    """What Pillow gives of an image is one."""
    if not is_image(call.receiver):
        return UNKNOWN
    made, before = image(call), call.receiver.axes if isinstance(call.receiver, ColumnValues) else None
    mode = literal(call.value("mode", 0)) if call.path.endswith("convert") else None
    made.axes = AXES.get(mode) if isinstance(mode, str) else before
    return made


AXES = {"L": 2, "1": 2, "P": 2, "I": 2, "F": 2, "RGB": 3, "RGBA": 3, "LA": 3, "CMYK": 3, "HSV": 3, "LAB": 3, "YCbCr": 3}
"""The axes of the array that an image of a mode of Pillow becomes."""


@function("cv2.imread", "cv2.imdecode")
def _read(call: Call) -> Value:
    """An array [height, width, colours]; with flags another one."""
    flags = call.value("flags", 1)
    name = flags.name if isinstance(flags, Library) else str(literal(flags))
    known = ANY if call.is_open else OF_FLAGS.get("" if isinstance(flags, Absent) else name, ANY)
    # `imdecode` has no default flags, so nothing is known without reading them.
    return _array(call, known if call.path == "cv2.imread" else ANY, "int")


OF_FLAGS = {
    "": CHANNELS_FIRST, "IMREAD_COLOR": CHANNELS_FIRST, "1": CHANNELS_FIRST,
    "IMREAD_GRAYSCALE": Shape((None, None), False), "0": Shape((None, None), False),
}  # fmt: skip
"""The axes of an image by how OpenCV is asked to read it."""


@family("cv2")
def _open_cv(path: str) -> Transfer | None:
    return _changed_array if path in CHANGING else None


CHANGING = frozenset(
    f"cv2.{name}"
    for name in (
        "resize", "cvtColor", "flip", "rotate", "GaussianBlur", "blur", "medianBlur", "warpAffine", "normalize",
        "copyMakeBorder", "warpPerspective", "addWeighted", "bitwise_and", "bitwise_not", "transpose", "equalizeHist",
    )
)  # fmt: skip
"""Functions of OpenCV that give another array."""


def _changed_array(call: Call) -> Value:
    """As many axes as before, but for a conversion to one shade and back."""
    name = call.path.rpartition(".")[2]
    given = call.positional[0].value if call.positional else UNKNOWN
    rank = given.shape.rank if isinstance(given, Tensor) and not call.is_open else None
    if name == "cvtColor":
        code = call.value("code", 1)
        text = code.name if isinstance(code, Library) else ""
        rank = 2 if text.endswith("2GRAY") else 3 if text.startswith("COLOR_") else None
    # Resizing drops an axis of one colour.
    keeps = name in {"cvtColor", "flip", "rotate", "blur"} or rank == 2 or (rank == 3 and _has_colours(given))
    return _array(call, ANY if rank is None or not keeps else Shape((None,) * rank, False), "")


def _has_colours(given: Value) -> bool:
    return isinstance(given, Tensor) and given.kind == "int"


def _array(call: Call, shape: Shape, kind: str) -> Tensor:
    made = Operation(DATA, call.location, call.text)
    return Tensor(text=call.text, made=made, shape=shape, kind=kind, origin=call.location)


@called(LibraryObject)
def _call_object(call: Call) -> Value:
    """`transform(image)`, `augment(image=image, mask=mask)`, `Pair(1, 2)` of a namedtuple."""
    held = call.receiver
    if isinstance(held, LibraryObject):
        if held.path == "collections.namedtuple":
            return _record(call, held)
        if held.path.endswith(".LabelSmoother"):
            return Tensor(Role.LOSS, text=call.text, shape=Shape((), False), kind="float", origin=call.location)
        if held.path.startswith("albumentations."):
            return _augmented(call, held)
        if MODULE.match(held.path) and call.positional:
            return _through(call, held, call.positional[0].value)
    escape(call)
    return UNKNOWN


def _through(call: Call, transform: Value, given: Value) -> Value:
    """What a transform makes of an image; the script's own ones are read."""
    # The transforms of torchvision v2 take an image and its boxes together, and give both back.
    if isinstance(given, Sequence):
        items = [_through(call, transform, item) for item in given.items]
        return replace(given, items=items)
    match transform:
        case LibraryObject(path=path) if MODULE.match(path):
            return _through_step(call, transform, given)
        case Function() | Instance() | Bound() | Partial():
            return dispatch.call(call.reader, transform, [given], location=call.location)
        case _:
            return UNKNOWN


def _through_step(call: Call, step: LibraryObject, given: Value) -> Value:
    name = step.path.rpartition(".")[2]
    if name in INNER:
        return _through_all(call, step.arguments.get("transforms", step.arguments.get("0", UNKNOWN)), given)
    if name == "Lambda":
        own = step.arguments.get("lambd", step.arguments.get("0", UNKNOWN))
        return dispatch.call(call.reader, own, [given], location=call.location)
    if name in MAKES_TENSORS:
        return _made_tensor(call, name, given)
    if name == "ToPILImage":
        return image(call)
    return _kept(call, step, name, given)


def _through_all(call: Call, inner: Value, given: Value) -> Value:
    """The transforms of a list in order; one that is filled under conditions may lack some of them."""
    if not isinstance(inner, Sequence) or not inner.knows_items:
        return UNKNOWN
    current = given
    for item in call.reader.counted(inner.items):
        # Each option of a step sees the value before it: a step under a condition may have been left out.
        current = join([_through(call, option, current) for option in options_of(item)])
    return current


def _made_tensor(call: Call, name: str, given: Value) -> Value:
    if isinstance(given, Tensor) and name in {"ToDtype", "ToImage"}:
        return replace(given, kind="float" if name == "ToDtype" else given.kind)
    if isinstance(given, Mapping):
        return UNKNOWN
    made = Operation(DATA, call.location, call.text)
    kind = "int" if name == "PILToTensor" else "float"
    return Tensor(text=call.text, made=made, shape=CHANNELS_FIRST, kind=kind, origin=call.location)


def _kept(call: Call, step: LibraryObject, name: str, given: Value) -> Value:
    """A transform that gives what it is given, in another size perhaps."""
    if isinstance(given, Tensor) and name not in SAME:
        sizes = given.shape.sizes
        known = (sizes[0], sizes[1], sizes[2]) if given.shape.rank == 3 else None
        changed = after(known, step) if known else None
        # What is not known more closely keeps the number of axes: crops and flips do.
        shape = ANY if given.shape.rank is None else Shape(changed or (None,) * len(sizes), False)
        return replace(given, shape=shape, text=call.text)
    return given if isinstance(given, Tensor | Unknown) or is_image(given) else UNKNOWN


FUNCTIONS = lazy_pattern(r"torchvision\.transforms\.(v2\.)?functional\.(?P<name>\w+)$")

TO_TENSOR = {"to_tensor": "ToTensor", "pil_to_tensor": "PILToTensor", "to_image": "ToImage", "to_dtype": "ToDtype"}


@family("torchvision")
def _functional(path: str) -> Transfer | None:
    found = FUNCTIONS.match(path)
    return _apply_function if found and not found["name"].startswith(("get_", "to_pil")) else None


def _apply_function(call: Call) -> Value:
    """`TF.to_tensor(image)`, `TF.hflip(image)`: what the transform of that name gives."""
    name = call.path.rpartition(".")[2]
    given = call.positional[0].value if call.positional else UNKNOWN
    if name in TO_TENSOR:
        return _made_tensor(call, TO_TENSOR[name], given)
    step = LibraryObject("torchvision.transforms.Normalize" if name == "normalize" else call.path)
    return _kept(call, step, step.path.rpartition(".")[2], given)


def _augmented(call: Call, held: LibraryObject) -> Value:
    """What albumentations gives: the same names, with arrays or, after `ToTensorV2`, with tensors."""
    steps = held.arguments.get("transforms", held.arguments.get("0", UNKNOWN))
    items = steps.items if isinstance(steps, Sequence) else [steps]
    paths = [item.path for item in items if isinstance(item, LibraryObject)]
    is_tensor = any(path.endswith((".ToTensorV2", ".ToTensor")) for path in paths)
    entries: dict[Literal, Value] = {
        name: _augmented_part(call, name, argument, is_tensor=is_tensor) for name, argument in call.keywords.items()
    }
    return Mapping(entries, not call.is_open, origin=call.location)


def _augmented_part(call: Call, name: str, argument: Argument, *, is_tensor: bool) -> Value:
    if not name.startswith(("image", "mask")) or name in {"images", "masks"}:
        return argument.value
    is_picture = is_tensor and name.startswith("image")
    given = argument.value
    rank = given.shape.rank if isinstance(given, Tensor) else given.axes if isinstance(given, ColumnValues) else None
    kept = ANY if rank is None else Shape((None,) * rank, False)
    return _array(call, CHANNELS_FIRST if is_picture else kept, "")


def _record(call: Call, held: LibraryObject) -> Value:
    """An object of a class that `namedtuple` made: its values by name."""
    names = held.arguments.get("field_names", held.arguments.get("1", UNKNOWN))
    text = literal(names)
    known = text.replace(",", " ").split() if isinstance(text, str) else _texts(names)
    if known is None:
        escape(call)
        return UNKNOWN
    given = call.values(*known)
    entries: dict[Literal, Value] = {name: given.get(name, Unknown(name=name)) for name in known}
    return Named(entries, origin=call.location)


def _texts(value: Value) -> list[str] | None:
    items = value.items if isinstance(value, Sequence) and value.is_complete else [UNKNOWN]
    texts = [item.value for item in items if isinstance(item, Constant) and isinstance(item.value, str)]
    return texts if len(texts) == len(items) else None
