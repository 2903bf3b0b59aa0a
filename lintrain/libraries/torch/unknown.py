"""What is not understood, by the names that training code uses: calling a model, stepping an optimizer."""

from __future__ import annotations

import re
from functools import lru_cache

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.module_parts import runs_inside_a_forward
from lintrain.interpreter.core.registry import called, method
from lintrain.libraries.torch.amp import is_scaler, scaled_step
from lintrain.libraries.torch.gradients import MODEL_NAME
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.data import Tokenizer
from lintrain.pipeline.values.model import Model, Module, Optimizer
from lintrain.pipeline.values.python import UNKNOWN, Constant, Function, Unknown, Value
from lintrain.startup.lazy_pattern import lazy_pattern

OPTIMIZER = lazy_pattern(r"(^|[._])(opt|optim|optimizer|optimiser)s?(_?\w{0,12})(\[.*\])?$", re.IGNORECASE)
SCHEDULE = lazy_pattern(r"sched|warmup|(^|[._])lr", re.IGNORECASE)
OTHER_STEPS = lazy_pattern(r"(^|[._])(env|envs|prof|profiler|p|pbar|bar|timer|simulator|game)s?$", re.IGNORECASE)


@method(Unknown, "step")
def _step(call: Call) -> Value:
    """A step of whatever it is: an optimizer by its name, or perhaps one."""
    name = call.receiver_text
    for argument in call.positional:
        if isinstance(argument.value, Function):
            dispatch.call(call.reader, argument.value, [], location=call.location)
    if is_scaler(call.receiver, name) and len(call.positional) == 1:
        scaled_step(call)
    # By name, in this order: `lr_scheduler.step()` must not count as a step of an optimizer called `lr...`.
    elif SCHEDULE.search(name):
        call.reader.act(Act.SCHEDULER_STEP, call.location, call.receiver)
    elif not OTHER_STEPS.search(name):
        is_optimizer = Constant(OPTIMIZER.search(name) is not None)
        call.reader.act(Act.STEP, call.location, call.receiver, text=Constant(name), named=is_optimizer)
    return UNKNOWN


@called(Unknown)
def _call(call: Call) -> Value:
    """Calling what is not understood: a forward pass where it has a model's name; anything may happen in it."""
    callee = call.receiver
    is_inner = runs_inside_a_forward(call.reader)
    is_named = isinstance(callee, Unknown) and _is_named_like_a_model(callee.name)
    if is_named and call.node is not None and not _takes_a_model(call):
        if not is_inner:
            call.reader.act(Act.FORWARD, call.location, callee)
        # A new unknown thing for each forward pass: two outputs of one model are different tensors.
        return Unknown(name="output")
    if not is_inner:
        call.reader.act(Act.ESCAPE, call.location, UNKNOWN, callee=callee)
    escape(call)
    return UNKNOWN


def _takes_a_model(call: Call) -> bool:
    """`prepare_model(model)`: no model reads models, tokenizers or optimizers."""
    given = [*call.positional, *call.keywords.values()]
    return any(isinstance(argument.value, Model | Module | Optimizer | Tokenizer) for argument in given)


@lru_cache(maxsize=4096)
def _is_named_like_a_model(name: str) -> bool:
    """Names of classes are not: `ModelNet(…)` makes something."""
    is_class = re.match(r"[A-Z]\w*[a-z]", name.rpartition(".")[2])
    return is_class is None and MODEL_NAME.search(name) is not None
