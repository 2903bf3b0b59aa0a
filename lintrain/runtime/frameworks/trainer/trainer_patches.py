"""Intercept transformers' Trainer: quiet its arguments, remember where it is built, and measure at its first call.

Weights that the script loads by itself: which were filled, and which names did not fit.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lintrain.evidence.run import StateLoad
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.trainer.setfit import follow, outer_trainer
from lintrain.runtime.frameworks.trainer.setup import loaded_or_empty
from lintrain.runtime.measure.weights import damaged, zero_layers

if TYPE_CHECKING:
    from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun

ENTRIES = ("train", "evaluate", "predict")


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Patch the classes as soon as the script imports them."""
    hooks.add("transformers.training_args", lambda module: _patch_arguments(session, module.TrainingArguments))
    hooks.add("transformers.trainer", lambda module: _patch_trainer(session, module.Trainer))
    hooks.add("transformers.modeling_utils", lambda module: _patch_loading(session, module.PreTrainedModel))
    hooks.add("setfit.trainer", follow)
    hooks.add("torch.nn.modules.module", lambda module: watch_loading(session, module.Module))


def _patch_arguments(session: ProbeSession, arguments: Any) -> None:
    prepare, build = arguments.__post_init__, arguments.__init__

    @functools.wraps(prepare)
    def post_init(self: Any, *args: Any, **kwargs: Any) -> None:
        # Before the library's own check of the device, which raises for `bf16` or `tf32` without a GPU.
        if session.device == "cpu":
            _use_cpu(self)
        # Before `prepare` as well: it turns a backend that is set into `torch_compile=True`.
        _leave_out_compilation(session, self)
        prepare(self, *args, **kwargs)
        quieten(session, self)
        session.origins.note(self)

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            build(self, *args, **kwargs)
        except Exception as error:
            _remember(session, error, frame_location(users_frame(skip=self)))
            raise

    arguments.__post_init__, arguments.__init__ = post_init, init


def _remember(session: ProbeSession, error: Exception, location: Location | None) -> None:
    # The first one is kept: a script may catch it, and raise another that only says that set-up failed.
    if session.construction_error is None:
        session.construction_error, session.construction_location = error, location


def _use_cpu(arguments: Any) -> None:
    for name in ("use_cpu", "no_cuda"):
        if has(arguments, name):
            setattr(arguments, name, True)
            break
    if attribute(arguments, "tf32", None):
        arguments.tf32 = None  # raises without a GPU, and says nothing about the script


def _leave_out_compilation(session: ProbeSession, arguments: Any) -> None:
    """Compiling takes longer than all measurements together and changes none of them."""
    settings = ("torch_compile", "torch_compile_backend", "torch_compile_mode")
    names = [name for name in settings if has(arguments, name)]
    if any(getattr(arguments, name) for name in names):
        session.shorten("`torch_compile` was left out")
    for name in names:
        setattr(arguments, name, False if name == "torch_compile" else None)


def quieten(session: ProbeSession, arguments: Any) -> None:
    """No tracker, no upload, no checkpoint, and a temporary output folder; the requested settings are stored."""
    if not has(arguments, "lintrain_asked"):
        asked = ("output_dir", "save_strategy", "report_to", "push_to_hub")
        object.__setattr__(arguments, "lintrain_asked", {name: attribute(arguments, name, None) for name in asked})
        _say_what_is_off(session, arguments)
    changes: dict[str, Any] = {"output_dir": session.folder("output"), "report_to": [], "push_to_hub": False}
    # No no-op for `save_model`: the library looks for the files of a checkpoint that it believes it has saved.
    changes["save_strategy"] = type(arguments.save_strategy)("no")
    if attribute(arguments, "logging_dir", None):
        changes["logging_dir"] = session.folder("logs")
    for name, value in changes.items():
        object.__setattr__(arguments, name, value)


def _say_what_is_off(session: ProbeSession, arguments: Any) -> None:
    trackers = [str(name) for name in arguments.report_to or () if name != "none"]
    if trackers:
        session.note(f"nothing is reported to {', '.join(trackers)}")
    if arguments.push_to_hub:
        session.note("`push_to_hub` was requested but not executed")
    session.note("the Trainer saves no checkpoint, and its `output_dir` is a temporary folder")


def _patch_trainer(session: ProbeSession, trainer: Any) -> None:
    build = trainer.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        location = frame_location(users_frame(skip=self))
        self.__dict__["lintrain_construction"] = location
        # Arguments may be made in another process or read from a file, past the patched `__init__`.
        for value in (*args, *kwargs.values()):
            if attribute(value, "lintrain_asked") is not None:
                quieten(session, value)
        try:
            build(self, *args, **kwargs)
        except Exception as error:
            _remember(session, error, location)
            raise
        _make_the_folder_asked_for(self)

    trainer.__init__ = init
    for entry in ENTRIES:
        setattr(trainer, entry, _entered(session, entry, getattr(trainer, entry)))


def _make_the_folder_asked_for(trainer: Any) -> None:
    """A Trainer makes its output folder (transformers 5.23), in which the script may look for a checkpoint."""
    arguments = attribute(trainer, "args", None)
    folder = attribute(arguments, "lintrain_asked", {}).get("output_dir")
    if folder is not None and attribute(arguments, "should_save", False):
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)  # as if the script did: in a temporary layer


