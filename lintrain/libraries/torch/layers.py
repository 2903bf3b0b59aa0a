"""What the layers and losses of torch make of a tensor: sizes of its axes, the operation that computed it, and for the
rules each use of a loss with what it was given.
"""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.certainty import is_certain
from lintrain.interpreter.core.registry import function, method
from lintrain.interpreter.layer_shapes import OPEN, STAGE, argument_of, misfit_of, output_of
from lintrain.interpreter.shapes import ANY, integer
from lintrain.interpreter.time_axis import with_time_first
from lintrain.interpreter.tracing import graph_of, is_data
from lintrain.libraries.torch.default_collation import batch_of_numbers
from lintrain.libraries.torch.network_outputs import features_of, head_of, last_activation, scores_of
from lintrain.pipeline.record import Misuse, ShapeMisfit
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.model import Model, Module, Role, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Sequence,
    Unknown,
    Value,
    is_true,
    literal,
    text_of,
)
from lintrain.pipeline.values.tensors import AxisSize, Operation, Shape, shape_of
from lintrain.pipeline.values.training import LossCall
from lintrain.startup.lazy_pattern import lazy_pattern

NAMES = {
    "Softmax": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid", "LogSigmoid": "logsigmoid", "ReLU": "relu",
    "Linear": "linear", "LazyLinear": "linear", "Bilinear": "bilinear", "Embedding": "embedding", "Tanh": "tanh",
}  # fmt: skip
"""Layers by the names that their functions have; others go by their own names in lower case."""

QUIET = frozenset({"Identity", "Dropout", "Flatten", "Unflatten", "AlphaDropout"})
"""Layers that leave the numbers what they are, in evaluation at least."""

LEARNS = lazy_pattern(
    r"(Lazy)?(Bil|L)inear|Embedding(Bag)?|(Lazy)?Conv\w+|\w*Norm\w*|PReLU|Transformer\w+|\w+Attention"
)
"""Layers with parameters: gradients reach them whatever they are given."""

STEPS_A_LAYER = 5
"""Steps that take as long as finding out what a layer gives: a network may hold a part many times."""


def through(call: Call, module: Module, given: Value) -> Value:
    """What a module gives when it is called on a value."""
    call.reader.spend(STEPS_A_LAYER)
    before = _entering(given, module)
    _note_misfit(call, module, before)
    _note_rows_as_time(call, module, before)
    name = module.name
    if name == "Sequential":
        return _through_all(call, module, before)
    if name in {"LSTM", "GRU", "RNN"}:
        return _recurrent(module, before, call)
    if name == "MultiheadAttention":
        return Sequence(
            [Tensor(model=module, text=call.text, shape=before.shape, origin=call.location), UNKNOWN],
            "tuple",
            origin=call.location,
        )
    head = head_of(module)
    if head is not None:
        return (
            _renamed(through(call, head, features_of(module)), call, module)
            if isinstance(head, Module)
            else _plain(call, module)
        )
    if not module.path.startswith("torch.nn."):
        return _ready_made(call, module)
    return replace(_after(module, before, call), model=module, text=call.text, origin=call.location)


def _ready_made(call: Call, module: Module) -> Tensor:
    """What a classifier or a network for segmentation gives: one number for each of its classes."""
    if module.path == STAGE:
        return replace(_plain(call, module), shape=output_of(module, ANY), kind="float")
    shape = scores_of(module)
    plain = _plain(call, module)
    return plain if shape is None else replace(plain, made=last_activation(module), shape=shape, kind="float")


def _plain(call: Call, module: Module) -> Tensor:
    return Tensor(model=module, text=call.text, origin=call.location)


def _renamed(value: Value, call: Call, module: Module) -> Value:
    return replace(value, model=module, text=call.text, origin=call.location) if isinstance(value, Tensor) else value


def _entering(given: Value, module: Module) -> Tensor:
    """The tensor that goes in; one of which nothing is known where it is not understood."""
    return given if isinstance(given, Tensor) else Tensor(model=module, shape=shape_of(given))


