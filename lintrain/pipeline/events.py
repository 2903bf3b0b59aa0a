"""What a script does, in order: the effects that the rules about loops look at."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from lintrain.model.location import Location
from lintrain.pipeline.values.python import UNKNOWN, Sequence, Value
from lintrain.source.nodes import unparse
from lintrain.startup.lazy_dataclass import dataclass


class Act(StrEnum):
    """The effects that matter to training."""

    FORWARD = "forward"
    BACKWARD = "backward"
    ZERO_GRAD = "zero_grad"
    STEP = "step"
    SCHEDULER_STEP = "scheduler_step"
    SCALER_UPDATE = "scaler_update"
    UNSCALE = "unscale"
    CLIP = "clip"
    TRAIN_MODE = "train_mode"
    EVAL_MODE = "eval_mode"
    RESTORE_MODE = "restore_mode"
    """A module gets the mode back that it had after so many events (`since`): `model.train(was_training)`."""
    TO_DEVICE = "to_device"
    SAVE = "save"
    DELETE = "delete"
    TRAIN = "train"
    """A framework's training call: `trainer.train()`, `model.fit()`."""
    EVALUATE = "evaluate"
    ESCAPE = "escape"
    """A value was handed to code that was not understood, or such code was called: anything may have happened to it."""
    GRADIENT = "gradient"
    """Code looks at gradients or changes them itself: `.grad`, `torch.autograd.grad`, hooks."""
    FREEZE = "freeze"
    """`requires_grad` is set to `wanted` on parameters: of `part`, or of the whole; `is_all`: on each of them."""
    ADAPT = "adapt"
    """An adapter is put into a model (`how`: the call's path; `config`), or one is loaded."""
    CAST = "cast"
    """The weights of a model get another number format, `dtype`."""
    REPLACE = "replace"
    """A part of a model, or an attribute `name`, is set."""
    CHECKPOINT = "checkpoint"
    """Activation checkpointing is switched on for a model."""
    PREPARE = "prepare"
    """A quantized model is made ready for adapters: frozen, its other layers in float32, its inputs with gradients."""
    TOUCH = "touch"
    """A method of a model that is not understood is called."""
    ACCUMULATE = "accumulate"
    """Accelerate or Fabric is asked to hold gradients back, or whether it does: `accumulate`, `no_sync`."""
    GATHER = "gather"
    """A launcher collects values of all processes."""
    RETAIN = "retain"
    """A value is added to a sum or put into a list that was there before this iteration."""
    OPTIMIZER = "optimizer"
    """An optimizer is made: from here on it has the parameters that its modules have now."""
    NEW_PART = "new_part"
    """A module gets a `part` with fresh parameters after it was made."""
    SHARE = "share"
    """An object is handed to what runs it in several processes: prepared, or wrapped for DDP (`how`: the path)."""
    LEAVE = "leave"
    """`break`, `return` or `raise` inside a loop."""


@dataclass(eq=False, slots=True)
class Loop:
    """A `for` or `while` that the script runs; `over` is what it iterates, `each` its element.

    `rebound` are the names that its body binds by other means than adding to them.
    """

    location: Location
    over: Value = UNKNOWN
    each: Value = UNKNOWN
    header: str = ""
    body: Location | None = None
    rebound: frozenset[str] = frozenset()

    @property
    def runs_once(self) -> bool:
        """Whether it certainly has no second iteration: `for epoch in range(1)`."""
        return isinstance(self.over, Sequence) and self.over.is_complete and len(self.over.items) <= 1


@dataclass(eq=False, slots=True)
class Condition:
    """An `if`, `except` or `while` that may be skipped; `depth` counts the loops around it.

    `test` is that of an `if`, `is_else` for its `else`. `period` is the `k` of a test like `(i + 1) % k == 0`, and
    `period_text` its code. `ends_loop` if the innermost loop, or its function, ends where it is not fulfilled.
    """

    location: Location
    depth: int
    test: ast.expr | None = None
    is_else: bool = False
    period: Value = UNKNOWN
    period_text: str = ""
    ends_loop: bool = False

    @property
    def code(self) -> str:
        """The code of its test as it must be for what it holds to run; empty for anything but an `if`."""
        test = unparse(self.test) if self.test else ""
        return f"not ({test})" if self.is_else else test


@dataclass(slots=True, unsafe_hash=True)
class Event:
    """One effect: what was done, where, to which value, and inside which loops and conditions.

    Never changed once it is made; not frozen for the same reason as Location.

    `without_grad` if autograd was off or may have been, `is_off` if it certainly was; `switches` are the conditions,
    as code, on which it was on; `function` names the script's function it happened in;
    `uncalled` if the file does not call that function, so that its surroundings are not known;
    `reading` numbers the unused function that is read with what it calls, 0 for the script itself.
    """

    act: Act
    location: Location
    subject: Value
    loops: tuple[Loop, ...]
    conditions: tuple[Condition, ...]
    without_grad: bool
    function: str
    uncalled: bool
    order: int
    details: Mapping[str, Value] = field(default_factory=lambda: {})
    switches: tuple[str, ...] = ()
    reading: int = 0
    is_off: bool = False

    def records_for(self, backward: Event) -> bool:
        """Whether autograd is certainly on here whenever a backward call runs."""
        holds = {*backward.switches, *(condition.code for condition in backward.conditions)}
        return not self.without_grad and holds.issuperset(self.switches)

    def is_inside(self, loop: Loop) -> bool:
        """Whether it happens in the body of a loop."""
        return any(around is loop for around in self.loops)

    def is_conditional_in(self, loop: Loop) -> bool:
        """Whether some iterations of a loop may skip it."""
        depth = next((index for index, around in enumerate(self.loops) if around is loop), len(self.loops))
        # `if done: break` skips what follows in the last iteration only.
        return any(condition.depth > depth and not condition.ends_loop for condition in self.conditions)
