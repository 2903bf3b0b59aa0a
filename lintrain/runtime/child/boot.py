"""Start the probe in the script's process: environment, import hooks, and the report if no training call comes.

Compiled models run eagerly: compiling takes longer than all measurements together and changes none of them. A script
whose output is a pipe gets the size of terminal of its stdin. A script that a launcher usually starts on several
processes finds what the launcher would have set for rank 0; of processes that a script starts by itself
(`torch.multiprocessing.spawn`), that of rank 0 is measured.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any

from lintrain.runtime.child import hub, label_rows, quick_datasets
from lintrain.runtime.child.channel import ASKS, EVENTS, WHERE, Channel, opened, take_key, take_named_key
from lintrain.runtime.child.frames import FORWARD_TRACE, callers_frame, is_users
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.launcher_variables import ASKED_FOR, stand_for_a_launcher
from lintrain.runtime.child.library import loaded
from lintrain.runtime.child.probe_session import ROOT_PROCESS, ProbeSession
from lintrain.runtime.frameworks.keras import keras_patches as keras
from lintrain.runtime.frameworks.lightning import lightning_patches as lightning
from lintrain.runtime.frameworks.loop import torch_hooks as loop
from lintrain.runtime.frameworks.trainer import trainer_patches as trainer
from lintrain.runtime.measure import collation
from lintrain.runtime.measure.non_finite import NonFiniteTrace
from lintrain.runtime.measure.objects import object_hooks as objects
from lintrain.runtime.sandbox.network.programs import KEYS
from lintrain.runtime.timeline import ranks
from lintrain.runtime.timeline import timeline_setup as timeline


def start(request: dict[str, Any]) -> None:
    """Install every hook; the script then runs as if started by hand."""
    # First of all: which process is measured decides what every interceptor below does.
    ranks.become_root(request["timeline"])
    become_root()
    session = ProbeSession(request, Channel(os.path.join(request["exchange"], EVENTS)))
    names = os.environ.pop(KEYS, "").split()
    session.channel.signer = take_key(session.exchange) if session.is_root else take_named_key(session.exchange, names)
    # Until training starts; `MeasuredRun` puts the script's thresholds back, since they change the timing of what is
    # measured.
    session.thresholds.raise_them()
    hooks = AfterImport(lambda module, error: session.note(f"`{module}` was not intercepted: {error}"))
    # The network comes before the keeper: one of its own needs files that the kernel then forbids to write.
    session.network.install(hooks, session.new_keys)
    session.keeper.install(hooks, is_root=session.is_root)
    hub.install(session, hooks)
    if request.get("stand_ins"):
        from lintrain.runtime.stand_ins.install import install as install_stand_ins

        install_stand_ins(session, hooks)
    elif request.get("takes_gpu_to_cpu"):
        from lintrain.runtime.stand_ins import devices, ledger

        devices.install(ledger.Ledger(session), hooks)
    _run_eagerly(session, hooks)
    if request.get("is_second_try"):
        hooks.add("torch", _detect_anomalies)
        NonFiniteTrace(lambda origin: session.measured(origin=origin)).install(hooks)
    _keep_terminal()
    if session.reproducer is not None:
        session.reproducer.install(hooks)
    quick_datasets.install(session, hooks)
    label_rows.install(session, hooks)
    install(session, hooks)
    watch_spawned(session, hooks)
    objects.install(session, hooks)
    collation.install(session, hooks)
    trainer.install(session, hooks)
    loop.install(session, hooks)
    keras.install(session, hooks)
    lightning.install(session, hooks)
    if request["timeline"] is not None:
        timeline.install(session, hooks, request["timeline"])
    is_launcher = ranks.is_launcher(request["timeline"])
    # Last: from here on imports run the hooks, and every interceptor has to be registered.
    hooks.install()
    if session.is_root and not is_launcher:
        _watch_the_end(session)
        if not is_spawned():
            session.channel.send("started", pid=os.getpid())


def _watch_the_end(session: ProbeSession) -> None:
    # The previous hook runs in any case: the user sees the traceback that the script prints by itself.
    previous = sys.excepthook
    reported: list[BaseException] = []

    def report(error: object) -> None:
        if session.is_root and isinstance(error, BaseException) and all(error is not each for each in reported):
            reported.append(error)
            session.on_error(error)

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        report(error)
        previous(kind, error, traceback)

    def report_hidden() -> None:
        """The error that ended the script, where a hook of the script's own took the place of the probe's."""
        if sys.excepthook is not excepthook:
            report(getattr(sys, "last_value", None))

    sys.excepthook = excepthook
    answer = os.path.join(session.exchange, WHERE)
    if ASKS and os.path.exists(answer):  # only a parent that may ask makes the file
        # Written by Python from the signal itself: a thread that waits for the limit would be one more of the script's.
        faulthandler.register(ASKS, opened(answer))
    # Exit handlers run in reverse order: registered first, these run after all of the script's own.
    atexit.register(session.on_exit)
    atexit.register(report_hidden)
    _watch_hard_ends(session, report_hidden)


def _watch_hard_ends(session: ProbeSession, report_hidden: Callable[[], None]) -> None:
    """`os._exit` and `exec` run no exit hook; threads that continue keep a script running after its last line."""
    end: Any = os._exit

    @functools.wraps(end)
    def ends(status: int) -> None:
        report_hidden()
        if session.is_root and session.has_begun:
            session.on_exit()
        end(status)

    def main_ends() -> None:
        report_hidden()
        if session.is_root and session.has_gone_through and not session.has_ended:
            session.on_exit(may_run_again=True)
            session.finish()

    os._exit = ends  # type: ignore[assignment]
    for name in ("execv", "execve"):
        # A script that restarts itself (`os.execv`) ends without exit handlers, and the next program has the same
        # pid.
        setattr(os, name, _saying_so(session, getattr(os, name)))
    register = getattr(threading, "_register_atexit", None)  # called before threads are waited for; since Python 3.9
    if register is not None:
        register(main_ends)


def _saying_so(session: ProbeSession, execute: Callable[..., Any]) -> Callable[..., Any]:
    """A function that puts another program in place of this one: what was measured until then is sent.

    Where nothing was, that program may be the script once more: it gets a key to send with.
    """

    @functools.wraps(execute)
    def becomes(*args: Any) -> Any:
        if session.is_root and session.has_begun:
            session.on_exit()
        elif session.is_root and session.channel.signer is not None:
            session.channel.signer.leave_keys(session.exchange, 1)
        return execute(*args)

    return becomes


ONLY_OF_INDUCTOR = ("mode", "options")


def _run_eagerly(session: ProbeSession, hooks: AfterImport) -> None:
    """Patch `torch.compile` as soon as the script imports torch."""
    hooks.add("torch", lambda torch: _patch_compile(session, torch))


def _patch_compile(session: ProbeSession, torch: Any) -> None:
    """The wrapper around the module stays as the script expects it; before torch 2.6 nothing makes it run eagerly."""
    if not hasattr(torch.compiler, "set_stance"):
        return
    # To return the module itself would be simpler, but scripts read `_orig_mod` and save with its prefix.
    compile_ = torch.compile

    @functools.wraps(compile_)
    def left_out(*args: Any, **kwargs: Any) -> Any:
        session.shorten("`torch.compile` was left out")
        # In addition to the backend: a module that was compiled before this call, or by a library, runs eagerly too.
        torch.compiler.set_stance("force_eager")
        # The eager backend warns about extra arguments in the output of the script: `mode` and
        # `options` are for inductor.
        given = {name: value for name, value in kwargs.items() if name not in ONLY_OF_INDUCTOR}
        return compile_(*args, **{**given, "backend": "eager"})

    torch.compile = left_out


def _detect_anomalies(torch: Any) -> None:
    """Let autograd remember where each operation was called, and keep that of one whose backward pass fails.

    Torch writes it as a warning, which the script may filter, so it is caught here and put on the error.
    """
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    # Lightning turns it off around its loop.
    kind: Any = torch.autograd.set_detect_anomaly
    initialize = kind.__init__

    def begin(each: Any, *_args: Any, **_kwargs: Any) -> None:
        initialize(each, True, check_nan=False)

    kind.__init__ = begin
    run = torch.autograd._engine_run_backward

    @functools.wraps(run)
    def watched(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                return run(*args, **kwargs)
            except Exception as error:
                # Another warning of the same pass is not about the failing operation: only the one with
                # the forward call counts.
                texts = [str(each.message) for each in caught]
                setattr(error, FORWARD_TRACE, next((text for text in texts if "forward call" in text), ""))
                raise

    torch.autograd._engine_run_backward = watched


STDIN = 0
OUTPUTS = (1, 2)


def _keep_terminal() -> None:
    """Let `os.get_terminal_size` answer for stdout and stderr, as it would without a probe."""
    original = os.get_terminal_size

    @functools.wraps(original)
    def get_terminal_size(fd: int = 1, /) -> os.terminal_size:
        try:
            return original(fd)
        except OSError:
            if fd not in OUTPUTS:
                raise
            return original(STDIN)  # no terminal either where lintrain has none: the error is as by hand

    os.get_terminal_size = get_terminal_size


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Answer a script that reads a launcher's variables and has none, and put gloo in place of other backends."""
    if session.is_root:
        _answer_reads(session)
    hooks.add("torch.distributed.distributed_c10d", lambda module: _patch_groups(session, module))


