"""Optimizers of torch and transformers: their learning rate, what they train, and what their methods do.

Learning-rate schedules of torch and transformers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    base_call,
    family,
    function,
    method,
    method_of,
    stored_attribute_of,
)
from lintrain.libraries.torch import group_rates, lambda_schedules
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.certainty import UNCERTAIN
from lintrain.pipeline.values.model import ModelPart, Optimizer, Parameter, Parameters, Scheduler
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Absent,
    Bound,
    Class,
    Constant,
    Either,
    Function,
    LibraryObject,
    Mapping,
    Sequence,
    Unknown,
    Value,
    options_of,
)

LEARNING_RATES = {
    "torch.optim.ASGD": 1e-2,
    "torch.optim.Adadelta": 1.0,
    "torch.optim.Adafactor": 1e-2,
    "torch.optim.Adagrad": 1e-2,
    "torch.optim.Adam": 1e-3,
    "torch.optim.AdamW": 1e-3,
    "torch.optim.Adamax": 2e-3,
    "torch.optim.LBFGS": 1.0,
    "torch.optim.Muon": 1e-3,
    "torch.optim.NAdam": 2e-3,
    "torch.optim.RAdam": 1e-3,
    "torch.optim.RMSprop": 1e-2,
    "torch.optim.Rprop": 1e-2,
    "torch.optim.SGD": 1e-3,
    "torch.optim.SparseAdam": 1e-3,
    **dict.fromkeys(("transformers.AdamW", "pytorch_transformers.AdamW"), 1e-3),
}
"""The default of `lr`, as in torch 2.13 (`SGD` has one since 2.2) and transformers 4.46."""


@family("torch")
def _optimizer(path: str) -> Transfer | None:
    package, _, name = path.rpartition(".")
    return make_optimizer if package == "torch.optim" and name[:1].isupper() and name != "Optimizer" else None


@function("transformers.AdamW", "transformers.Adafactor", "pytorch_transformers.AdamW")
def _of_transformers(call: Call) -> Value:
    return make_optimizer(call)


def make_optimizer(call: Call) -> Value:
    """An optimizer as its call makes it."""
    given = call.argument("lr", 1)
    parameters = call.value("params", 0)
    optimizer = Optimizer(
        call.path,
        given.value if given else _default_rate(call),
        given.location if given else None,
        tuple(_trained(parameters)),
        _has_groups(parameters),
        call.values("params", "lr"),
        is_part=_is_part(parameters),
        groups=tuple(_whole_groups(parameters)),
        given=parameters,
        text=call.text,
        origin=call.location,
    )
    call.reader.record.optimizers.append(optimizer)
    call.reader.act(Act.OPTIMIZER, call.location, optimizer)
    for location, key in _unread_keys(parameters):
        # One of them says that the groups are written for another optimizer.
        call.reader.record.misuses.append(Misuse(location or call.location, optimizer, "key of a group", key))
        break
    return optimizer


def _unread_keys(parameters: Value) -> Iterator[tuple[Location | None, str]]:
    """The keys of groups that an optimizer keeps and never reads, although they mean a setting."""
    for option in options_of(parameters):
        for group in option.items if isinstance(option, Sequence) else ():
            if isinstance(group, Mapping) and "params" in group.entries:
                keys = sorted(key for key in UNREAD_KEYS & group.entries.keys() if _name_read(key) not in group.entries)
                yield from ((group.written.get(key), key) for key in keys)


def _name_read(key: str) -> str:
    return "lr" if key == "learning_rate" else "weight_decay"


def _default_rate(call: Call) -> Value:
    rate = LEARNING_RATES.get(call.path)
    return UNKNOWN if call.is_open or rate is None else Constant(rate, UNCERTAIN)


def _trained(parameters: Value, seen: set[int] | None = None) -> list[Value]:
    """The modules whose parameters are among these; what was `seen` in them before is not looked into again."""
    seen = set() if seen is None else seen
    if id(parameters) in seen:
        return []
    # Lists in groups in lists may share items, and each shared one would double the work.
    seen.add(id(parameters))
    match parameters:
        case Parameters() | Parameter():
            return list(parameters.of)
        case Sequence():
            return _distinct(module for item in parameters.items for module in _trained(item, seen))
        case Mapping():
            return _trained(parameters.entries.get("params", ABSENT), seen)
        case LibraryObject():
            return _distinct(module for item in parameters.arguments.values() for module in _trained(item, seen))
        case Either():
            return _distinct(module for option in parameters.options for module in _trained(option, seen))
        case _:
            return []


def _distinct(values: Iterable[Value]) -> list[Value]:
    return list({id(value): value for value in values}.values())


def _is_part(parameters: Value) -> bool:
    """Whether these may be only some of their modules' parameters."""
    match parameters:
        case Parameters():
            return parameters.is_part or any(isinstance(module, ModelPart) for module in parameters.of)
        # A list of parameters may have been filtered: only `model.parameters()` itself is certainly all of
        # them.
        case _:
            return True


