"""A call of Lightning's Trainer under measurement: it runs by itself, shortened, and its errors find their stages."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from lintrain.evidence.run import StageName, StageStatus
from lintrain.evidence.stages import TRAINING_STAGES
from lintrain.model.location import Location
from lintrain.runtime.child.frames import caller_of, is_users, shown
from lintrain.runtime.child.library import attribute
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.surroundings import is_in_loop
from lintrain.runtime.frameworks.lightning.facts import missing_by_shortening
from lintrain.runtime.frameworks.lightning.guide import callback_of
from lintrain.runtime.frameworks.lightning.lightning_run import LightningRun
from lintrain.runtime.frameworks.lightning.quiet import (
    quiet_restart,
    redirect_checkpoints,
    shorten_evaluation,
    shorten_training,
    without_finders,
)

Call = Callable[..., Any]


def fit(
    session: ProbeSession,
    trainer: Any,
    original: Call,
    call: Location | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Let `fit` train a few batches and validate on two; the process ends with it, unless the script fits again."""
    args, kwargs = _uncompiled(session, args, kwargs)
    follows = session.may_continue and (is_in_loop() or next(comes_later(("fit",)), None) is not None)
    session.enters(call)
    run, guide = _begin(session, trainer, call, args, kwargs)
    for later in () if follows else comes_later(("fit", "test", "predict")):
        session.note(f"{later} comes later and was not measured")
    without_finders(session, trainer)
    # Lightning calls this between its set-up and its loop: the one place where loaders, optimizers and schedules
    # exist and nothing has been trained.
    check = trainer._run_sanity_check
    trainer._run_sanity_check = lambda: _prepare(run, guide, check)
    try:
        original(trainer, *args, **kwargs)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the module, its data or its callbacks raise is the answer
        _fails(run, guide, error)
    _close(session, run)
    if not (follows and session.may_continue):
        session.finish()
    # The same Trainer may fit again. A guide of an earlier run would report to evidence that is closed.
    trainer.callbacks.remove(guide)
    del trainer._run_sanity_check
    session.continue_after_call(is_new=True)


