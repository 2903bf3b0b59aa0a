"""The stages of one Trainer call, in the order of the pipeline."""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import Stage
from lintrain.model.location import Location
from lintrain.runtime.child.given import Given
from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.label_conflicts import of_training
from lintrain.runtime.child.session import Session
from lintrain.runtime.frameworks.loop.surroundings import statement_now
from lintrain.runtime.frameworks.trainer.accumulation import measure_accumulation
from lintrain.runtime.frameworks.trainer.backward import measure_gradients
from lintrain.runtime.frameworks.trainer.batch import collate_batches
from lintrain.runtime.frameworks.trainer.evaluation import evaluate_two_batches
from lintrain.runtime.frameworks.trainer.forward import measure_forward
from lintrain.runtime.frameworks.trainer.later_calls import later_trainings
from lintrain.runtime.frameworks.trainer.memory import project_memory
from lintrain.runtime.frameworks.trainer.overfit import overfit_one_batch
from lintrain.runtime.frameworks.trainer.run import TrainerRun
from lintrain.runtime.frameworks.trainer.setup import argument_values, given_splits, overridden, run_until_the_loop
from lintrain.runtime.frameworks.trainer.step import take_two_steps
from lintrain.runtime.frameworks.trainer.throughput import time_steps
from lintrain.runtime.frameworks.trainer.weightless import REASON as WEIGHTLESS
from lintrain.runtime.frameworks.trainer.weightless import is_weightless
from lintrain.runtime.measure.columns import measure_splits
from lintrain.runtime.measure.model import measure_model
from lintrain.runtime.measure.overlap import shared_rows
from lintrain.runtime.measure.subset import number_of_rows
from lintrain.runtime.measure.tokenizer import measure_tokenizer

TRAINING_STAGES = ("batch", "forward", "backward", "step")


def measure(
    session: Session, trainer: Any, entry: str, call: Location | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Every stage that this call can reach; evidence is sent as it comes."""
    run = TrainerRun(session, trainer, entry, call)
    for location in later_trainings():
        session.note(f"the training call at {location} comes later and was not looked at")
    session.channel.send("run", run=0, values=_facts(run))
    for name in ("script", "construction"):
        seconds = session.elapsed() if name == "script" else 0.0
        session.channel.send("stage", run=0, stage=Stage(name, "passed", seconds))
    given = given_splits(trainer, entry, args, kwargs)
    run.attempt("dataset", lambda: _measure_dataset(run, given))
    if trainer.train_dataset is None and not _has_own_loader(run):
        _only_evaluate(run, given)
    else:
        _train(run, given)
    run.measured(shortcuts=session.shortcuts, notes=session.notes)


def _facts(run: TrainerRun) -> dict[str, Any]:
    trainer = run.trainer
    return {
        **run.session.facts(),
        "trainer": type(trainer).__name__,
        "call": run.call,
        "construction": getattr(trainer, "lintrain_construction", None),
        "device": str(trainer.args.device),
        "ended_in": statement_now(run.session.script),
        "arguments": argument_values(trainer.args),
        "overrides": overridden(trainer),
        "shortcuts": run.session.shortcuts,
        "notes": run.session.notes,
    }


def _measure_dataset(run: TrainerRun, given: list[Given]) -> None:
    run.measured(model=measure_model(run), tokenizer=measure_tokenizer(run))
    measure_splits(run, given)
    rows = number_of_rows(run.trainer.train_dataset)
    run.measured(shared_rows=shared_rows(given), conflicts=of_training(run.session, rows))


def _has_own_loader(run: TrainerRun) -> bool:
    """Whether the script trains on a loader that its own trainer makes, which needs no `train_dataset`."""
    return run.entry == "train" and "get_train_dataloader" in overridden(run.trainer)


def _only_evaluate(run: TrainerRun, given: list[Given]) -> None:
    for name in TRAINING_STAGES:
        run.skip(name, f"the script calls `{run.entry}` and gives no `train_dataset`")
    evaluate_two_batches(run, given)


def _train(run: TrainerRun, given: list[Given]) -> None:
    """Let the library's own `train` set everything up, and stand in for its loop."""
    failed = run_until_the_loop(run.trainer)
    if is_weightless(run.model):
        _look_at_the_batch(run, failed)
        return
    if failed is None:
        _measure_training(run)
    else:
        run.attempt("batch", lambda: _raise(failed))
        _skip_rest(run, "batch")
    evaluate_two_batches(run, given)
    _overfit(run)
    project_memory(run)
    time_steps(run)


def _look_at_the_batch(run: TrainerRun, failed: BaseException | None) -> None:
    """All that there is to see of a model whose weights were not loaded, but for what it would hold."""
    run.attempt("batch", lambda: collate_batches(run) if failed is None else _raise(failed))
    for name in (*TRAINING_STAGES[1:], "evaluation"):
        run.skip(name, WEIGHTLESS)
    project_memory(run)


def _raise(error: BaseException) -> None:
    raise error


def _measure_training(run: TrainerRun) -> None:
    work = {
        "batch": lambda: collate_batches(run),
        "forward": lambda: measure_forward(run),
        "backward": lambda: _measure_backward(run),
        "step": lambda: take_two_steps(run),
    }
    for name, experiment in work.items():
        run.attempt(name, experiment)
        if not run.passed(name):
            _skip_rest(run, name)
            return


def _measure_backward(run: TrainerRun) -> None:
    measure_gradients(run)
    measure_accumulation(run)


def _skip_rest(run: TrainerRun, failed: str) -> None:
    for name in TRAINING_STAGES[TRAINING_STAGES.index(failed) + 1 :]:
        run.skip(name, f"the {failed} stage failed")


def _overfit(run: TrainerRun) -> None:
    if not run.session.overfit:
        return
    if run.batches and not is_mapping(run.batches[0]):
        run.skip("overfit", "the trainer makes its rows anew at every step")
    elif run.passed("step"):
        run.attempt("overfit", lambda: overfit_one_batch(run, run.session.overfit))
    else:
        run.skip("overfit", "training does not get as far as one step")
