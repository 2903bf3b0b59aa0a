"""A script run up to its training in this process, for tests: its model, its first batch, and the loss of that."""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from typing import Any

from lintrain.runtime.child.hooks import AfterImport, replaced
from lintrain.runtime.child.library import has, is_mapping, library
from lintrain.runtime.frameworks.lightning.lightning_patches import LIBRARIES
from lintrain.runtime.frameworks.lightning.quiet import quiet_arguments
from lintrain.runtime.frameworks.trainer.trainer_patches import quieten
from lintrain.runtime.measure.batch import entries
from lintrain.runtime.measure.seen import tensors_in
from lintrain.runtime.parent.environment import TRACKERS_OFF

KEPT = 4
"""So many batches are kept: more than libraries fetch ahead."""


class NoTrainingError(Exception):
    """The script ended without training."""


class TrainingRun:
    """What a script trains, as it is before its first optimizer step.

    `batch` is the first that its loader gives, collated. The forward pass runs when its loss is first read.
    """

    def __init__(self, model: Any, batch: Any, forward: Callable[[], tuple[Any, Any]]) -> None:
        self.model = model
        self.batch = batch
        self._forward = forward

    @cached_property
    def _passed(self) -> tuple[Any, Any]:
        return self._forward()

    @property
    def loss(self) -> Any:
        """A scalar that still holds its graph, so that `loss.backward()` gives gradients."""
        return self._passed[0]

    @property
    def output(self) -> Any:
        """The model's output for the batch."""
        return self._passed[1]

    @property
    def tensors(self) -> Mapping[str, Any]:
        """The tensors of the batch by name; by position (`"0"`, `"1"`) where it is a tuple."""
        return {str(name): value for name, value in entries(self.batch).items() if has(value, "dtype")}


class Reached(BaseException):
    """Ends the script at its training; `BaseException`, so that no `except Exception` takes it."""


def training_run(script: str | os.PathLike[str], *arguments: str) -> TrainingRun:
    """Run a script of the Trainer, of Lightning, or with a loop of its own, up to its training; an error is its own.

    It runs here, as `__main__`, and stops at `Trainer.train`, or else before the first backward pass. Trackers are off,
    and what the libraries write on their own goes to a temporary folder. Raises NoTrainingError.
    """
    with tempfile.TemporaryDirectory(prefix="lintrain-") as folder, ExitStack() as stack:
        stop = Stop(Aside(folder))
        stack.enter_context(_environment([os.fspath(script), *arguments]))
        stop.install(stack)
        with suppress(Reached):
            runpy.run_path(os.fspath(script), run_name="__main__")
        if stop.trainer is not None:
            return _of_trainer(stop.trainer)
        if stop.loss is not None:
            return TrainingRun(stop.model, stop.batch, lambda: (stop.loss, stop.output))
    raise NoTrainingError(f"{os.fspath(script)} ended without training")


@contextmanager
def _environment(words: list[str]) -> Generator[None]:
    """Trackers off, the script's own words and folder, and all of it as before in the end."""
    # The content of `sys.path` is put back into the same list, which other modules may hold.
    before, argv, path = dict(os.environ), sys.argv, list(sys.path)
    os.environ.update(TRACKERS_OFF)
    sys.argv = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.argv, sys.path[:] = argv, path


