"""Learning-rate schedules of torch and transformers."""

from __future__ import annotations

from lintrain.pipeline.call import Call
from lintrain.pipeline.events import Act
from lintrain.pipeline.registry import Transfer, family, function, method
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import UNKNOWN, Sequence, Value, options_of

OWN_RATES = frozenset({"OneCycleLR", "CyclicLR"})
"""Schedules that replace the optimizer's learning rate by one of their own."""

OF_TRANSFORMERS = (
    "get_scheduler",
    "get_constant_schedule",
    "get_constant_schedule_with_warmup",
    "get_linear_schedule_with_warmup",
    "get_cosine_schedule_with_warmup",
    "get_cosine_with_hard_restarts_schedule_with_warmup",
    "get_polynomial_decay_schedule_with_warmup",
    "get_inverse_sqrt_schedule",
    "get_wsd_schedule",
)


@family("torch")
def _schedule(path: str) -> Transfer | None:
    package, _, name = path.rpartition(".")
    return _make_schedule if package == "torch.optim.lr_scheduler" and name[:1].isupper() else None


def _make_schedule(call: Call) -> Value:
    return _made(call, call.value("optimizer", 0))


@function(*(f"transformers.{name}" for name in OF_TRANSFORMERS))
def _of_transformers(call: Call) -> Value:
    return _made(call, call.value("optimizer", 1 if call.path.endswith(".get_scheduler") else 0))


def _made(call: Call, optimizer: Value) -> Value:
    for option in options_of(optimizer):
        if isinstance(option, Optimizer) and call.path.rpartition(".")[2] in OWN_RATES:
            option.has_groups = True
    schedule = Scheduler(call.path, optimizer, call.values("optimizer"), origin=call.place)
    call.reader.record.schedulers.append(schedule)
    return schedule


@method(Scheduler, "step", "step_update")
def _step(call: Call) -> Value:
    call.reader.act(Act.SCHEDULER_STEP, call.place, call.receiver)
    return UNKNOWN


@method(Scheduler, "get_last_lr", "get_lr")
def _rates(call: Call) -> Value:
    return Sequence([UNKNOWN], "list", False)


@method(Scheduler, "state_dict", "load_state_dict", "print_lr")
def _look(call: Call) -> Value:
    return UNKNOWN