def _note_misfit(call: Call, module: Module, given: Tensor) -> None:
    """Record that a layer gets an input of a size that it was not built for."""
    misfit = misfit_of(module, given.shape) if module.path.startswith("torch.nn.") else None
    if misfit is None or not is_certain(call.reader):
        return
    is_called = call.receiver is module
    here = call.location if is_called else module.origin or call.location
    made = given.made.location if given.made else None
    layer = module.origin if is_called else None
    call.reader.record.misfits.append(
        ShapeMisfit(here, module.name, misfit.expected, misfit.size, str(given.shape), made, layer)
    )


ROWS_AS_TIME = "rows as time"
"""The use of a batch with its rows on the first axis, where a layer has time."""


def _note_rows_as_time(call: Call, module: Module, given: Tensor) -> None:
    """Record a batch with its rows first that goes into a layer which has time there, and so mixes the rows."""
    layer = with_time_first(module)
    # One token in each row: the script may well take the rows of the batch for the steps of one sequence.
    is_batch = given.shape.rows_first and given.shape.rank == TIME_BATCH_FEATURES and given.shape.sizes[1] != 1
    if is_batch and layer is not None and is_certain(call.reader):
        here = call.location if call.receiver is module else module.origin or call.location
        used = Tensor(model=layer, shape=given.shape, origin=given.origin)
        call.reader.record.misuses.append(Misuse(here, used, ROWS_AS_TIME, layer.name))


TIME_BATCH_FEATURES = 3


def _through_all(call: Call, module: Module, tensor: Tensor) -> Value:
    """The parts in order; what is not understood leaves a tensor of which nothing is known."""
    parts = module.parts
    # A part that is a list of layers of unknown length may hold anything, so the shape is lost.
    if OPEN in module.arguments or "Sequential" in {type(part).__name__ for part in parts}:
        return _plain(call, module)
    current: Value = tensor
    for part in parts:
        if isinstance(part, Module):
            current = through(call, part, current)
        elif isinstance(part, Model) or not isinstance(part, Constant):
            current = Unknown()
    return _renamed(current, call, module) if isinstance(current, Tensor) else _plain(call, module)


LINEAR_OF_LINEAR = "linear of linear"
"""The use of a tensor that a linear layer gets from another one, with nothing between them that is not linear."""


def _note_linear(call: Call, module: Module, before: Tensor) -> None:
    """Record a linear layer that gets what another one gives, unless the first one narrows it on purpose."""
    inner, outer = integer(argument_of(module, "in_features", 0)), integer(argument_of(module, "out_features", 1))
    is_plain = module.name == "Linear" and "bias" not in module.arguments and not before.is_sliced
    if not is_plain or before.is_reshaped or inner is None or outer is None or inner < max(outer, 2):
        return
    if before.made is not None and before.made.name == "linear" and before.cut is None:
        here = call.location if call.receiver is module else module.origin or call.location
        call.reader.record.misuses.append(Misuse(here, before, LINEAR_OF_LINEAR, module.name))


def _after(module: Module, before: Tensor, call: Call) -> Tensor:
    name = module.name
    _note_linear(call, module, before)
    made = _operation(module, NAMES.get(name, name.lower()), call)
    if name in QUIET:
        made_before = before.made
        shape = output_of(module, before.shape) if name == "Flatten" else before.shape
        return replace(before, made=made_before, shape=ANY if name == "Unflatten" else shape)
    # A tensor with one axis has no rows: its classes are on axis 0.
    if name in {"Softmax", "LogSoftmax"} and integer(argument_of(module, "dim", 0)) == 0 and before.shape.rank != 1:
        made = replace(made, name=f"{made.name} over rows")
    # A layer with parameters has gradients of its own, even if what goes in was detached.
    cut = None if LEARNS.fullmatch(name) else before.cut
    return replace(before, made=made, shape=output_of(module, before.shape), kind="float", cut=cut, is_reshaped=False)