def _begin(
    session: ProbeSession, trainer: Any, call: Location | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[LightningRun, Any]:
    module = args[0] if args else kwargs.get("model")
    run = LightningRun(session, trainer, module, call, session.watch, session.watch.metrics)
    session.watch.guided_by(run)
    run.start()
    guide = callback_of(trainer, session.watch, run)
    # First, so that it sees a batch before a callback of the script changes it.
    trainer.callbacks.insert(0, guide)
    redirect_checkpoints(session, trainer)
    return run, guide


def _prepare(run: LightningRun, guide: Any, check: Callable[[], None]) -> None:
    """Between the set-up and the loop: load the data, try validation, shorten the run."""
    trainer, session = run.trainer, run.session
    run.on_construction()
    guide.stage = StageName.DATASET
    trainer.fit_loop.setup_data()
    combined = trainer.fit_loop._combined_loader
    run.on_loaders(list(combined.flattened) if combined is not None else [])
    guide.stage = StageName.EVALUATION
    shorten_evaluation(session, trainer.fit_loop.epoch_loop.val_loop)
    _try_validation(run, check)
    shorten_training(session, trainer)
    guide.stage = StageName.BATCH


def _try_validation(run: LightningRun, check: Callable[[], None]) -> None:
    """An error of Lightning's sanity check is that of the evaluation; training is measured anyway."""
    trainer, stage = run.trainer, run.trainer.state.stage
    # A check that fails leaves the module in eval mode, and training goes on: without this the evidence would blame
    # the script for it.
    modes = {part: part.training for part in run.module.modules()}
    try:
        check()
    except Exception as error:  # noqa: BLE001 - as above
        run.record_failure(StageName.EVALUATION, error)
        for part, is_training in modes.items():
            part.training = is_training
        quiet_restart(trainer, stage)


def _fails(run: LightningRun, guide: Any, error: BaseException) -> None:
    stage = guide.stage_of(error)
    if stage is StageName.CONSTRUCTION:
        run.on_construction_error(error)
    if stage is StageName.EVALUATION:
        _fails_in_evaluation(run, guide, error)
        return
    run.on_error(error, stage)


def _fails_in_evaluation(run: LightningRun, guide: Any, error: BaseException) -> None:
    if (
        run.statuses.get(StageName.EVALUATION) is StageStatus.FAILED
    ):  # it failed before training: what follows from that is no news
        return
    name = missing_by_shortening(run.trainer, error, has_validated=guide.has_validated)
    if name is not None and run.session.shortcuts:
        run.skip(
            StageName.EVALUATION, f"`{name}` is monitored, but was not logged in the few batches that ran: {error}"
        )
    else:
        run.on_error(error, StageName.EVALUATION)


def _close(session: ProbeSession, run: LightningRun) -> None:
    # Otherwise nothing was trained and there is nothing to settle.
    if StageName.BATCH in run.statuses:
        session.watch.ends_guided()
    session.watch.close(run)


def evaluate(
    session: ProbeSession,
    trainer: Any,
    original: Call,
    call: Location | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A call that only evaluates: two batches; it is what is measured, unless the script trains later."""
    args, kwargs = _uncompiled(session, args, kwargs)
    loop = getattr(trainer, f"{original.__name__}_loop")
    shorten_evaluation(session, loop)
    # A script may validate before it trains, and between two trainings: these are what the probe is for, and this call
    # only has to be quick.
    if session.following.is_between:
        # The best checkpoint, which is read by default, was not written.
        kwargs = {"model": trainer.lightning_module, **kwargs} if not args else kwargs
        kwargs["ckpt_path"] = None
    if session.following.is_between or next(comes_later(("fit",)), None) is not None:
        session.measuring = True
        try:
            return original(trainer, *args, **kwargs)
        finally:
            session.measuring = False
    run, guide = _begin(session, trainer, call, args, kwargs)
    setup = loop.setup_data
    loop.setup_data = lambda: _prepare_evaluation(run, guide, loop, setup)
    try:
        original(trainer, *args, **kwargs)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - as above
        _fails(run, guide, error)
    _close(session, run)
    return session.finish()


def _prepare_evaluation(run: LightningRun, guide: Any, loop: Any, setup: Callable[[], None]) -> None:
    guide.stage = StageName.DATASET
    setup()
    if StageName.CONSTRUCTION not in run.statuses:
        run.on_construction()
        run.on_evaluation_loaders(list(loop._combined_loader.flattened) if loop._combined_loader is not None else [])
        run.skip_missing(TRAINING_STAGES, "the script only evaluates")
        run.on_evaluation_only()
    guide.stage = StageName.EVALUATION


def _uncompiled(
    session: ProbeSession, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The module without compilation, which takes longer than all measurements and changes none of them."""
    model = args[0] if args else kwargs.get("model")
    inner = attribute(model, "_orig_mod", None)
    if inner is None:
        return args, kwargs
    session.shorten("`torch.compile` was left out")
    return ((inner, *args[1:]), kwargs) if args else (args, {**kwargs, "model": inner})


def comes_later(methods: tuple[str, ...]) -> Iterator[str]:
    """Such calls, as "`trainer.test(…)` at train.py:40"."""
    frame = inspect.currentframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if is_users(path):
            for node in ast.walk(_tree(path)):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                    continue
                if node.func.attr in methods and node.lineno > frame.f_lineno and "rainer" in ast.unparse(node.func):
                    yield f"`{ast.unparse(node.func)}(…)` at {shown(path)}:{node.lineno}"
        frame = caller_of(frame)


def _tree(path: str) -> ast.Module:
    try:
        with open(path, encoding="utf-8") as opened:
            return ast.parse(opened.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])
