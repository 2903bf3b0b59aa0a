"""Which call raised an error, found on the error's own way: of a collator, of a model, or of a loss function."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field
from types import FrameType
from typing import Any

from lintrain.startup.lazy_dataclass import dataclass

FETCH = os.path.join("torch", "utils", "data", "_utils", "fetch.py")
MODULE = os.path.join("torch", "nn", "modules", "module.py")
FUNCTIONAL = os.path.join("torch", "nn", "functional.py")
TRAINER = os.path.join("transformers", "trainer.py")


@dataclass(frozen=True, slots=True)
class Raised:
    """A call that raised: `kind` is collator, module, function, metrics or trainer; `called` an object, or its name."""

    kind: str
    called: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])


def raised_by(error: BaseException) -> Raised | None:
    """The outermost such call on the way of an error; None if there is none."""
    for frame in _frames(error):
        found = _call_of(frame)
        if found is not None:
            return found
    return next((found for frame in _frames(error) if (found := _of_trainer(frame))), None)


def _frames(error: BaseException) -> Iterator[FrameType]:
    step = error.__traceback__
    while step is not None:
        yield step.tb_frame
        step = step.tb_next


def _call_of(frame: FrameType) -> Raised | None:
    path, name, values = frame.f_code.co_filename, frame.f_code.co_name, frame.f_locals
    if path.endswith(FETCH) and name == "fetch" and "data" in values:
        return Raised("collator", values["self"].collate_fn, (values["data"],))
    if path.endswith(MODULE) and name == "_call_impl":
        return Raised("module", values["self"], tuple(values["args"]), dict(values["kwargs"]))
    if (given := _predictions(frame)) is not None:
        return Raised("metrics", frame.f_globals[name], (given,))
    if path.endswith(FUNCTIONAL):
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        return Raised("function", f"torch.nn.functional.{name}", (), {each: values[each] for each in names})
    return None


def _predictions(frame: FrameType) -> Any:
    """What a metric function at the top of the script was given, where this frame is one."""
    function = frame.f_globals.get(frame.f_code.co_name)
    if frame.f_code.co_argcount != 1 or getattr(function, "__code__", None) is not frame.f_code:
        return None
    given = frame.f_locals.get(frame.f_code.co_varnames[0])
    return given if type(given).__name__ == "EvalPrediction" else None


def _of_trainer(frame: FrameType) -> Raised | None:
    """The library's own loss of a Trainer: it finds fault with what the model gave."""
    values = frame.f_locals
    if frame.f_code.co_filename.endswith(TRAINER) and frame.f_code.co_name == "compute_loss":
        return Raised("trainer", values["self"], (), dict(values["inputs"]))
    return None
