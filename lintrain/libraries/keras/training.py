"""Training with Keras: `compile` and `fit`, and the optimizers that they are given."""

from __future__ import annotations

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import Transfer, family, instance_method, method
from lintrain.interpreter.invocation import record_call
from lintrain.libraries.keras.history import history_of
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.certainty import UNCERTAIN
from lintrain.pipeline.values.model import Layer, Model, Network, Optimizer, Role, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Instance,
    Library,
    LibraryObject,
    Unknown,
    Value,
    is_true,
    literal,
)
from lintrain.pipeline.values.tensors import Operation, Shape
from lintrain.pipeline.values.training import KerasRun

LEARNING_RATES = {
    "Adadelta": 0.001,
    "Adafactor": 0.001,
    "Adagrad": 0.001,
    "Adam": 0.001,
    "AdamW": 0.001,
    "Adamax": 0.001,
    "Ftrl": 0.001,
    "Lion": 0.001,
    "Nadam": 0.001,
    "RMSprop": 0.001,
    "SGD": 0.01,
}
"""The default of `learning_rate`, as in Keras 3.15."""


OWN_STEPS = ("train_step", "compute_loss", "compile", "fit")
"""Methods by which a script's own class may treat its outputs in a way of its own."""


@method(Network, "compile")
@method(Model, "compile")
@instance_method("keras.Model", "compile")
@instance_method("keras.models.Model", "compile")
def _compile(call: Call) -> Value:
    """A run to come; a torch model's `compile` is another thing and gives the model itself."""
    model = call.receiver
    _record(call)
    # `torch.compile` as a method: `model.compile()` makes a torch model faster and trains nothing.
    if isinstance(model, Model) and model.framework != "tf":
        return model
    run = KerasRun(
        model,
        call.location,
        call.named("optimizer", "loss"),
        is_complete=not call.is_open,
        output=_output_of(call, model),
        frozen=model.frozen if isinstance(model, Network) else None,
    )
    call.reader.record.keras_runs.append(run)
    return Constant(None)


def _output_of(call: Call, model: Value) -> Value:
    """The last layer: of a network, or of what the script's own class returns from `call`."""
    if isinstance(model, Network):
        return model.last or UNKNOWN
    # A class with its own `train_step` may do anything with its outputs before they reach the loss.
    if not isinstance(model, Instance) or any(model.cls.lookup(name) for name in OWN_STEPS):
        return UNKNOWN
    if model.cls.lookup("call") is None:
        return UNKNOWN
    bound = dispatch.attribute(call.reader, model, "call", call.location)
    return dispatch.call(call.reader, bound, [Unknown(name="inputs")], location=call.location)


@method(Network, "fit")
@method(Model, "fit")
@instance_method("keras.Model", "fit")
@instance_method("keras.models.Model", "fit")
def _fit(call: Call) -> Value:
    _record(call)
    runs = call.reader.record.keras_runs
    # The last `compile` counts: fine-tuning scripts compile the same model a second time with a lower rate.
    run = next((run for run in reversed(runs) if run.model is call.receiver), None)
    if run is None:
        run = KerasRun(call.receiver, None)
        runs.append(run)
    given = _of_today(call.named("x", "y", "batch_size", "epochs"))
    if call.is_open:
        # `fit(**options)` of options that are known in part.
        given = {**given, "**": given.get("**", Argument(UNKNOWN, call.location))}
    run.fits.append((call.location, given))
    call.reader.act(Act.TRAIN, call.location, call.receiver)
    return UNKNOWN if isinstance(call.receiver, Model) and call.receiver.framework != "tf" else history_of(call)


@method(Network, "fit_generator")
def _fit_generator(call: Call) -> Value:
    """`fit` with batches, as Keras called it until 2.15."""
    call.positional = [*call.positional[:1]]
    given = call.keywords.pop("generator", None)
    if given is not None:
        call.keywords["x"] = given
    return _fit(call)


def _record(call: Call) -> None:
    """Note a call of a network's method for the rules about arguments, under the name that Keras has for it."""
    if isinstance(call.receiver, Network) and call.path.startswith("Network."):
        path, call.path = call.path, f"{call.receiver.path}.{call.path.partition('.')[2]}"
        record_call(call)
        call.path = path


def _of_today(arguments: dict[str, Argument]) -> dict[str, Argument]:
    """The arguments of `fit` with `nb_epoch`, as Keras 1 calls it, under its name of today."""
    return {"epochs" if name == "nb_epoch" else name: argument for name, argument in arguments.items()}


