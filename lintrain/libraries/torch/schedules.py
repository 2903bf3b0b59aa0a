"""Learning-rate schedules of torch and transformers."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import Transfer, family, function, method
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import UNKNOWN, Constant, Sequence, Value, options_of

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
}
"""The parameters of the schedules of transformers 5.23, in order as far as rules ask for them."""

OF_TORCH = {
    "CosineAnnealingLR": ("optimizer", "T_max"),
    "CosineAnnealingWarmRestarts": ("optimizer", "T_0", "T_mult"),
    "LinearLR": ("optimizer", "start_factor", "end_factor", "total_iters"),
    "OneCycleLR": ("optimizer", "max_lr", "total_steps", "epochs", "steps_per_epoch"),
    "PolynomialLR": ("optimizer", "total_iters"),
    "SequentialLR": ("optimizer", "schedulers", "milestones"),
    "StepLR": ("optimizer", "step_size", "gamma"),
}
"""The parameters of the schedules of torch 2.13, in order as far as rules ask for them."""


@family("torch")
def _schedule(path: str) -> Transfer | None:
    package, _, name = path.rpartition(".")
    return _of_torch if package == "torch.optim.lr_scheduler" and name[:1].isupper() else None


def _of_torch(call: Call) -> Value:
    return _made(call, OF_TORCH.get(call.path.rpartition(".")[2], ("optimizer",)))


@function(
    *(f"{package}.{name}" for name in OF_TRANSFORMERS for package in ("transformers", "transformers.optimization"))
)
def _of_transformers(call: Call) -> Value:
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
def _step(call: Call) -> Value:
    """A step of the schedule; one that gets an epoch or a loss (`told`) depends on that."""
    told = Constant(bool(call.positional or call.keywords or call.is_open))
    call.reader.act(Act.SCHEDULER_STEP, call.location, call.receiver, text=Constant(call.receiver_text), told=told)
    return UNKNOWN


@method(Scheduler, "get_last_lr", "get_lr")
def _rates(call: Call) -> Value:
    return Sequence([UNKNOWN], "list", False)


@method(Scheduler, "state_dict", "load_state_dict", "print_lr")
def _look(call: Call) -> Value:
    return UNKNOWN