def _answer_reads(session: ProbeSession) -> None:
    """Only `os.environ["RANK"]` in the script itself: code that uses `get` or `in` works without it."""
    environment: Any = type(os.environ)
    read = environment.__getitem__

    @functools.wraps(read)
    def getitem(self: Any, name: Any) -> Any:
        try:
            return read(self, name)
        except KeyError:
            # A library that reads `RANK` in a `try` uses the KeyError to learn that no launcher started it.
            if name not in ASKED_FOR or not _is_asked_by_user():
                raise
        stand_for_a_launcher(session)
        return read(self, name)

    environment.__getitem__ = getitem


def _is_asked_by_user() -> bool:
    caller = callers_frame(above=2)
    return caller is not None and is_users(caller.f_code.co_filename)


def _patch_groups(session: ProbeSession, module: Any) -> None:
    begin = module.init_process_group

    @functools.wraps(begin)
    def init_process_group(backend: Any = None, init_method: Any = None, *args: Any, **kwargs: Any) -> Any:
        # A script that passes a store, a rank or `tcp://...` has set up its processes itself;
        # variables would contradict it.
        reads_variables = init_method in (None, "env://") and not {"store", "rank", "world_size"} & set(kwargs)
        if session.is_root and reads_variables and not args and "RANK" not in os.environ:
            stand_for_a_launcher(session)
        if session.device == "cpu" and backend is not None and "gloo" not in str(backend):
            session.shorten(f"processes communicate over gloo instead of {backend}: the probe runs on the CPU")
            backend = "gloo"
            # `device_id` binds the group to a GPU, which the CPU run does not have.
            kwargs.pop("device_id", None)
        return begin(backend, init_method, *args, **kwargs)

    module.init_process_group = init_process_group
    # The package takes the names of this module after this, unless it was loaded before.
    if (package := loaded("torch.distributed")) is not None and getattr(package, begin.__name__, None) is begin:
        package.init_process_group = init_process_group