def _whole_groups(parameters: Value) -> list[Parameters]:
    """The groups that are all the parameters of some modules: `{"params": encoder.parameters()}`."""
    match parameters:
        case Sequence(items=items):
            groups = [group for group in items if isinstance(group, Mapping)]
            given = [group.entries.get("params", ABSENT) for group in groups]
        case Mapping(entries=entries):
            given = [entries.get("params", ABSENT)]
        case _:
            given = [parameters]
    return [each for each in given if isinstance(each, Parameters) and not each.is_part and not each.is_named]


def _has_groups(parameters: Value) -> bool:
    """Whether groups of parameters may have learning rates of their own."""
    match parameters:
        case Sequence():
            return any(isinstance(item, Mapping) and "lr" in item.entries for item in parameters.items)
        case Unknown() | Either():
            return True
        case _:
            return False


@base_call("torch.optim.Optimizer")
def _own_optimizer(call: Call) -> Value:
    """An optimizer of the script's own: what it does to gradients is not known."""
    cls = call.receiver
    name = cls.node.name if isinstance(cls, Class) else ""
    return Optimizer(name, UNKNOWN, None, (), True, origin=call.location)


@base_call("torch.optim.lr_scheduler.LRScheduler", "torch.optim.lr_scheduler._LRScheduler")
@base_call(*(f"torch.optim.lr_scheduler.{name}" for name in ("LambdaLR", "MultiplicativeLR", "CosineAnnealingLR")))
def _own_schedule(call: Call) -> Value:
    """A schedule of the script's own: what its other arguments mean is not known."""
    cls = call.receiver
    name = cls.node.name if isinstance(cls, Class) else ""
    resumed = {key: value for key, value in call.keywords.items() if key == "last_epoch"}
    made = Scheduler(name, call.value("optimizer", 0), resumed, not call.is_open, text=call.text, origin=call.location)
    call.reader.record.schedulers.append(made)
    return made


@attribute_of(Optimizer)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    """Code that gets the groups may set their rates; a wrapped optimizer is the optimizer."""
    if not isinstance(value, Optimizer):
        return None
    if name in {"param_groups", "defaults"}:
        # `for group in optimizer.param_groups: group["lr"] = ...` sets rates by hand, so the rate of the
        # call is no longer certain. Most code only shows it.
        value.has_groups |= name == "defaults" or group_rates.sets_rates(reader.record.source_of(location))
        return UNKNOWN
    if name == "optimizer":
        return value
    return Bound(value, name) if method_of(value, name) or not name.startswith("state") else UNKNOWN


UNREAD_KEYS = frozenset({"weight_decay_rate", "learning_rate", "l2", "wd"})
"""Keys of groups that mean a setting of another name: `BertAdam` and other libraries read them."""

SETTINGS = frozenset({"lr", "learning_rate", "weight_decay", "momentum", "betas", "eps"})
"""Settings that a group of parameters has under these names, but for `learning_rate`."""


