"""Lightning's `fit`: the steps of the module that it is given are read on the batches of the loaders that feed them."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import replace

from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, function, instance_method, method
from lintrain.interpreter.invocation import record_call
from lintrain.libraries.omegaconf import settings_of
from lintrain.model.location import Location
from lintrain.pipeline.modules import lineage_of
from lintrain.pipeline.record import LibraryName, Returned
from lintrain.pipeline.values.loading import Loader, Settings
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Bound,
    Class,
    Constant,
    Function,
    Instance,
    Mapping,
    Unknown,
    Value,
    options_of,
    text_of,
)
from lintrain.pipeline.values.training import LightningFit, LightningTrainer, LoggedNames

MODULE, DATA_MODULE = "lightning.LightningModule", "lightning.LightningDataModule"
MOST_NAMES = 32
CHANGES_BATCHES = ("on_before_batch_transfer", "on_after_batch_transfer", "transfer_batch_to_device")
"""Hooks by which a module or its data changes batches on their way to a step."""

STEPS = (
    ("training_step", "train_dataloader", "train_dataloaders"),
    ("validation_step", "val_dataloader", "val_dataloaders"),
)
"""The steps, each with the method and the argument that its loader comes from."""


@function("lightning.Trainer")
def _trainer(call: Call) -> Value:
    escape(call)
    return LightningTrainer(call.path, call.values(), origin=call.location)


@method(LightningTrainer, "fit")
def _fit(call: Call) -> Value:
    """Read the steps, with batches where their loader is known; what is not known is read as an unused function."""
    _record(call)
    escape(call)
    given = call.named("model", "train_dataloaders", "val_dataloaders", "datamodule")
    _train(call, {name: argument.value for name, argument in given.items()}, call.receiver or UNKNOWN)
    return UNKNOWN


@method(LightningTrainer, "validate", "test", "predict", "tune")
def _run_stage(call: Call) -> Value:
    _record(call)
    escape(call)
    return UNKNOWN


def _record(call: Call) -> None:
    """Note a call of a Trainer's method for the rules about arguments."""
    # The tables have methods under the name of their class; the call goes on under its own.
    path, call.path = call.path, f"lightning.Trainer.{call.path.rpartition('.')[2]}"
    record_call(call)
    call.path = path


@attribute_of(LightningTrainer)
def _trainer_attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    """Rules ask the tables whether the Trainer still has the method."""
    # Not a removal by itself: attributes that the tables lack are none of the rules' business.
    reader.record.names.append(LibraryName("lightning.Trainer", name, location, reader.guards > 0, False))
    return None


@function("lightning.LightningCLI")
def _command_line(call: Call) -> Value:
    """A module and its data, made with the arguments of the command line, and trained unless `run=False`."""
    given = call.named("model_class", "datamodule_class")
    model, data = (
        _made_for_command_line(call, given[name].value) if name in given else UNKNOWN
        for name in ("model_class", "datamodule_class")
    )
    # Whatever the command line gives the Trainer is not known.
    trainer = LightningTrainer("lightning.Trainer", {"**": UNKNOWN}, origin=call.location)
    run = call.value("run")
    if not _is_off(run):
        adds_optimizer = not _is_off(call.value("auto_configure_optimizers"))
        _train(call, {"model": model, "datamodule": data}, trainer, adds_optimizer=adds_optimizer)
    return Settings({"model": model, "datamodule": data, "trainer": trainer}, is_complete=False)