SPAWNED_BY = "LINTRAIN_PROBE_SPAWNED_BY"
"""Set while a script spawns its processes: to the process that it is."""

FORKS = "--multiprocessing-fork"
"""Among the words that start a process of `multiprocessing` that runs a function."""


def is_spawned() -> bool:
    """Whether the script's own process started this one as one of its ranks, not to help `multiprocessing`."""
    return os.environ.get(SPAWNED_BY) == str(os.getppid()) and FORKS in _words()


def _words() -> list[str]:
    """The words that started this process."""
    # `sys.argv` is the script's own by now; the words of the interpreter (`-c`,
    # `--multiprocessing-fork`) are not in it.
    words: list[str] | None = getattr(sys, "orig_argv", None)  # since Python 3.10
    if words is not None:
        return words
    try:
        with open("/proc/self/cmdline", "rb") as opened:
            return os.fsdecode(opened.read()).split("\0")
    except OSError:
        return [FORKS]


def become_root() -> None:
    """A spawned process trains: it is looked at in place of the one that started it."""
    # `multiprocessing` also starts a resource tracker with the same parent, which runs none of the script's functions.
    if is_spawned():
        os.environ[ROOT_PROCESS] = str(os.getpid())


def watch_spawned(session: ProbeSession, hooks: AfterImport) -> None:
    """Let spawned processes know what they are."""
    if session.is_root:
        hooks.add("torch.multiprocessing.spawn", functools.partial(_patch, session))


def _patch(session: ProbeSession, module: Any) -> None:
    start, wrap = module.start_processes, module._wrap

    @functools.wraps(start)
    def start_processes(*args: Any, **kwargs: Any) -> Any:
        if session.timeline is not None:
            session.timeline.stop("the script starts its own processes (`torch.multiprocessing`)")
        if session.channel.signer is not None:
            # Each rank starts as a new interpreter and signs its events with a key of its own; without one it would
            # be taken for the script's code.
            session.channel.signer.leave_keys(session.exchange, kwargs.get("nprocs", args[2] if len(args) > 2 else 1))
        os.environ[SPAWNED_BY] = str(os.getpid())
        try:
            return start(*args, **kwargs)
        finally:
            del os.environ[SPAWNED_BY]

    @functools.wraps(wrap)  # by its name the new process finds it again
    def started(function: Any, rank: int, *args: Any) -> None:
        # A forked process keeps the command line of its parent, so `is_spawned` is False there: it
        # runs as without a probe.
        wrap(_reporting(session, function, rank) if is_spawned() else function, rank, *args)

    module.start_processes, module._wrap = start_processes, started


def _reporting(session: ProbeSession, function: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """Torch turns an error into a text and ends the process: here it is reported as an error of the script."""
    session.shorten("only rank 0 of the processes that the script starts is measured")
    session.channel.is_muted = rank != 0

    @functools.wraps(function)
    def trains(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            with session.channel.at_once():  # the others will end with an error of their own, because of this one
                session.on_error(error)
            raise

    return trains