@stored_attribute_of(Optimizer)
def _store(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """An optimizer reads its settings from its groups; other attributes that a script sets are its own affair."""
    if name in SETTINGS and isinstance(owner, Optimizer) and owner.path.startswith("torch.optim."):
        reader.record.misuses.append(Misuse(location, owner, "setting of an optimizer", reader.code(location)))


@method(Optimizer, "step")
def _step(call: Call) -> Value:
    """A step; the closure that it is given runs first."""
    closure = call.value("closure", 0)
    if isinstance(closure, Function | Bound):
        # The closure contains the forward and backward passes of optimizers like LBFGS: its events come
        # before the step.
        dispatch.call(call.reader, closure, [], location=call.location)
    elif not isinstance(closure, Absent):
        call.reader.act(Act.ESCAPE, call.location, call.receiver)
    call.reader.act(Act.STEP, call.location, call.receiver, text=Constant(call.receiver_text), named=Constant(True))
    return UNKNOWN


@method(Optimizer, "zero_grad")
def _zero_grad(call: Call) -> Value:
    call.reader.act(Act.ZERO_GRAD, call.location, call.receiver, text=Constant(call.receiver_text))
    return Constant(None)


@function("apex.amp.master_params")
def _master_params(call: Call) -> Value:
    """The weights of an optimizer, to be clipped: it stays as it was."""
    return UNKNOWN


@method(Optimizer, "state_dict", "train", "eval", "register_step_pre_hook", "register_step_post_hook")
def _look(call: Call) -> Value:
    return UNKNOWN


@method(Optimizer, "load_state_dict", "add_param_group")
def _changed(call: Call) -> Value:
    """Rates and parameters may be others from here on."""
    if isinstance(call.receiver, Optimizer):
        if call.path.endswith("add_param_group"):
            call.receiver.is_extended = True
            # A part that the model got after the optimizer was made is not in its first group.
            if not _changes_models_since(call, call.receiver):
                call.receiver.groups = (*call.receiver.groups, *_whole_groups(call.value("param_group", 0)))
        call.receiver.has_groups = True
        call.receiver.is_part = True
    return UNKNOWN


def _changes_models_since(call: Call, optimizer: Optimizer) -> bool:
    """Whether a part of some module was replaced or added after an optimizer was made."""
    events = call.reader.record.events
    made = next((event.order for event in events if event.act is Act.OPTIMIZER and event.subject is optimizer), 0)
    return any(event.act in {Act.REPLACE, Act.NEW_PART} for event in events[made:])


OWN_RATES = frozenset({"OneCycleLR", "CyclicLR"})
"""Schedules that replace the optimizer's learning rate by one of their own."""

WITH_WARMUP = ("optimizer", "num_warmup_steps", "num_training_steps")

OF_TRANSFORMERS = {
    "get_scheduler": ("name", "optimizer", "num_warmup_steps", "num_training_steps"),
    "get_constant_schedule": ("optimizer",),
    "get_constant_schedule_with_warmup": ("optimizer", "num_warmup_steps"),
    "get_linear_schedule_with_warmup": WITH_WARMUP,
    "get_cosine_schedule_with_warmup": WITH_WARMUP,
    "get_cosine_with_hard_restarts_schedule_with_warmup": WITH_WARMUP,
    "get_cosine_with_min_lr_schedule_with_warmup": WITH_WARMUP,
    "get_polynomial_decay_schedule_with_warmup": WITH_WARMUP,
    "get_inverse_sqrt_schedule": ("optimizer", "num_warmup_steps"),
    "get_wsd_schedule": ("optimizer", "num_warmup_steps", "num_decay_steps", "num_training_steps"),
    **dict.fromkeys(("ConstantLRSchedule", "WarmupConstantSchedule"), ("optimizer", "num_warmup_steps")),
    **dict.fromkeys(("WarmupLinearSchedule", "WarmupCosineSchedule"), WITH_WARMUP),
    "WarmupCosineWithHardRestartsSchedule": WITH_WARMUP,
}
"""The parameters of the schedules of transformers 5.23, in order as far as rules ask for them; the last ones are the
classes of transformers 2.1 and older."""

PACKAGES = ("transformers", "transformers.optimization", "pytorch_transformers")

OF_TORCH = {
    "CosineAnnealingLR": ("optimizer", "T_max"),
    "CosineAnnealingWarmRestarts": ("optimizer", "T_0", "T_mult"),
    "ExponentialLR": ("optimizer", "gamma"),
    "LambdaLR": ("optimizer", "lr_lambda"),
    "LinearLR": ("optimizer", "start_factor", "end_factor", "total_iters"),
    "MultiStepLR": ("optimizer", "milestones", "gamma"),
    "OneCycleLR": ("optimizer", "max_lr", "total_steps", "epochs", "steps_per_epoch"),
    "PolynomialLR": ("optimizer", "total_iters"),
    "ReduceLROnPlateau": ("optimizer", "mode"),
    "SequentialLR": ("optimizer", "schedulers", "milestones"),
    "StepLR": ("optimizer", "step_size", "gamma"),
}
"""The parameters of the schedules of torch 2.13, in order as far as rules ask for them."""


@family("torch")
def _schedule(path: str) -> Transfer | None:
    package, _, name = path.rpartition(".")
    return _of_torch if package == "torch.optim.lr_scheduler" and name[:1].isupper() else None


def _of_torch(call: Call) -> Value:
    name = call.path.rpartition(".")[2]
    schedule = _made(call, OF_TORCH.get(name, ("optimizer",)))
    if name == "LambdaLR" and isinstance(schedule, Scheduler):
        schedule.factors = lambda_schedules.factors(call)
        if (horizon := lambda_schedules.horizon(call)) is not None:
            schedule.given["horizon"] = horizon
    return schedule


@function(*(f"{package}.{name}" for name in OF_TRANSFORMERS for package in PACKAGES))
def _schedule_of_transformers(call: Call) -> Value:
    return _made(call, OF_TRANSFORMERS[call.path.rpartition(".")[2]])


def _made(call: Call, parameters: tuple[str, ...]) -> Value:
    optimizer = call.value("optimizer", parameters.index("optimizer"))
    for option in options_of(optimizer):
        if isinstance(option, Optimizer) and call.path.rpartition(".")[2] in OWN_RATES:
            # `OneCycleLR` overwrites `lr` with its own: rules about the optimizer's rate would judge a
            # number that is never used.
            option.has_groups = True
    given = call.named(*parameters)
    schedule = Scheduler(call.path, optimizer, given, not call.is_open, call.text, origin=call.location)
    call.reader.record.schedulers.append(schedule)
    return schedule


@method(Scheduler, "step", "step_update")
def _step_schedule(call: Call) -> Value:
    """A step of the schedule; one that gets an epoch or a loss (`has_argument`) depends on that."""
    has_argument = Constant(bool(call.positional or call.keywords or call.is_open))
    given = [*call.positional, *call.keywords.values()]
    watched = Constant(given[0].text if len(given) == 1 else "")
    call.reader.act(
        Act.SCHEDULER_STEP, call.location, call.receiver,
        text=Constant(call.receiver_text), has_argument=has_argument, watched=watched,
    )  # fmt: skip
    return UNKNOWN


ONCE_MORE = "rate of the next step"
"""The use of a schedule that is asked for the rates of a step, and not for those that it has set."""


@method(Scheduler, "get_last_lr", "get_lr")
def _rates(call: Call) -> Value:
    if call.path.endswith(".get_lr"):
        call.reader.record.misuses.append(Misuse(call.location, call.receiver, ONCE_MORE, call.receiver_text))
    return Sequence([UNKNOWN], "list", False)


@method(Scheduler, "state_dict", "load_state_dict", "print_lr")
def _look_schedule(call: Call) -> Value:
    return UNKNOWN