def _operation(module: Module, name: str, call: Call) -> Operation:
    """The location of a layer's operation: its call, or the line that made it if it is inside a Sequential."""
    # Findings point at the operation: the call if the script makes it itself, else the line where the layer
    # was made.
    if call.receiver is module:
        return Operation(name, call.location, call.text, call.positional[0].text if len(call.positional) == 1 else "")
    return Operation(name, module.origin or call.location)


def _recurrent(module: Module, before: Tensor, call: Call) -> Sequence:
    """What a recurrent layer gives: its states for every token, and its last ones.

    The states have the hidden size, twice that in both directions.
    """
    size = integer(argument_of(module, "hidden_size", 1))
    directions = module.arguments.get("bidirectional")
    known = directions is None or isinstance(literal(directions), bool)
    width = size * (2 if directions is not None and literal(directions) else 1) if size is not None and known else None
    # Two axes in the input may be one row without a batch, so the front stays open, unless the layer asks for batches.
    is_batch = before.shape.rank == 3 or (before.shape.is_open and is_true(argument_of(module, "batch_first", 4)))
    front = before.shape.sizes[:2] if before.shape.rank == 3 else (None, None)
    shape = Shape((*front, width), False) if is_batch else Shape((None, width), True)
    last = Shape((None, None, size), False) if is_batch else Shape((None, size), True)
    if "proj_size" in module.arguments or OPEN in module.arguments:
        shape = last = ANY
    made = Operation(module.name.lower(), call.location)
    states, hidden = (
        Tensor(model=module, text=call.text, made=made, shape=each, kind="float", origin=call.location)
        for each in (shape, last)
    )
    final: Value = hidden if module.name != "LSTM" else Sequence([hidden, replace(hidden)], "tuple")
    return Sequence([states, final], "tuple", origin=call.location)


MODULES = {
    "CrossEntropyLoss": "cross_entropy",
    "NLLLoss": "nll_loss",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "MSELoss": "mse_loss",
    "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
}
"""Loss modules by the functions that they call."""


PAIR = ("input", "target")


def loss_of(call: Call, name: str, options: dict[str, Value]) -> Value:
    """Keep one use of a loss, and give its value."""
    prediction, target = call.argument("input", 0), _target_of(call)
    reader = call.reader
    off = reader.without_grad > 0
    is_alternative = reader.alternatives > 0
    used = LossCall(name, call.location, prediction, target, options, call.text, off, is_alternative)
    # With `*args` prediction and target may be anywhere, and a rule would compare the wrong ones.
    if not call.is_open:
        reader.record.losses.append(used)
    made = Operation(name, call.location, call.text)
    shape = Shape((), False) if _averages(options) else _unreduced(name, options, prediction)
    cut = _cut_of(prediction.value if prediction else Unknown(), target.value if target else Unknown())
    cut = cut or without_graph(call)
    passes = graph_of(given.value for given in (prediction, target) if given)
    return Tensor(
        Role.LOSS, text=call.text, made=made, shape=shape, kind="float", cut=cut, origin=call.location, passes=passes
    )


def _target_of(call: Call) -> Argument | None:
    """The target; numbers of a frame that a loader put together are a tensor."""
    given = call.argument("target", 1)
    numbers = None
    if given is not None and isinstance(given.value, ColumnValues):
        numbers = batch_of_numbers(given.value, given.location, given.text)
    return replace(given, value=numbers) if given is not None and numbers is not None else given


def function_loss(call: Call) -> Value:
    """`F.cross_entropy(logits, labels)`."""
    return loss_of(call, call.path.rpartition(".")[2], call.values("input", "target"))


def module_loss(call: Call, module: Module) -> Value:
    """`criterion(logits, labels)`."""
    if module.name in MODULES and (len(call.positional) > len(PAIR) or call.keywords.keys() - set(PAIR)):
        # Such a module takes no more: here the name stands for another loss, which another branch put there.
        return _plain(call, module)
    return loss_of(call, MODULES.get(module.name, module.name), module.arguments)


