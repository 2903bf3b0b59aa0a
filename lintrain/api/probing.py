"""`lintrain.probe(…)`: measure a run in this process, and judge it.

Probe a script from Python, in a process of its own, as `lintrain probe` does.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lintrain.api.report import Question, Report, judged
from lintrain.model.location import NOWHERE, Location
from lintrain.runtime.child.frames import frame_location, is_users, shown, users_frame
from lintrain.runtime.child.library import loaded
from lintrain.runtime.in_process.parts import (
    NoLossError,
    Parts,
    is_lightning_trainer,
    is_trainer,
    measure_fit,
    measure_parts,
    measure_trainer,
)
from lintrain.runtime.in_process.session import InProcessSession, RunEnded
from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.events import Event
from lintrain.runtime.parent.launcher import Bounds
from lintrain.runtime.parent.pass_request import OVERFIT_STEPS, read_extras, read_rows
from lintrain.runtime.parent.prober import Wanted, probe_script
from lintrain.verdicts.judgement import judge_record
from lintrain.verdicts.repairs import Repairs
from lintrain.verdicts.static_findings import check_script

Measure = Callable[[InProcessSession, Location | None], None]


def probe(
    trainer: Any = None,  # Any: what the libraries make, which this module never imports
    module: Any = None,
    data: Any = None,
    *,
    model: Any = None,
    loader: Any = None,
    optimizer: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    training_step: Callable[[Any, Any], Any] | None = None,
    eval_loader: Any = None,
    scheduler: Any = None,
    steps: int | None = None,
    max_grad_norm: float | None = None,
    script: str | None = None,
    overfit: int = 0,
    also: Sequence[str] = (),
    rows: Sequence[str | int] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Report:
    """Measure a training run inside of this process: nothing is trained, and everything is restored afterwards.

    One of three is given:

    - `trainer`: a Trainer of transformers, or of a library that is built on it;
    - `trainer, module, data`: the arguments of Lightning's `trainer.fit`; `data` is a data module or a loader, None if
      the module has its own;
    - `model=, loader=, optimizer=` of your own loop. `loss(output, target)` returns the loss; the target is the last
      entry of a batch that is a tuple, and the entry `labels` (`label`, `targets`, `target`, `y`) of a batch with
      names; without it the model returns its loss (`output.loss`). `training_step(model, batch)` returns the loss if
      neither fits. `scheduler` is simulated over the `steps` optimizer steps of the whole run; gradients are clipped
      to `max_grad_norm`; two batches of `eval_loader` are evaluated.

    `script` names a file whose text is checked and judged with the run; by default that is the file of the running
    program, if it calls this function and gives a trainer. `overfit` is a number of steps on one batch; `also`, `rows`,
    `select` and `ignore` take what these options take on the command line.

    An error of the run (its collator, model, loss, metric) is a result and not raised. Raises TypeError for anything
    else than a run, ValueError for unknown names in `also` and `rows`, RuntimeError in one of several processes that
    train together. Needs the memory of one more copy of the weights and of the optimizer's state.
    """
    extras = _extras(overfit, also, rows)
    question = Question(script, tuple(select), tuple(ignore))
    if model is not None or loader is not None:
        _demand(trainer is None, "takes either a trainer or `model=`, `loader=` and `optimizer=`")
        _demand(None not in (model, loader, optimizer), "takes `model=`, `loader=` and `optimizer=` together")
        parts = Parts(model, loader, optimizer, loss, training_step, eval_loader, scheduler, max_grad_norm, steps)
        return carry_out(lambda session, call: measure_parts(session, parts, call), question, *extras)
    return carry_out(_measure(trainer, module, data), _with_running_file(question), *extras)


def _extras(
    overfit: int, also: Sequence[str], rows: Sequence[str | int]
) -> tuple[int, tuple[str, ...], tuple[tuple[str, int], ...]]:
    """Steps on one batch, measurements and rows that are asked for; raises ValueError for unknown names."""
    wanted = read_extras(also)
    return overfit or (OVERFIT_STEPS if "overfit" in wanted else 0), wanted, read_rows(map(str, rows))


def _measure(trainer: Any, module: Any, data: Any) -> Measure:
    if is_trainer(trainer):
        _demand(
            module is None and data is None,
            "takes a Trainer of transformers alone, which already has its model and data",
        )
        return lambda session, call: measure_trainer(session, trainer, call)
    _demand(is_lightning_trainer(trainer), f"takes a Trainer or the parts of a loop, not {type(trainer).__name__!r}")
    _demand(module is not None, "needs the module that Lightning's Trainer fits: `probe(trainer, module, data)`")
    return lambda session, call: measure_fit(session, trainer, module, data, call)


def _demand(is_so: bool, what: str) -> None:
    if not is_so:
        raise TypeError(f"lintrain.probe {what}")


def _with_running_file(question: Question) -> Question:
    return question if question.script is not None else dataclasses.replace(question, script=_running_file())


def carry_out(
    measure: Measure,
    question: Question,
    overfit: int = 0,
    also: tuple[str, ...] = (),
    rows: tuple[tuple[str, int], ...] = (),
) -> Report:
    """Measure in a new session and judge the result; the temporary folder is removed afterwards."""
    if is_one_of_several():
        raise RuntimeError("lintrain.probe measures one process, and this is one of several that train together")
    call = frame_location(users_frame())
    with tempfile.TemporaryDirectory(prefix="lintrain-probe-") as temporary:
        script = question.script or (call.path if call else NOWHERE)
        session = InProcessSession(temporary, script, overfit=overfit, also=also, rows=rows)
        if call is None:
            session.note("the calling code is in no file, so its findings have no line")
        try:
            measure(session, call)
        except RunEnded:
            pass
        except NoLossError:
            raise
        except Exception as error:  # noqa: BLE001 - lintrain's own: the report says so, the user's program goes on
            session.on_own_error(error)
        return judged(session, question)


def is_one_of_several() -> bool:
    """Whether other processes train together with this one: they would wait for the steps that it leaves out."""
    distributed = loaded("torch.distributed")
    return distributed is not None and distributed.is_initialized() and bool(distributed.get_world_size() > 1)


def _running_file() -> str | None:
    """The file of the running program, if its top-level code is the caller; None for notebooks, tests and modules."""
    frame = users_frame()
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    while frame is not None:
        path = frame.f_code.co_filename
        if path == main and is_users(path) and path.endswith(".py"):
            return shown(path)
        frame = frame.f_back
    return None


def probe_path(
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    timeout: float = 300.0,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    offline: bool = False,
    stand_ins: bool = False,
    stand_in_data: str | os.PathLike[str] | None = None,
) -> Report:
    """Run a script or a notebook up to its training call, by this Python, and judge its findings there.

    `timeout` is in seconds; `offline` lets the script reach no other machine. With `stand_ins` what is not here is
    replaced, data sets by the rows of the file `stand_in_data` if there is one. Raises FileNotFoundError if there is no
    such file.
    """
    path = Path(script)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such script")
    if stand_in_data is not None and not Path(stand_in_data).is_file():
        raise FileNotFoundError(f"{os.fspath(stand_in_data)}: no such file")
    static = check_script(str(path), select, ignore)
    repairs = Repairs(str(path), lambda: static)
    bounds = Bounds(timeout, None)
    replaces = stand_ins or stand_in_data is not None
    wanted = Wanted(
        Entry(path, tuple(arguments)),
        sys.executable,
        bounds,
        offline=offline or replaces,
        stand_ins=replaces,
        stand_in_data="" if stand_in_data is None else str(Path(stand_in_data).resolve()),
        is_on_cpu=replaces,
        choose_repairs=repairs,
    )
    record = probe_script(wanted, _ignore)
    record = dataclasses.replace(record, findings=tuple(one.finding for one in static.reported))
    return Report(judge_record(record, static))


def _ignore(_event: Event) -> None:
    """The stages are not shown while they run."""