@method(Network, "evaluate", "predict")
def _evaluate(call: Call) -> Value:
    runs = call.reader.record.keras_runs
    run = next((run for run in reversed(runs) if run.model is call.receiver), None)
    given = call.argument("x", 0)
    is_prediction = call.path.endswith(".predict")
    if run is not None and given is not None:
        (run.predictions if is_prediction else run.evaluations).append(given)
    labels = call.argument("y", 1)
    if run is not None and labels is not None and not is_prediction:
        run.evaluation_labels.append(labels)
    return _predicted(call, run) if is_prediction else UNKNOWN


OF_CLASSES = {"softmax": Role.PROBABILITIES, "sigmoid": Role.PROBABILITIES}
"""What the activation of the last layer says about its numbers."""


def _predicted(call: Call, run: KerasRun | None) -> Value:
    """The array of what the last layer gives for all rows, where that is a dense one."""
    network = call.receiver
    last = network.last if isinstance(network, Network) else None
    if not isinstance(network, Network) or last is None or "**" in last.arguments or last.path != "keras.layers.Dense":
        return UNKNOWN
    activation = last.arguments.get("activation", Constant(None))
    name = activation.name if isinstance(activation, Library) else literal(activation)
    is_classifier = run is not None and _compares_classes(run.value("loss"))
    role = OF_CLASSES.get(str(name), Role.LOGITS if is_classifier and name in {None, "linear"} else Role.UNKNOWN)
    units = literal(last.arguments.get("units", UNKNOWN))
    size = units if isinstance(units, int) else None
    # A layer that is called on a sequence has one output for each of its steps.
    shape = Shape((None, size), False) if size == 1 and not _is_of_steps(network) else Shape()
    made = Operation("predict", call.location, call.text)
    return Tensor(role, network, call.text, made, shape, "float", made, origin=call.location)


def _compares_classes(loss: Value) -> bool:
    """Whether a loss is a cross-entropy, so that what it gets has one number for each class."""
    named = loss.path if isinstance(loss, LibraryObject | Library) else str(literal(loss))
    return "crossentropy" in named.lower()


def _is_of_steps(network: Network) -> bool:
    """Whether the last layers may get one vector for each step of a sequence."""
    layer: Value | None = network.last
    before = network.layers[:-1]
    while isinstance(layer, Layer) and layer.path in ONE_BY_ONE:
        layer = before.pop() if before else layer.inputs[0] if len(layer.inputs) == 1 else None
    if isinstance(layer, Layer) and layer.name == "Bidirectional":
        # It gives what the layer gives that it runs in both directions.
        wrapped = layer.arguments.get("layer", layer.arguments.get("0", UNKNOWN))
        layer = wrapped if isinstance(wrapped, Layer) else layer
    return isinstance(layer, Layer) and (
        layer.name in {"Conv1D", "Embedding", "TimeDistributed", "Bidirectional", "MultiHeadAttention"}
        or is_true(layer.arguments.get("return_sequences", UNKNOWN))
    )


ONE_BY_ONE = frozenset(
    f"keras.layers.{name}" for name in ("Activation", "BatchNormalization", "Dense", "Dropout", "LayerNormalization")
)
"""Layers that treat the steps of a sequence alike."""


@method(Network, "summary", "save", "save_weights", "get_layer", "count_params", "build")
@method(Network, "load_weights", "get_config", "export", "predict_on_batch", "call")
def _look(call: Call) -> Value:
    return UNKNOWN


@method(Network, "train_on_batch")
def _train_on_batch(call: Call) -> Value:
    for run in call.reader.record.keras_runs:
        run.takes_single_steps = run.takes_single_steps or run.model is call.receiver
    return UNKNOWN


@family("keras")
def _optimizer(path: str) -> Transfer | None:
    name = path.rpartition(".")[2]
    is_optimizer = path.startswith("keras.optimizers.") and name in LEARNING_RATES
    return _make_optimizer if is_optimizer else None


def _make_optimizer(call: Call) -> Value:
    """Old scripts call the rate `lr`."""
    given = call.argument("learning_rate", 0) or call.argument("lr")
    # A default of the library, marked as one: rules about high rates name it differently from one that the
    # script chose.
    default = Constant(LEARNING_RATES[call.path.rpartition(".")[2]], UNCERTAIN)
    rate = given.value if given else UNKNOWN if call.is_open else default
    return Optimizer(
        call.path,
        rate,
        given.location if given else None,
        (),
        False,
        call.values("learning_rate"),
        call.text,
        origin=call.location,
    )
