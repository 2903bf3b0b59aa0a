"""The parts of a training loop that the caller gives: what trains, on which batches, by which loss.

A Trainer of transformers, measured in this process, with the stages of a probe.

The parts of a training loop, measured in a short, correct loop of lintrain's own: clear, forward, backward,
step.

A run of Lightning, measured in this process: its own `fit`, shortened, and everything restored afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lintrain.evidence.run import Failure, Stage, StageName
from lintrain.model.location import Location
from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library, loaded
from lintrain.runtime.frameworks.lightning.facts import RECORDED
from lintrain.runtime.frameworks.lightning.lightning_patches import LIBRARIES
from lintrain.runtime.frameworks.lightning.quiet import package_of
from lintrain.runtime.frameworks.lightning.stages import fit
from lintrain.runtime.frameworks.loop.batches import WatchedBatches
from lintrain.runtime.frameworks.loop.loop_run import LoopRun
from lintrain.runtime.frameworks.loop.loop_state import EVALUATION_BATCHES
from lintrain.runtime.frameworks.loop.watch import Watch
from lintrain.runtime.frameworks.trainer.stages import measure
from lintrain.runtime.in_process.restoring import as_before
from lintrain.runtime.in_process.session import InProcessSession, RunEnded, hooked
from lintrain.runtime.measure.weights import played_through
from lintrain.startup.lazy_dataclass import dataclass

LABELS = ("labels", "label", "targets", "target", "y")


class NoLossError(TypeError):
    """It is not clear how a loss is made of a batch; the text says what is missing."""


@dataclass(frozen=True)
class Parts:
    """A model with the loader, the optimizer and the loss that train it.

    `loss` takes the model's output and the target of the batch; None if the model itself gives its loss.
    `training_step` takes model and batch and gives the loss; it replaces both.
    `steps` is how many optimizer steps the whole run takes.
    """

    model: Any
    loader: Iterable[Any]
    optimizer: Any
    loss: Callable[..., Any] | None = None
    training_step: Callable[[Any, Any], Any] | None = None
    eval_loader: Iterable[Any] | None = None
    scheduler: Any = None
    max_grad_norm: float | None = None
    steps: int | None = None

    def loss_of(self, batch: Any) -> Any:
        """The loss of a batch on the model's device."""
        if self.training_step is not None:
            return self.training_step(self.model, batch)
        given, target = _parted(batch, with_target=self.loss is not None)
        output = self.model(**given) if is_mapping(given) else self.model(*given)
        if self.loss is None:
            return own_loss(output)
        return self.loss(output if has(output, "shape") else logits_of(output), target)


def _parted(batch: Any, *, with_target: bool) -> tuple[Mapping[str, Any] | tuple[Any, ...], Any]:
    """The model's input, and the target: the last entry of a tuple, or the entry with such a name."""
    if is_mapping(batch):
        name = next((name for name in LABELS if name in batch), None)
        if not with_target:
            return batch, None
        if name is None:
            raise NoLossError(f"the batch has no {', '.join(map(repr, LABELS))}; pass `training_step=`")
        return {key: value for key, value in batch.items() if key != name}, batch[name]
    if is_row(batch):
        return (tuple(batch[:-1]), batch[-1]) if with_target else (tuple(batch), None)
    if with_target:
        raise NoLossError(f"a batch that is a single {type(batch).__name__} has no target; pass `training_step=`")
    return (batch,), None


def own_loss(output: Any) -> Any:
    """The loss in a model's output: `.loss`, the entry of that name, or a tensor of one number."""
    found = output.get("loss") if is_mapping(output) else attribute(output, "loss", None)
    candidates = (found, output, *(output[:1] if is_row(output) else ()))
    for each in candidates:
        if attribute(each, "ndim", None) == 0:
            return each
    raise NoLossError(f"the model returns {type(output).__name__} and no loss; pass `loss=` or `training_step=`")


def logits_of(output: Any) -> Any:
    """What a loss function gets of an output with parts: its logits, else the output itself."""
    found = output.get("logits") if is_mapping(output) else attribute(output, "logits", None)
    return output if found is None else found


def on_device(batch: Any, device: Any) -> Any:
    """A batch with its tensors on a device."""
    if has(batch, "to") and not is_mapping(batch):
        return batch.to(device)
    if is_mapping(batch):
        return {name: on_device(value, device) for name, value in batch.items()}
    if is_row(batch):
        return type(batch)(on_device(value, device) for value in batch) if type(batch) in (list, tuple) else batch
    return batch


def device_of(model: Any) -> Any:
    """The device of the model's first parameter."""
    first = next(iter(model.parameters()), None)
    return library("torch").device("cpu") if first is None else first.device


def is_trainer(value: object) -> bool:
    """Whether an object is a Trainer of transformers, or of a library that is built on it."""
    module = loaded("transformers.trainer")
    return module is not None and isinstance(value, module.Trainer)


def measure_trainer(session: InProcessSession, trainer: Any, call: Location | None) -> None:
    """Every stage that `train()` would reach; the trainer is restored afterwards."""
    if trainer.args.device.type != "cpu":
        session.device = "gpu"
    with as_before(trainer), replaced(trainer.args, push_to_hub=False):
        measure(session, trainer, "train", call, (), {})