OVER_CLASSES = frozenset({"cross_entropy", "nll_loss"})
"""Losses with one number for a row of class scores; others of those modules have one for each prediction."""


def _unreduced(name: str, options: dict[str, Value], prediction: Argument | None) -> Shape:
    """The shape of a loss that keeps a number for each row or prediction, where that of the predictions is known."""
    given = prediction.value if prediction else None
    if text_of(options.get("reduction", Constant(None))) != "none" or not isinstance(given, Tensor):
        return ANY
    shape = given.shape
    if shape.is_open or name not in MODULES.values() or (name in OVER_CLASSES and len(shape.sizes) < 2):
        return ANY
    return Shape((shape.sizes[0], *shape.sizes[2:]), False) if name in OVER_CLASSES else shape


def _averages(options: dict[str, Value]) -> bool:
    reduction = options.get("reduction")
    return reduction is None or text_of(reduction) in {"mean", "sum"}


def without_graph(call: Call) -> Operation | None:
    """What keeps the result of a call off the graph, if autograd is certainly off around it."""
    return Operation("no_grad", call.location, call.text) if call.reader.grad_is_off else None


def _cut_of(prediction: Value, target: Value) -> Operation | None:
    """What took the loss off the graph: what did it to the prediction, where the target can have no gradient either."""
    if not isinstance(prediction, Tensor) or prediction.cut is None:
        return None
    # If gradients can flow into the target, the loss still has a graph.
    return prediction.cut if is_data(target) else None


def sizes_of(tensor: Tensor) -> Sequence | None:
    """The sizes of all axes; None if it is not known how many there are."""
    if tensor.shape.rank is None:
        return None
    return Sequence([_size_of(size, axis, tensor) for axis, size in enumerate(tensor.shape.sizes)], "tuple")


def _size_of(size: int | None, axis: int, tensor: Tensor) -> Value:
    return Constant(size) if size is not None and size >= 0 else AxisSize(name="size", within=tensor, axis=axis)


@method(Tensor, "size")
def _size(call: Call) -> Value:
    """`x.size()`, `x.size(0)`."""
    given = call.value("dim", 0)
    sizes = sizes_of(call.receiver) if isinstance(call.receiver, Tensor) else None
    if isinstance(given, Absent):
        return sizes or UNKNOWN
    axis = integer(given)
    if sizes is None or axis is None:
        # The first axis of a batch stays the same number, whatever the others are.
        return AxisSize(name="size", axis=0) if axis == 0 else UNKNOWN
    return sizes.items[axis] if -len(sizes.items) <= axis < len(sizes.items) else UNKNOWN


POOLS = {
    f"{name}_pool{axes}d": f"{kind}Pool{axes}d"
    for axes in (1, 2, 3)
    for name, kind in (
        ("max", "Max"), ("avg", "Avg"), ("adaptive_max", "AdaptiveMax"), ("adaptive_avg", "AdaptiveAvg"),
    )
}  # fmt: skip
"""Pools as functions, by the layers that do the same."""


@function(*(f"torch.nn.functional.{name}" for name in POOLS), "torch.max_pool1d", "torch.max_pool2d")
def _pool(call: Call) -> Value:
    """`F.max_pool2d(x, 2)`: what the layer gives that it is the function of."""
    given = call.value("input", 0)
    options = {str(index): argument.value for index, argument in enumerate(call.positional[1:])}
    options.update({name: argument.value for name, argument in call.keywords.items() if name != "input"})
    options.update({OPEN: UNKNOWN} if call.is_open else {})
    layer = Module(f"torch.nn.{POOLS[call.path.rpartition('.')[2]]}", [], options, origin=call.location)
    before = given if isinstance(given, Tensor) else Tensor(shape=shape_of(given))
    shape = output_of(layer, before.shape)
    model = before.model if isinstance(given, Tensor) else Unknown()
    return Tensor(model=model, text=call.text, shape=shape, kind=before.kind, cut=before.cut, origin=call.location)
