"""Accelerate, Lightning Fabric and apex's `amp`: what prepares a plain loop's objects, and runs its backward pass.

`notebook_launcher` and the like run one of the script's functions in each process.
"""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, function, method, method_of
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Launcher, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    Function,
    LibraryObject,
    Sequence,
    Unknown,
    Value,
)
from lintrain.pipeline.values.tensors import Whole

OF_ACCELERATOR = ("device_placement", "split_batches", "mixed_precision", "gradient_accumulation_steps", "cpu")
OF_FABRIC = ("accelerator", "strategy", "devices", "num_nodes", "precision", "plugins", "callbacks", "loggers")
"""Parameters in the order of accelerate 1.15 and lightning 2.6."""


@function("accelerate.Accelerator", "lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric")
def _launcher(call: Call) -> Value:
    parameters = OF_ACCELERATOR if call.path.startswith("accelerate.") else OF_FABRIC
    locations = {name: argument.keyword or argument.location for name, argument in call.named(*parameters).items()}
    launcher = Launcher(call.path, call.values(*parameters), locations, call.is_open, origin=call.location)
    call.reader.record.launchers.append(launcher)
    return launcher


@attribute_of(Launcher)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    """What it was made with may be asked of it again."""
    if isinstance(value, Launcher) and name == "gradient_accumulation_steps":
        return value.arguments.get(name) or Unknown(name=f"launcher.{name}")
    if name in {"sync_gradients", "gradient_state"}:
        # A loop that asks `accelerator.sync_gradients` accumulates gradients by itself, and rules about clearing
        # them must know that.
        reader.act(Act.ACCUMULATE, location, value)
    return Bound(value, name) if method_of(value, name) else Unknown(name=f"launcher.{name}")


@method(Launcher, "prepare", "setup", "setup_dataloaders")
def _prepare(call: Call) -> Value:
    """The objects themselves, in the order in which they were given."""
    given = [argument.value for argument in call.positional]
    _note_prepared(call, [UNKNOWN] if call.is_open or not given else given)
    if call.is_open or not given:
        return UNKNOWN
    # Prepared objects are the given ones: the model that is trained is the one that the script made, with
    # its settings.
    return given[0] if len(given) == 1 else Sequence(given, "tuple")


def _note_prepared(call: Call, given: list[Value]) -> None:
    if isinstance(call.receiver, Launcher):
        call.receiver.prepared.extend(given)
        for value in given:
            call.reader.act(Act.SHARE, call.location, value, how=Constant(call.receiver.path), launcher=call.receiver)


@method(Launcher, "prepare_model", "prepare_optimizer", "prepare_data_loader", "prepare_scheduler", "setup_module")
@method(Launcher, "setup_optimizers")
def _prepare_one(call: Call) -> Value:
    """The first of the objects that it is given, prepared."""
    _note_prepared(call, [argument.value for argument in call.positional])
    return call.positional[0].value if call.positional else UNKNOWN


@method(Launcher, "unwrap_model", "skip_first_batches")
def _same(call: Call) -> Value:
    """The first of the objects that it is given."""
    return call.positional[0].value if call.positional else UNKNOWN


@method(Launcher, "backward")
def _backward(call: Call) -> Value:
    loss = call.argument("loss", 0) or call.argument("tensor", 0)
    text = Constant(loss.text if loss else "")
    call.reader.act(Act.BACKWARD, call.location, call.receiver, loss=loss.value if loss else UNKNOWN, text=text)
    return Constant(None)


@method(Launcher, "clip_grad_norm_", "clip_grad_value_")
def _clip(call: Call) -> Value:
    given = call.positional[0].value if call.positional else UNKNOWN
    call.reader.act(Act.CLIP, call.location, given, launcher=call.receiver)
    return UNKNOWN


@method(Launcher, "clip_gradients")
def _clip_gradients(call: Call) -> Value:
    call.reader.act(Act.CLIP, call.location, call.value("module", 0), launcher=call.receiver)
    return UNKNOWN


@method(Launcher, "accumulate", "no_sync", "local_sgd", "no_backward_sync")
def _accumulate(call: Call) -> Value:
    call.reader.act(Act.ACCUMULATE, call.location, call.receiver)
    # A manager that leaves autograd alone: without this the `with` would count as one that may turn
    # gradients off.
    return LibraryObject("contextlib.nullcontext", origin=call.location)


@method(Launcher, "autocast")
def _manager(call: Call) -> Value:
    return LibraryObject("contextlib.nullcontext", origin=call.location)


@method(Launcher, "gather", "gather_for_metrics", "reduce", "pad_across_processes")
def _gather(call: Call) -> Value:
    """The same values from all processes, in tensors of their own."""
    if not call.positional:
        return UNKNOWN
    given = call.positional[0]
    if call.path.endswith(".gather"):
        call.reader.act(Act.GATHER, call.location, given.value, launcher=call.receiver, text=Constant(given.text))
    # Values of their own, since they have no graph: a gathered loss in a list does not keep memory.
    return replace(given.value) if isinstance(given.value, Tensor | Sequence | Unknown) else given.value


@method(Launcher, "unscale_gradients")
def _unscale(call: Call) -> Value:
    call.reader.act(Act.UNSCALE, call.location, call.value("optimizer", 0))
    return UNKNOWN


@method(Launcher, "print", "log", "wait_for_everyone", "save", "save_state", "load_state", "end_training", "launch")
@method(Launcher, "init_trackers", "register_for_checkpointing", "free_memory", "get_state_dict", "save_model")
@method(Launcher, "main_process_first", "get_tracker", "barrier", "seed_everything")
def _harmless(call: Call) -> Value:
    return UNKNOWN


@function("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
def _spawn(call: Call) -> Value:
    """`mp.spawn(main_worker, args=(world_size, options))`: the number of the process comes first."""
    return _run_in_processes(call, "fn", [Whole(name="rank")])


@function("accelerate.notebook_launcher", "accelerate.debug_launcher")
def _launch(call: Call) -> Value:
    return _run_in_processes(call, "function", [])


def _run_in_processes(call: Call, name: str, first: list[Value]) -> Value:
    function_given, given = call.value(name, 0), call.value("args", 1)
    items = given.items if isinstance(given, Sequence) and given.is_complete else []
    if isinstance(given, Sequence | Absent) and isinstance(function_given, Function | Bound) and not call.is_open:
        dispatch.call(call.reader, function_given, [*first, *items], location=call.location)
    else:
        escape(call)
    return UNKNOWN


@function("apex.amp.initialize")
def _initialize(call: Call) -> Value:
    """The models and the optimizers, or the models alone if no optimizer is given."""
    models, optimizers = call.value("models", 0), call.value("optimizers", 1)
    return models if isinstance(optimizers, Absent) else Sequence([models, optimizers], "tuple")


@function("apex.amp.scale_loss")
def _scale_loss(call: Call) -> Value:
    """A context manager, which enters with the loss (`lintrain/interpreter/statements.py`)."""
    return LibraryObject("apex.amp.scale_loss", {"0": call.value("loss", 0)}, origin=call.location)
