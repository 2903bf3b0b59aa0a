"""Labels for Keras: one-hot rows, numbers of classes, and the data sets and loaders that come with either."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    family,
    function,
    method,
    operated,
    stored_item_of,
    subscript_of,
)
from lintrain.interpreter.shapes import ANY, viewed
from lintrain.libraries.numpy.random_numbers import is_permutation
from lintrain.model.location import Location
from lintrain.pipeline.values.data import Dataset, Slices
from lintrain.pipeline.values.model import Model, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Function,
    LibraryObject,
    Literal,
    Mapping,
    Sequence,
    Slice,
    Unknown,
    Value,
    is_missing,
    is_true,
    literal,
    number_of,
)
from lintrain.pipeline.values.tensors import Derived, Shape
from lintrain.pipeline.values.training import KerasLabels, LabelledBatches, Pixels

CLASSES = {"mnist": 10, "fashion_mnist": 10, "cifar10": 10, "cifar100": 100, "reuters": 46, "imdb": 2}
"""The data sets of `keras.datasets` whose labels are numbers of classes."""


SIDES = {"mnist": 28, "fashion_mnist": 28, "cifar10": 32, "cifar100": 32}
"""The height and width of the images of a data set."""

OF_TEXT = frozenset({"reuters", "imdb"})


@function("keras.utils.to_categorical", "keras.utils.np_utils.to_categorical")
def _to_categorical(call: Call) -> Value:
    # Without `num_classes` the width is the largest label plus one, which only the data shows.
    given = call.argument("num_classes", 1) or call.argument("nb_classes")
    count = number_of(given.value) if given else None
    labels = call.value("x", 0)
    known = labels.classes if isinstance(labels, KerasLabels) and given is None else None
    classes = int(count) if count else known
    return KerasLabels(True, classes, _encoded(labels, classes), origin=call.location)


def _encoded(labels: Value, classes: int | None) -> Shape:
    """The shape of one-hot rows: an axis more than that of the numbers, a last axis of 1 left out."""
    shape = labels.shape if isinstance(labels, Tensor | Derived | KerasLabels) else ANY
    sizes = shape.sizes[:-1] if len(shape.sizes) > 1 and shape.last == 1 else shape.sizes
    return ANY if shape.is_open or (shape.last is None and len(sizes) > 1) else Shape((*sizes, classes), False)


@family("keras")
def _ready_data(path: str) -> Transfer | None:
    parts = path.split(".")
    is_loading = len(parts) == 4 and parts[1] == "datasets" and parts[2] in CLASSES and parts[3] == "load_data"
    return _load_data if is_loading else None


def _load_data(call: Call) -> Value:
    """`(x_train, y_train), (x_test, y_test)`."""
    count: int | None = CLASSES[call.path.split(".")[2]]
    # `cifar100.load_data("coarse")` gives the 20 groups of classes.
    mode = call.value("label_mode", 0) if count == 100 else Constant("fine")
    if not isinstance(mode, Absent):
        count = {"fine": count, "coarse": 20}.get(str(literal(mode)))
    return Sequence([_pair(call, count), _pair(call, count)], "tuple")


def _pair(call: Call, count: int | None) -> Value:
    name = call.path.split(".")[2]
    inputs = Unknown(name="texts") if name in OF_TEXT else Pixels(side=SIDES.get(name), origin=call.location)
    shape = Shape((None, 1) if name.startswith("cifar") else (None,), False)
    return Sequence([inputs, KerasLabels(False, count, shape, origin=call.location)], "tuple")


@function("keras.utils.img_to_array", "keras.preprocessing.image.img_to_array")
def _array_of_image(call: Call) -> Value:
    """The numbers of a loaded image, as they are in the file."""
    given = call.value("img", 0)
    return given if isinstance(given, Pixels) else Pixels(origin=call.location)


@method(Pixels, "astype", "copy")
def _same_pixels(call: Call) -> Value:
    return call.receiver


@method(Pixels, "reshape")
def _reshaped_pixels(call: Call) -> Value:
    known = call.receiver
    return replace(known, side=None) if isinstance(known, Pixels) else known


@subscript_of(Pixels)
def _some_pixels(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`x[:100]` and `x[..., None]` are pixels, and one row of them is none of this form."""
    if isinstance(key, Sequence) and isinstance(value, Pixels):
        return replace(value, side=None)
    return value if isinstance(key, Slice) or is_permutation(key) else UNKNOWN