class PartsWatch(Watch):
    """A watch of a loop of lintrain's own: the location of the run is the call that requests it."""

    def __init__(self, session: InProcessSession, parts: Parts, call: Location | None) -> None:
        super().__init__(session)
        self.parts, self.call = parts, call
        self.optimizers = [attribute(parts.optimizer, "optimizer", parts.optimizer)]  # under accelerate's wrapper

    def on_optimizer(self, optimizer: Any) -> None:
        """The given optimizer is the only one."""

    def finds_no_batch(self) -> None:
        """The training loader is empty: nothing can be measured, and nothing could be trained."""
        run = self._enter(self.call, failed=StageName.BATCH)
        failure = Failure("ValueError", "the training loader yields no batch", self.call)
        run.record(Stage.failed(StageName.BATCH, failure))

    def _enter(self, location: Location | None, *, loss: Any = None, failed: StageName | None = None) -> LoopRun:
        return super()._enter(self.call or location, loss=loss, failed=failed)


def measure_parts(session: InProcessSession, parts: Parts, call: Location | None) -> None:
    """A few steps and two batches of evaluation; everything that was given is restored afterwards."""
    session.launcher = "torch"  # whatever else runs in this process
    watch = session.watch = PartsWatch(session, parts, call)
    with as_before(parts), hooked(watch, but=("DataLoader",)):
        without_workers(session, parts.loader, parts.eval_loader)
        session.note("lintrain ran its own loop: what yours does around model, loss and optimizer was not measured")
        try:
            _train(watch, parts)
            if watch.run is None:
                watch.finds_no_batch()
            _evaluate(watch, parts)
        except RunEnded:
            return
        except NoLossError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the collator, the model or the loss raises is the answer
            session.on_error(error)
        else:
            session.on_exit()


def without_workers(session: InProcessSession, *loaders: Any) -> None:
    """An error in a worker process hides the user's line, and what a worker changes cannot be restored."""
    for loader in loaders:
        if attribute(loader, "num_workers", 0):
            session.shorten("data loaders run without worker processes")
            # a loader refuses that some of these are set as attributes
            loader.__dict__.update(num_workers=0, prefetch_factor=None, timeout=0, persistent_workers=False)


def _train(watch: PartsWatch, parts: Parts) -> None:
    parts.model.train()
    watch.effects.ledger.watch(watch.optimizers[0])
    for batch in WatchedBatches(watch, parts.loader, iter(parts.loader)):
        parts.optimizer.zero_grad()
        loss = parts.loss_of(on_device(batch, device_of(parts.model)))
        loss.backward()
        if parts.max_grad_norm:
            library("torch.nn.utils").clip_grad_norm_(parts.model.parameters(), parts.max_grad_norm)
        parts.optimizer.step()
    if watch.run is not None:
        _play_schedule(watch.run, parts)


def _play_schedule(run: LoopRun, parts: Parts) -> None:
    if parts.scheduler is not None and parts.steps is not None:
        try:
            run.measured(schedule=played_through(parts.scheduler, parts.steps))
        except Exception as error:  # noqa: BLE001 - a class of the user's own may not bear being copied
            run.session.note(f"the schedule was not simulated: {type(error).__name__}: {error}")


def _evaluate(watch: PartsWatch, parts: Parts) -> None:
    if parts.eval_loader is None:
        return
    parts.model.eval()
    loader: Iterable[Any] = parts.eval_loader
    with library("torch").no_grad():
        for number, batch in enumerate(WatchedBatches(watch, loader, iter(loader)), start=1):
            parts.loss_of(on_device(batch, device_of(parts.model)))
            if number == EVALUATION_BATCHES:
                return


SHOWING = ("ProgressBar", "ModelSummary")


def is_lightning_trainer(value: object) -> bool:
    """Whether an object is a Trainer of Lightning, under one of its names."""
    modules = (loaded(f"{name}.trainer.trainer") for name in LIBRARIES)
    return any(module is not None and isinstance(value, module.Trainer) for module in modules)


def measure_fit(session: InProcessSession, trainer: Any, module: Any, data: Any, call: Location | None) -> None:
    """A few batches of training and two of validation; raises RunEnded when everything was measured."""
    watch = session.watch = Watch(session)
    with as_before(trainer, module, data), hooked(watch):
        _quieten(session, trainer)
        fit(session, trainer, trainer.__class__.fit, call, (module,), _given(trainer, data))


def _given(trainer: Any, data: Any) -> dict[str, Any]:
    if data is None:
        return {}
    modules = library(f"{package_of(trainer)}.core.datamodule")
    return {"datamodule" if isinstance(data, modules.LightningDataModule) else "train_dataloaders": data}


def _quieten(session: InProcessSession, trainer: Any) -> None:
    """Nothing is logged, shown, profiled or saved; what the Trainer was made with is read from itself."""
    package = package_of(trainer)
    asked = {name: attribute(trainer, name, None) for name in RECORDED if has(trainer, name)}
    trainer.__dict__["lintrain_asked"] = {name: value for name, value in asked.items() if _is_scalar(value)}
    dummy = library(f"{package}.loggers.logger").DummyLogger
    trainer.loggers = [dummy() for _ in trainer.loggers]
    trainer.profiler = library(f"{package}.profilers").PassThroughProfiler()
    trainer._default_root_dir = session.folder("output")
    trainer.callbacks[:] = [each for each in trainer.callbacks if not _shows(each)]
    session.note("nothing is logged, and checkpoints go to a temporary folder")


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _shows(callback: Any) -> bool:
    """Whether a callback only shows how the run goes, or is lintrain's own watch of a run that is meant."""
    names = {kind.__name__ for kind in type(callback).__mro__}
    return bool(names & set(SHOWING)) or type(callback).__module__.startswith("lintrain.")
