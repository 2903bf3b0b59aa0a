"""Hooks in the functions of torch that every training loop calls."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

from lintrain.evidence.run import OddCallKind, StandInKind
from lintrain.runtime.child.frames import (
    MADE_AT,
    callers_frame,
    frame_location,
    is_called_by_user,
    is_users,
    keep_location,
    made_at,
    users_frame,
)
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has, loaded
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.loop.activations import hook_layers, hook_methods, marked
from lintrain.runtime.frameworks.loop.batches import WatchedBatches, before_training
from lintrain.runtime.frameworks.loop.later_loops import LoopAfterLoop
from lintrain.runtime.frameworks.loop.loaders import length_of
from lintrain.runtime.frameworks.loop.metrics import hook_metrics
from lintrain.runtime.frameworks.loop.odd_calls import hook_odd_calls, is_own_gradient
from lintrain.runtime.frameworks.loop.scalers import hook_autocast, hook_scaler
from lintrain.runtime.frameworks.loop.watch import Watch
from lintrain.runtime.measure.calls import without_shells
from lintrain.runtime.measure.filled_values import hook_filling
from lintrain.runtime.measure.held_values import made_by_statement
from lintrain.runtime.measure.seen import split_arguments

MADE = StandInKind.DATA
LOSSES = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "ctc_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
)


def hook_torch(watch: Watch, hooks: AfterImport) -> None:
    """Let the watch see loaders, modules, losses, backward passes, clipping, scaling, steps and schedules."""
    hooks.add("torch.utils.data.dataloader", functools.partial(_hook_loaders, watch))
    hooks.add("torch.utils.data.distributed", _hook_samplers)
    hooks.add("torch.autograd.anomaly_mode", functools.partial(_hook_anomaly_detection, watch))
    hooks.add("torch.nn.modules.module", functools.partial(_hook_modules, watch))
    hooks.add("transformers.modeling_utils", lambda module: _hook_eval(watch, module.PreTrainedModel))
    hooks.add("torch._jit_internal", _hook_scripting)
    hooks.add("torch.nn.functional", functools.partial(_hook_losses, watch))
    hooks.add("torch._tensor", functools.partial(_hook_backward, watch))
    hooks.add("torch._tensor", hook_methods)
    hooks.add("torch", functools.partial(hook_filling, watch.on_filling))
    hooks.add("torch.nn.modules.activation", hook_layers)
    hooks.add("torch.nn.utils.clip_grad", functools.partial(_hook_clipping, watch))
    hooks.add("torch.amp.grad_scaler", functools.partial(hook_scaler, watch))
    hooks.add("torch.amp.autocast_mode", functools.partial(hook_autocast, watch))
    hooks.add("torch.optim.optimizer", functools.partial(_hook_optimizers, watch))
    hooks.add("torch.optim.lr_scheduler", functools.partial(_hook_schedules, watch))


def _hook_loaders(watch: Watch, module: Any) -> None:
    loader = module.DataLoader
    build, iterate = loader.__init__, loader.__iter__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        _keep_place(self)
        if watch.session.is_root and self.num_workers:
            watch.session.shorten("data loaders run without worker processes")
            self.__dict__["lintrain_workers"] = self.num_workers
            # Hooks and the watch are objects of this process: rows that a worker makes would be seen by none.
            self.num_workers, self.prefetch_factor, self.timeout = 0, None, 0
            self.__dict__["persistent_workers"] = False

    @functools.wraps(iterate)
    def iter_(self: Any) -> Iterator[Any]:
        batches: Iterator[Any] = iterate(self)
        if watch.is_on and watch.run is None and any(each.kind is MADE for each in watch.session.stand_ins):
            batches = before_training(watch, batches, length_of(self) or math.inf)
        if not watch.is_on or not watch.on_loader_start(self):
            return _with_given(watch, batches) if watch.is_guided and watch.session.given_batch.path else batches
        # The iterator is wrapped, not the loader: `len(loader)`, its sampler and its attributes stay the script's.
        return WatchedBatches(watch, self, batches)

    loader.__init__, loader.__iter__ = init, iter_


def _keep_place(loader: Any) -> None:
    """Remember where a loader is made: one that a library makes of the script's is made where that was."""
    frame = callers_frame(above=1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        if (original := made_at(frame.f_locals.get("dataloader"))) is not None:
            loader.__dict__[MADE_AT] = original
            return
        frame = frame.f_back
    keep_location(loader)


def _with_given(watch: Watch, batches: Iterator[Any]) -> Iterator[Any]:
    """The batches that Lightning takes, the user's own one first."""
    return (watch.session.given_batch.instead_of(batch) for batch in batches)


def _hook_samplers(module: Any) -> None:
    build = module.DistributedSampler.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        keep_location(self)

    module.DistributedSampler.__init__ = init


def _hook_anomaly_detection(watch: Watch, module: Any) -> None:
    for kind in (module.detect_anomaly, module.set_detect_anomaly):
        kind.__init__ = _placed_detection(watch, kind.__init__)


def _placed_detection(watch: Watch, build: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        location = frame_location(users_frame())
        if location is not None:
            watch.effects.counts.first_at.setdefault("searched_for_nan", location)

    return init


def _hook_modules(watch: Watch, module: Any) -> None:
    call = module.Module.__call__

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Only the outermost module: a model calls its parts thousands of times, and the batch is what the whole one
        # gets.
        if watch.session.state_loads.waits:
            watch.session.state_loads.on_call(self)
        if watch.depth or not watch.is_on:
            return call(self, *args, **kwargs)
        watch.depth += 1
        watch.passes.reads(args, kwargs)
        try:
            output = call(self, *args, **kwargs)
        except Exception:
            watch.iteration.failed = without_shells(self)
            raise
        finally:
            watch.depth -= 1
        watch.on_forward(self, args, kwargs, output)
        return output

    module.Module.__call__ = called
    _hook_eval(watch, module.Module)


def _hook_eval(watch: Watch, kind: Any) -> None:
    """Pretrained models of transformers have a method of their own, which the library calls where it loads them."""
    if "eval" not in vars(kind):
        return
    evaluate = kind.eval

    @functools.wraps(evaluate)
    def eval_(self: Any) -> Any:
        # The library calls `eval` as well, when it loads a pretrained model, which says nothing about the script.
        if watch.is_on and is_called_by_user():
            watch.passes.on_eval_mode()
        return evaluate(self)

    kind.eval = eval_


def _hook_scripting(module: Any) -> None:
    """TorchScript compiles the text of a hooked function: it looks up its names where that was written, not here."""
    names_of = attribute(module, "createResolutionCallbackFromClosure", None)
    if names_of is not None:

        def names(function: Any) -> Any:
            return names_of(inspect.unwrap(function))

        module.createResolutionCallbackFromClosure = names


def _hook_losses(watch: Watch, module: Any) -> None:
    for name in LOSSES:
        setattr(module, name, _watched_loss(watch, name, getattr(module, name)))
    for name in ("softmax", "log_softmax"):
        setattr(module, name, _watched_softmax(watch, getattr(module, name)))


def _watched_softmax(watch: Watch, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def softmax(input: Any, dim: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - as below
        # Only the first of several axes is of interest: attention calls it for the last one all the time. Without one,
        # torch takes the first of three axes.
        # A layer of the library that calls it says nothing about where the script chose the axis.
        is_first = dim == 0 or (dim is None and attribute(input, "ndim", 0) == 3)
        caller = callers_frame(above=1) if is_first else None
        is_direct = caller is not None and is_users(caller.f_code.co_filename)
        if is_direct and watch.is_on and attribute(input, "ndim", 0) > 1:
            watch.effects.counts.note("softmaxes_over_rows", 1)
        return marked(function(input, dim, *args, **kwargs), callers_frame(above=1))

    return softmax


def _watched_loss(watch: Watch, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def loss(*args: Any, **kwargs: Any) -> Any:
        given, target, rest, options = split_arguments(name, args, kwargs)
        # Torch is about to refuse anything but tensors, such as the None of a `forward` without `return`.
        is_watched = watch.is_on and has(given, "shape") and has(target, "shape")
        call = watch.on_loss(name, given, target, rest, options) if is_watched else None
        result = function(*args, **kwargs)
        if call is not None and watch.run is None:
            call.on_result(result)
        elif call is not None:
            call.result = result
        return result

    return loss


def _hook_backward(watch: Watch, module: Any) -> None:
    backward = module.Tensor.backward

    @functools.wraps(backward)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not watch.is_on:
            return backward(self, *args, **kwargs)
        if is_own_gradient(self, args[0] if args else kwargs.get("gradient")):
            text = f"the gradient of the loss is {float(self.detach()):.3g}, as the loss itself"
            watch.odd_calls.note(OddCallKind.OWN_GRADIENT, text, users_frame())
        watch.on_backward_start(self)
        backward(self, *args, **kwargs)
        watch.odd_calls.players.on_backward_end()
        watch.on_backward_end()
        return None

    module.Tensor.backward = watched


def _hook_clipping(watch: Watch, module: Any) -> None:
    by_norm, by_value = module.clip_grad_norm_, module.clip_grad_value_

    @functools.wraps(by_norm)
    def clip_norm(parameters: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
        # A generator can be read once: torch gets the list that was made of it.
        given = [parameters] if has(parameters, "grad") else list(parameters)
        if watch.is_on:
            watch.on_clipping(given, max_norm)
            if not given and watch.effects.counts["backwards"]:
                text, at = "0 parameters were clipped", made_by_statement(parameters)
                watch.odd_calls.note(OddCallKind.CLIPPED_NOTHING, text, users_frame(), at=at)
        return by_norm(given, max_norm, *args, **kwargs)

    @functools.wraps(by_value)
    def clip_value(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        given = [parameters] if has(parameters, "grad") else list(parameters)
        if watch.is_on:
            watch.on_clipping(given, None)
        return by_value(given, *args, **kwargs)

    for owner in (module, loaded("torch.nn.utils")):
        if owner is not None:  # it hands both on, and may have been imported before
            owner.clip_grad_norm_, owner.clip_grad_value_ = clip_norm, clip_value


def _hook_optimizers(watch: Watch, module: Any) -> None:
    build = module.Optimizer.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        watch.on_optimizer(self)

    module.Optimizer.__init__ = init
    module.Optimizer.zero_grad = _watched_clearing(watch, module.Optimizer.zero_grad)
    module.register_optimizer_step_pre_hook(watch.on_step_start)
    module.register_optimizer_step_post_hook(watch.on_step_end)


def _watched_clearing(watch: Watch, clear: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(clear)
    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        if watch.is_on and watch.effects.ledger.waits(
            [each for group in self.param_groups for each in group["params"]]
        ):
            watch.effects.ledger.on_clearing(self, frame_location(users_frame()))
        return clear(self, *args, **kwargs)

    return zero_grad


def _hook_schedules(watch: Watch, module: Any) -> None:
    for name in ("LRScheduler", "ReduceLROnPlateau"):
        schedule = attribute(module, name, None)
        if schedule is not None and "step" in vars(schedule):
            schedule.__init__ = _made_schedule(watch, schedule.__init__)
            schedule.step = _watched_schedule(watch, schedule.step)


def _made_schedule(watch: Watch, build: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        # By now a one-cycle schedule has written its own rates beside `lr`, which is still the one from before.
        groups = attribute(kwargs.get("optimizer", args[0] if args else None), "param_groups", [])
        before = tuple(float(group["lr"]) for group in groups)
        build(self, *args, **kwargs)
        watch.schedules.on_schedule(self, before)

    return init


def _watched_schedule(watch: Watch, step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A schedule that holds others steps them itself, some of them as it is made: that is not the script's step.
        is_own = is_called_by_user("/accelerate/")
        watch.on_schedule_step(self, frame_location(users_frame()) if is_own else None)
        return step(self, *args, **kwargs)

    return watched


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Watch torch and metrics from their imports on; the session asks the watch about the meaning of the script's
    end.
    """
    session.watch = LoopAfterLoop(session)
    hook_torch(session.watch, hooks)
    hook_metrics(session.watch.metrics, hooks)
    hook_odd_calls(session.watch.odd_calls, hooks)