def _is_off(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is False


def _made_for_command_line(call: Call, cls: Value) -> Value:
    """An object of a class of the script; what its `__init__` has no default for is not known."""
    found = cls.lookup("__init__") if isinstance(cls, Class) else None
    if not isinstance(cls, Class) or (found is not None and not isinstance(found[1], Function)):
        return UNKNOWN
    arguments: dict[str, Value] = {}
    if found is not None and isinstance(found[1], Function):
        node = found[1].node.args
        positional = [*node.posonlyargs, *node.args][1:]
        required = positional[: max(0, len(positional) - len(node.defaults))]
        required += [each for each, default in zip(node.kwonlyargs, node.kw_defaults, strict=True) if default is None]
        arguments = {each.arg: Unknown(name=each.arg) for each in required}
    return dispatch.call(call.reader, cls, [], arguments, location=call.location)


def _train(call: Call, given: dict[str, Value], trainer: Value, *, adds_optimizer: bool = False) -> None:
    module = given.get("model", UNKNOWN)
    fit = LightningFit(call.location, module, trainer=trainer, may_be_given_optimizer=adds_optimizer)
    call.reader.record.lightning_fits.append(fit)
    if isinstance(module, Instance) and MODULE in lineage_of(module.cls.library_bases) and not call.is_open:
        # Lightning calls the steps for each batch, whatever is around `fit`: a condition there is none
        # of the step's.
        conditions, call.reader.conditions = call.reader.conditions, []
        with call.reader.aside():
            loader, held_out = _read_steps(call, module, given)
            fits = call.reader.record.lightning_fits
            fits.append(replace(fits.pop(), loader=loader, held_out=held_out))
        call.reader.conditions = conditions
    elif not call.is_open:
        # A module of another package may change its batches, and reads the same rows.
        loader, held_out = (given.get(name, UNKNOWN) for name in ("train_dataloaders", "val_dataloaders"))
        call.reader.record.lightning_fits[-1] = replace(fit, loader=loader, held_out=held_out)


def _read_steps(call: Call, module: Instance, given: dict[str, Value]) -> tuple[Value, Value]:
    """Read the steps of a module on batches of their loaders; gives the loaders of training and validation."""
    # `fit(model, data_module)`: the second argument may be either.
    second = given.get("train_dataloaders")
    if isinstance(second, Instance) and "datamodule" not in given:
        given = {"datamodule": second, **{name: value for name, value in given.items() if value is not second}}
    data = given.get("datamodule")
    owners = [owner for owner in (data, module) if isinstance(owner, Instance)]
    if any(owner.cls.lookup(hook) for owner in owners for hook in CHANGES_BATCHES):
        return UNKNOWN, UNKNOWN
    # `setup` sets the attributes that the loaders use (`self.train = ...`), so it is read first, as
    # Lightning does.
    for owner in owners:
        _run(call, owner, "prepare_data")
        _run(call, owner, "setup", Unknown(name="stage"))
    _run(call, module, "configure_optimizers")
    found: dict[str, Value] = {}
    for step, loading, argument in STEPS:
        loader = given[argument] if argument in given else _loader_of(call, owners, loading)
        found[step] = loader
        # Without a loader the step is still read at the end, with an unknown batch, like any method that
        # nothing calls.
        if not all(isinstance(option, Loader) for option in options_of(loader)):
            continue
        batch = dispatch.element(call.reader, loader)
        call.reader.without_grad += step == "validation_step"
        _run(call, module, step, batch, Unknown(name="batch_idx"))
        call.reader.without_grad -= step == "validation_step"
    return found["training_step"], found["validation_step"]


def _loader_of(call: Call, owners: list[Instance], name: str) -> Value:
    """The loader that the data module makes, or else the module itself."""
    found = [_run(call, owner, name) for owner in owners if owner.cls.lookup(name)]
    return found[0] if found else UNKNOWN


def _run(call: Call, owner: Instance, name: str, *given: Value) -> Value:
    """What a hook gives that Lightning calls; as many of the arguments as it has parameters for."""
    found = owner.cls.lookup(name)
    if found is None or not isinstance(found[1], Function):
        return UNKNOWN
    parameters = found[1].node.args
    # Lightning passes `batch_idx` only to steps that have a parameter for it. `self` is not counted.
    count = len(parameters.posonlyargs) + len(parameters.args) - 1
    value = dispatch.call(
        call.reader, Bound(owner, name, found[1], found[0]), list(given[:count]), location=call.location
    )
    call.reader.record.returned.append(Returned(owner.cls, found[1], value))
    return value


@instance_method(MODULE, "log", "log_dict")
def _log(call: Call) -> Value:
    """Keep the names; nothing is changed by it."""
    given = call.value("name", 0) if call.path.endswith(".log") else call.value("dictionary", 0)
    call.reader.record.lightning_logs.append(LoggedNames(call.location, _names_in(given)))
    return Constant(None)


@instance_method(MODULE, "save_hyperparameters")
@instance_method(DATA_MODULE, "save_hyperparameters")
def _save_hyperparameters(call: Call) -> Value:
    """What `self.hparams` is from then on: all arguments of `__init__`, those named, or a mapping."""
    function, names = call.reader.frame.function, call.reader.frame.scope.names
    made = _given_settings(call) if function is None or call.positional else _arguments_of(function, names)
    ignored = operations.known_items(call.value("ignore"), MOST_NAMES) or [call.value("ignore")]
    for each in ignored:
        made.entries.pop(text_of(each), None)
    held = call.receiver.attributes if isinstance(call.receiver, Instance) else {}
    before = held.get("hparams")
    if isinstance(before, Settings):
        # A class and the class above it save theirs one after the other.
        made = Settings({**before.entries, **made.entries}, before.is_complete and made.is_complete)
    held["hparams"] = made
    return Constant(None)


def _given_settings(call: Call) -> Settings:
    names = [text_of(each.value) for each in call.positional]
    held = call.reader.frame.scope.names
    if all(names):
        return Settings({name: held.get(str(name), UNKNOWN) for name in names}, is_complete=not call.is_open)
    given = settings_of(call.reader, call.positional[0].value)
    return given if isinstance(given, Settings) and len(names) == 1 else Settings({}, is_complete=False)


def _arguments_of(function: Function, names: MappingOf[str, Value]) -> Settings:
    arguments = function.node.args
    own = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)][1:]
    made = Settings({name: names[name] for name in own if name in names}, is_complete=True)
    if arguments.kwarg is not None:
        others = names.get(arguments.kwarg.arg)
        made.entries.update(others.entries if isinstance(others, Mapping) else {})
        made.is_complete = isinstance(others, Mapping) and others.is_complete
    return made


def _names_in(given: Value) -> tuple[str, ...] | None:
    keys = list(given.entries) if isinstance(given, Mapping) and given.is_complete else []
    if isinstance(given, Constant) and not given.default:
        keys = [given.value]
    names = tuple(key for key in keys if isinstance(key, str))
    return names if names and len(names) == len(keys) else None