@function("tensorflow.expand_dims", "tensorflow.cast")
def _expanded(call: Call) -> Value:
    given = call.positional[0].value if call.positional else UNKNOWN
    if not isinstance(given, Pixels):
        return UNKNOWN
    return given if call.path.endswith(".cast") else replace(given, side=None)


@stored_item_of(Pixels)
def _change_some(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`x[i] = x[i] / 255` in a loop."""
    if isinstance(owner, Pixels):
        owner.is_scaled = True


@operated(Pixels)
def _calculated(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """Any arithmetic with pixels counts as scaling."""
    return Pixels(True, left.side, origin=location) if isinstance(left, Pixels) else None


@method(KerasLabels, "astype", "copy", "toarray", "todense", "to_numpy")
def _same_labels(call: Call) -> Value:
    return call.receiver


@method(KerasLabels, "reshape", "squeeze", "flatten", "ravel")
def _reshaped_labels(call: Call) -> Value:
    """A reshape to `(-1,)` or `(-1, 1)` keeps what the labels are: numbers of classes."""
    labels, given = call.receiver, [argument.value for argument in call.positional]
    if not isinstance(labels, KerasLabels):
        return UNKNOWN
    shape = viewed(labels.shape, given) if call.path.endswith(".reshape") and not call.is_open else ANY
    return replace(labels, shape=shape)


@subscript_of(KerasLabels)
def _some_labels(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`y[:100]` has the same form, and `y[order]` by a permutation of the rows; `y[:, 0]` and `y == 3` have not."""
    return value if isinstance(key, Slice) or is_permutation(key) else UNKNOWN


@function("keras.utils.image_dataset_from_directory", "keras.preprocessing.image_dataset_from_directory")
@function("keras.utils.text_dataset_from_directory", "keras.preprocessing.text_dataset_from_directory")
def _from_folder(call: Call) -> Value:
    mode = call.value("label_mode", 2)
    batches = _batches(call, "int" if isinstance(mode, Absent) else literal(mode))
    if isinstance(batches, LabelledBatches) and "image_dataset" in call.path:
        return replace(batches, pixels=Pixels(origin=call.location))
    return batches


@method(LabelledBatches, "cache", "prefetch", "shuffle", "take", "skip", "repeat")
def _same_batches(call: Call) -> Value:
    return call.receiver


SCALES = frozenset(
    {
        "rescale",
        "preprocessing_function",
        "samplewise_center",
        "featurewise_center",
        "samplewise_std_normalization",
        "0",
    }
)
"""Arguments of `ImageDataGenerator` that change the range of the pixels."""


@method(LibraryObject, "flow_from_directory", "flow_from_dataframe")
def _from_image_folder(call: Call) -> Value:
    """Batches of an `ImageDataGenerator`; their labels are one-hot rows unless `class_mode` differs."""
    generator = call.receiver
    if not isinstance(generator, LibraryObject) or not generator.path.endswith(".ImageDataGenerator"):
        return UNKNOWN
    mode = call.value("class_mode", 4 if call.path.endswith("_directory") else 8)
    chosen = "categorical" if isinstance(mode, Absent) else literal(mode)
    if chosen not in {"binary", "sparse", "categorical"}:
        return UNKNOWN
    # Augmentation and scaling are arguments of the generator.
    is_raw = not SCALES & generator.arguments.keys() and "**" not in generator.arguments
    pixels = Pixels(not is_raw, origin=generator.origin)
    return LabelledBatches(chosen == "categorical", 2 if chosen == "binary" else None, pixels, origin=call.location)


@method(LibraryObject, "flow")
def _augmented(call: Call) -> Value:
    """Batches of arrays: the labels are those that the call gets."""
    generator, labels = call.receiver, call.value("y", 1)
    is_generator = isinstance(generator, LibraryObject) and generator.path.endswith(".ImageDataGenerator")
    if not is_generator or not isinstance(labels, KerasLabels):
        return UNKNOWN
    return LabelledBatches(labels.is_one_hot, labels.classes, origin=labels.origin)


def _batches(call: Call, mode: object) -> Value:
    forms = {"int": False, "categorical": True}
    return LabelledBatches(forms[mode], origin=call.location) if isinstance(mode, str) and mode in forms else UNKNOWN


@method(LabelledBatches, "map", "filter", "apply", "unbatch")
def _changed_batches(call: Call) -> Value:
    return UNKNOWN


@method(KerasLabels, "argmax")
def _numbers(call: Call) -> Value:
    labels = call.receiver
    is_each = literal(call.value("axis", 0)) in {1, -1}
    if not isinstance(labels, KerasLabels) or not labels.is_one_hot or not is_each:
        return UNKNOWN
    shape = ANY if labels.shape.is_open else Shape(labels.shape.sizes[:-1], False)
    return KerasLabels(False, labels.classes, shape, origin=call.location)


@function("tensorflow.data.Dataset.from_tensor_slices", "tensorflow.data.Dataset.from_tensors")
def _slices(call: Call) -> Value:
    return Slices(call.value("tensors", 0), origin=call.location)


@method(Slices, "batch", "shuffle", "prefetch", "cache", "repeat", "take", "skip", "with_options", "shard", "unbatch")
def _same_rows(call: Call) -> Value:
    return call.receiver


@method(Slices, "map")
def _mapped_rows(call: Call) -> Value:
    """What the function returns for the parts of a row, which are passed one by one."""
    parts = call.receiver.structure if isinstance(call.receiver, Slices) else UNKNOWN
    given = parts.items if isinstance(parts, Sequence) and parts.is_complete else [parts]
    mapping = call.value("map_func", 0)
    count = len(mapping.node.args.args) if isinstance(mapping, Function) else 0
    rows = given if count == len(given) else [Unknown(name="part") for _ in range(count)]
    made = dispatch.call(call.reader, mapping, rows, location=call.location) if count else UNKNOWN
    return Slices(made, origin=call.location)


@method(Slices, "filter", "padded_batch", "apply", "interleave")
def _other_rows(call: Call) -> Value:
    return Slices(UNKNOWN, origin=call.location)


@function("tensorflow_datasets.load")
def _ready_rows(call: Call) -> Value:
    """Pairs of a row and its label, where one split is asked for that way."""
    split = literal(call.value("split", 1))
    if not isinstance(split, str) or not is_true(call.value("as_supervised")) or is_true(call.value("with_info")):
        return LibraryObject(call.path, call.values(), origin=call.location)
    return Slices(Sequence([Unknown(name="row"), Unknown(name="label")], "tuple"), origin=call.location)


@function("tensorflow.one_hot")
def _one_hot(call: Call) -> Value:
    depth = number_of(call.value("depth", 1))
    is_plain = not {"axis", "on_value", "off_value"} & call.keywords.keys() and len(call.positional) <= 2
    classes = int(depth) if depth else None
    return KerasLabels(True, classes, origin=call.location) if is_plain else UNKNOWN


@method(Dataset, "to_tf_dataset")
def _to_tf(call: Call) -> Value:
    """The columns as a dictionary, and the label columns as a second element if any are named."""
    columns, labels = call.value("columns", 0), call.value("label_cols", 4)
    names = columns.items if isinstance(columns, Sequence) and columns.is_complete else [columns]
    # With `label_cols=` the rows are pairs of inputs and labels, and pairs are not followed.
    if not is_missing(labels) or not all(isinstance(name, Constant) for name in names):
        return Slices(UNKNOWN, origin=call.location)
    entries = {name.value: Unknown(name="column") for name in names if isinstance(name, Constant)}
    return Slices(Mapping(dict[Literal, Value](entries), not isinstance(columns, Absent)), origin=call.location)


@method(Model, "prepare_tf_dataset")
def _prepare_tf(call: Call) -> Value:
    """The labels come as a second element, as the model needs them."""
    return Slices(UNKNOWN, origin=call.location)