def _entered(session: ProbeSession, entry: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if session.measuring:
            return original(self, *args, **kwargs)
        # From here on every call of the library is the probe's own: the interceptors let it pass, and no loop is
        # followed.
        session.measuring = True
        # Of this trainer: the evaluation of another one, which was never trained, is a call to measure.
        earlier: TrainerRun | None = self.__dict__.get("lintrain_run")
        if earlier is not None and entry != "train":
            return _after_training(session, self, entry, original, args, kwargs)
        location = frame_location(users_frame(skip=self))
        try:
            output = _measured(session, self, entry, location, args, kwargs)
        except BaseException as error:  # noqa: BLE001 - nothing of the probe may reach the script's own `except:`
            session.on_own_error(error)
            output = None
        return session.finish() if output is None else output

    return call


def _measured(
    session: ProbeSession,
    trainer: Any,
    entry: str,
    location: Location | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any | None:
    """Measure a call; what it returns if the script continues to another training, else None."""
    from lintrain.runtime.frameworks.trainer.continuing import train_output
    from lintrain.runtime.frameworks.trainer.later_calls import trains_again
    from lintrain.runtime.frameworks.trainer.stages import measure

    # What the trainer around this one trains after it is a part of the same call.
    may_follow = entry == "train" and session.may_continue and outer_trainer(trainer) is None
    follows = may_follow and trains_again("train", trainer.__class__)
    is_new = session.enters(location)
    run = measure(session, trainer, entry, location, args, kwargs, is_followed=follows, is_new=is_new)
    _with_stand_ins(session, run, lambda: measure(session, trainer, entry, location, args, kwargs))
    if not (follows and session.may_continue):
        return None
    trainer.__dict__["lintrain_run"] = run
    output = train_output(run)
    session.continue_after_call(is_new=is_new)
    return output


MOST_STAND_INS = 3


def _with_stand_ins(session: ProbeSession, run: TrainerRun, measure: Callable[[], TrainerRun]) -> None:
    """Measure a call that failed once more, with stand-ins for what failed, unless the text can be repaired."""
    if not session.try_repairs():
        return
    from lintrain.runtime.frameworks.trainer.stand_ins import put_stand_in

    for _ in range(MOST_STAND_INS):
        text = put_stand_in(run)
        if text is None:
            return
        session.channel.send("stand-in", text=text)
        run = measure()


def _after_training(
    session: ProbeSession,
    trainer: Any,
    entry: str,
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """An evaluation or a prediction of a trainer whose training was measured: on a few rows."""
    from lintrain.runtime.frameworks.trainer.continuing import on_a_few_rows

    try:
        return on_a_few_rows(trainer, entry, original, args, kwargs)
    finally:
        session.measuring = False


def _patch_loading(session: ProbeSession, model_class: Any) -> None:
    """Keep which parameters no checkpoint filled: the library says so only in a log line."""
    # The function under the class method, so that `cls` stays the class that the script names.
    load = model_class.from_pretrained.__func__

    @functools.wraps(load)
    def from_pretrained(cls: Any, *args: Any, **kwargs: Any) -> Any:
        # The library returns what it did not find in the checkpoint only on this request; the script gets the form
        # that it asked for.
        wanted = kwargs.pop("output_loading_info", False)
        model, loaded = loaded_or_empty(session, load, cls, args, kwargs)
        object.__setattr__(model, "lintrain_fresh", tuple(sorted(_names(loaded))))
        location = frame_location(users_frame())
        zeros = zero_layers(model, _names(loaded)) if location is not None else ()
        if location is not None and zeros:
            session.state_loads.append(StateLoad(location, len(model.state_dict()), 0, 0, zeros=zeros))
        return (model, loaded) if wanted else model

    model_class.from_pretrained = classmethod(from_pretrained)


def _names(loaded: Any) -> set[str]:
    missing = {str(name) for name in loaded.get("missing_keys", ())}
    mismatched = {str(entry[0]) for entry in loaded.get("mismatched_keys", ())}
    return missing | mismatched


MOST = 32


def watch_loading(session: ProbeSession, module_class: Any) -> None:
    """Keep which weights the script filled by itself, for a head that it loads has learned already."""
    load = module_class.load_state_dict

    @functools.wraps(load)
    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        location = frame_location(users_frame())
        zeros, bad = damaged(state_dict, dict(self.named_parameters())) if location is not None else ((), ())
        result = load(self, state_dict, *args, **kwargs)
        # Kept on the module: a script may load its body and its head in two calls.
        filled = attribute(self, "lintrain_filled", frozenset[str]())
        object.__setattr__(self, "lintrain_filled", filled | frozenset(map(str, state_dict)))
        if location is not None and len(session.state_loads) < MOST and has(result, "missing_keys"):
            kept = StateLoad(
                location,
                len(self.state_dict()),
                len(result.missing_keys),
                len(result.unexpected_keys),
                _prefix(list(result.missing_keys), list(result.unexpected_keys)),
                zeros,
                bad,
            )
            session.state_loads.note(kept, self, state_dict, result)
        return result

    module_class.load_state_dict = load_state_dict


def _prefix(missing: list[str], unexpected: list[str]) -> str:
    """What every unexpected name has before a missing one, or the other way round."""
    for longer, shorter in ((unexpected, missing), (missing, unexpected)):
        # `module.encoder.weight` beside `encoder.weight`: a checkpoint of DistributedDataParallel, loaded without it.
        if longer and shorter and longer[0].endswith(shorter[0]):
            prefix = longer[0].removesuffix(shorter[0])
            if {f"{prefix}{name}" for name in shorter} == set(longer):
                return prefix
    return ""
