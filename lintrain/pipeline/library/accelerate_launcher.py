"""Accelerate and Lightning Fabric: what prepares a plain loop's objects, and runs its backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.core.place import Place
from lintrain.pipeline.call import Call
from lintrain.pipeline.events import Act
from lintrain.pipeline.registry import attribute_of, function, method, method_of
from lintrain.pipeline.values.model import Launcher
from lintrain.pipeline.values.python import UNKNOWN, Bound, Constant, LibraryObject, Sequence, Unknown, Value

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader


@function("accelerate.Accelerator", "lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric")
def _launcher(call: Call) -> Value:
    return Launcher(call.path, call.values(), origin=call.place)


@attribute_of(Launcher)
def _attribute(reader: Reader, value: Value, name: str, place: Place) -> Value | None:
    return Bound(value, name) if method_of(value, name) else Unknown(name=f"launcher.{name}")


@method(Launcher, "prepare", "setup", "setup_dataloaders")
def _prepare(call: Call) -> Value:
    """The objects themselves, in the order in which they were given."""
    given = [argument.value for argument in call.positional]
    if call.is_open or not given:
        return UNKNOWN
    return given[0] if len(given) == 1 else Sequence(given, "tuple")


@method(Launcher, "prepare_model", "prepare_optimizer", "prepare_data_loader", "prepare_scheduler", "setup_module")
@method(Launcher, "unwrap_model", "setup_optimizers", "skip_first_batches")
def _same(call: Call) -> Value:
    """The first of the objects that it is given."""
    return call.positional[0].value if call.positional else UNKNOWN


@method(Launcher, "backward")
def _backward(call: Call) -> Value:
    loss = call.argument("loss", 0) or call.argument("tensor", 0)
    text = Constant(loss.text if loss else "")
    call.reader.act(Act.BACKWARD, call.place, call.receiver, loss=loss.value if loss else UNKNOWN, text=text)
    return Constant(None)


@method(Launcher, "clip_grad_norm_", "clip_grad_value_")
def _clip(call: Call) -> Value:
    call.reader.act(Act.CLIP, call.place, call.positional[0].value if call.positional else UNKNOWN)
    return UNKNOWN


@method(Launcher, "clip_gradients")
def _clip_gradients(call: Call) -> Value:
    call.reader.act(Act.CLIP, call.place, call.value("module", 0))
    return UNKNOWN


@method(Launcher, "accumulate", "no_sync", "autocast", "local_sgd", "no_backward_sync")
def _manager(call: Call) -> Value:
    return LibraryObject("contextlib.nullcontext", origin=call.place)


@method(Launcher, "gather", "gather_for_metrics", "reduce", "pad_across_processes")
def _gather(call: Call) -> Value:
    """The same values from all processes."""
    return call.positional[0].value if call.positional else UNKNOWN


@method(Launcher, "print", "log", "wait_for_everyone", "save", "save_state", "load_state", "end_training", "launch")
@method(Launcher, "init_trackers", "register_for_checkpointing", "free_memory", "get_state_dict", "save_model")
@method(Launcher, "unscale_gradients", "main_process_first", "get_tracker", "barrier", "seed_everything")
def _harmless(call: Call) -> Value:
    return UNKNOWN