class Aside:
    """Where libraries write instead of the user's folders; what would be remarked is not of interest here."""

    device = "cpu"

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def folder(self, name: str) -> str:
        """A temporary folder."""
        path = os.path.join(self._folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    def note(self, text: str) -> None:
        """Nothing."""

    def shorten(self, text: str) -> None:
        """Nothing."""


class NotedBatches:
    """An iterator over a loader's batches that keeps the last of them."""

    def __init__(self, batches: Iterator[Any], kept: deque[Any]) -> None:
        self._batches, self._kept = batches, kept

    def __iter__(self) -> NotedBatches:
        return self

    def __next__(self) -> Any:
        self._kept.append(next(self._batches))
        return self._kept[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


def _memory(tensor: Any) -> int:
    """The memory address of a tensor; its views share it."""
    return int(tensor.untyped_storage().data_ptr())


class Stop:
    """Where the script is stopped, and what happened until then."""

    def __init__(self, aside: Aside) -> None:
        self._aside: Any = aside  # Any: stands in for a probe's session
        self.trainer: Any = None
        self.model: Any = None
        self.output: Any = None
        self.loss: Any = None
        self._batches: deque[Any] = deque(maxlen=KEPT)
        self._read: set[int] = set()
        self._depth = 0
        self._stack = ExitStack()

    def install(self, stack: ExitStack) -> None:
        """Patch torch now and the libraries as they are imported; all is undone when the stack is closed."""
        self._stack = stack
        loader = library("torch.utils.data").DataLoader
        module = library("torch.nn").Module
        stack.enter_context(replaced(loader, __iter__=self._watched_loader(loader.__iter__)))
        stack.enter_context(replaced(module, __call__=self._watched_module(module.__call__)))
        stack.enter_context(replaced(library("torch").Tensor, backward=self._watched_backward()))
        hooks = AfterImport(_raise)
        hooks.add("transformers.training_args", self._meets_arguments)
        hooks.add("transformers.trainer", self._meets_trainer)
        for name in LIBRARIES:
            hooks.add(f"{name}.trainer.trainer", self._meets_lightning)
        # Registered before the finder is installed, so that an error between the two leaves none behind.
        stack.callback(sys.meta_path.remove, hooks)
        hooks.install()

    def _watched_loader(self, iterate: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def iter_(loader: Any) -> Iterator[Any]:
            return NotedBatches(iterate(loader), self._batches)

        return iter_

    def _watched_module(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(module: Any, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                output = call(module, *args, **kwargs)
            finally:
                self._depth -= 1
            if not self._depth and next(module.parameters(), None) is not None:
                # The last outermost call with weights before `backward` is the one whose loss goes backward.
                self.model, self.output = module, output
                self._read = {_memory(tensor) for tensor in (*tensors_in(args), *tensors_in(kwargs))}
            return output

        return called

    def _watched_backward(self) -> Callable[..., None]:
        def backward(loss: Any, *_args: Any, **_kwargs: Any) -> None:
            # Stopped here and not after: the graph is whole, and the caller may run its own backward pass.
            self.loss = loss
            raise Reached

        return backward

    @property
    def batch(self) -> Any:
        """The batch that the model read: libraries fetch the next one before it is needed."""
        for batch in self._batches:
            if any(_memory(tensor) in self._read for tensor in tensors_in(batch)):
                return batch
        return self._batches[-1] if self._batches else None

    def _meets_arguments(self, module: Any) -> None:
        arguments = module.TrainingArguments
        prepare = arguments.__post_init__

        def post_init(given: Any, *args: Any, **kwargs: Any) -> None:
            # Before the library's own preparation, which decides on the device.
            given.use_cpu = True
            prepare(given, *args, **kwargs)
            quieten(self._aside, given)

        self._stack.enter_context(replaced(arguments, __post_init__=post_init))

    def _meets_trainer(self, module: Any) -> None:
        def train(trainer: Any, *_args: Any, **_kwargs: Any) -> None:
            self.trainer = trainer
            raise Reached

        self._stack.enter_context(replaced(module.Trainer, train=train))

    def _meets_lightning(self, module: Any) -> None:
        build = module.Trainer.__init__

        def init(trainer: Any, *args: Any, **kwargs: Any) -> None:
            quiet_arguments(self._aside, trainer, kwargs)
            build(trainer, *args, **kwargs)

        self._stack.enter_context(replaced(module.Trainer, __init__=init))


def _raise(_module: str, error: Exception) -> None:
    raise error


def _of_trainer(trainer: Any) -> TrainingRun:
    """The first batch of a Trainer through its own loss; the same at every call."""
    library("transformers").set_seed(trainer.args.seed)
    trainer.args.dataloader_num_workers = 0  # an error in a worker process hides the line that it is of
    trainer.args.dataloader_persistent_workers = False
    trainer.args.dataloader_prefetch_factor = None
    batch = next(iter(trainer.get_train_dataloader()))

    def forward() -> tuple[Any, Any]:
        trainer.model.train()
        given: Any = trainer._prepare_inputs(batch)
        inputs: Any = dict(given) if is_mapping(given) else given
        loss, output = trainer.compute_loss(trainer.model, inputs, return_outputs=True)
        return loss, output

    return TrainingRun(trainer.model, batch, forward)
