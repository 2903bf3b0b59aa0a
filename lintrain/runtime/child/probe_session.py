"""The probe inside the script's process: what was asked, where events go, and how the process is ended."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from lintrain.evidence.run import Failure, LabelConflicts, ObjectEvidence, Stage, StageName, StandIn
from lintrain.evidence.stages import EndingKind, StageStatus
from lintrain.model.location import Location
from lintrain.runtime.child.channel import Channel, Reported
from lintrain.runtime.child.ending import end_process
from lintrain.runtime.child.following import Following, is_about_names, is_main_thread
from lintrain.runtime.child.frames import failure_of, is_probes_own
from lintrain.runtime.child.going_on import Questions, StartOverError, run_from_the_top
from lintrain.runtime.child.library import gpu_answers, versions, wait_for_the_others
from lintrain.runtime.child.own_files import own_files
from lintrain.runtime.child.saved_batch import GivenBatch
from lintrain.runtime.child.surroundings import Thresholds
from lintrain.runtime.measure.left_weights import StateLoads
from lintrain.runtime.measure.objects.objects import Objects, Origins, can_be_judged_alone
from lintrain.runtime.measure.pace import measure_device
from lintrain.runtime.reproduction.reproducer import Reproducer
from lintrain.runtime.sandbox.files.keeper import Keeper
from lintrain.runtime.sandbox.network.network import Network

if TYPE_CHECKING:
    from typing import Unpack  # Python 3.11; a script may run in 3.10

    from lintrain.evidence.fields import EvidenceFields

ROOT_PROCESS = "LINTRAIN_PROBE_ROOT"


class ProbeSession:
    """One probed process; `measuring` is true while an experiment runs, so that intercepted calls pass through.

    `knows_origins`: it was recorded which weights of a model a checkpoint filled. `may_trace`: the process is only the
    probe's, so its lines may be followed. `tokenizers` are those that the script encoded texts with.
    """

    def __init__(self, request: dict[str, Any], channel: Channel) -> None:
        self.temporary: str = request["temporary"]
        self.exchange: str = request["exchange"]
        self.device: str = request["device"]
        self.overfit: int = request["overfit"]
        self.also = frozenset[str](request["also"])
        self.device_memory: int | None = request.get("device_memory")
        self.sample_rows: int = request["sample_rows"]
        self.stand_in_data: str = request.get("stand_in_data", "")
        self.batches: int = request["batches"]
        self.rows: list[tuple[str, int]] = [(order, count) for order, count in request.get("rows", ())]
        self.script: str = request["script"]
        self.channel = channel
        timeline: dict[str, Any] = request.get("timeline") or {}
        self.processes = 2 if timeline.get("purpose") == "ranks" else 1
        self.keeper = Keeper(self.temporary, request.get("downloads", ()))
        self.network = Network(request)
        self.thresholds = Thresholds()
        self.started = time.perf_counter()
        self.given_batch = GivenBatch(request.get("batch", ""), self.note)
        self.construction_error: BaseException | None = None
        self.construction_location: Location | None = None
        self.shortcuts: list[str] = list(request["shortcuts"])
        self.notes: list[str] = []
        self.stand_ins = Reported[StandIn]("replaced", channel)
        self.failed_by: BaseException | None = None
        self.reproducer = Reproducer(self.temporary, self.script) if request.get("reproduces") else None
        self.conflicts: dict[str, LabelConflicts | None] = {}
        self.state_loads = StateLoads()
        self.objects, self.origins = Objects(), Origins()
        self.tokenizers: dict[int, Any] = {}
        self.collations: Any = None
        self.watch: Any = None
        self.timeline: Any = None
        self.launcher = ""
        self.signs_of_construction: list[Callable[[BaseException], bool]] = []
        self.knows_origins = self.may_trace = True
        self.corrects: Callable[[BaseException | None], bool] = lambda _: False
        self._questions = Questions(channel, self.exchange) if request.get("goes_on") else None
        self.following = Following()
        self._tries_fixes = bool(request.get("tries_fixes"))
        self.measuring = self._ended = self._has_failed = self.has_reached_training = False
        # The end may be reported from several threads at once: a loop in a thread while the main thread exits.
        # Reentrant, for reporting measures objects, which may raise into `on_own_error`.
        self._lock = threading.RLock()
        self._root = self._find_root()  # the script may clear its environment

    def _find_root(self) -> str:
        return os.environ.setdefault(ROOT_PROCESS, str(os.getpid()))

    @property
    def is_root(self) -> bool:
        """Whether this process runs the script itself, not a worker that the script started."""
        return self._root == str(os.getpid())

    @property
    def has_begun(self) -> bool:
        """Whether a loop of the script is followed, or was."""
        return self.watch is not None and self.watch.run is not None

    @property
    def has_gone_through(self) -> bool:
        """Whether the loop is over when the script's last line has run; it may continue in a thread."""
        return self.has_begun and (self.watch.is_in_main_thread or self.watch.run.is_settled)

    @property
    def has_ended(self) -> bool:
        """Whether the final event was sent."""
        return self._ended

    def new_keys(self, count: int) -> list[str]:
        """The names of keys that were left for a program which this process starts; none where it has none itself."""
        signer = self.channel.signer
        return [] if signer is None else signer.leave_named_keys(self.exchange, count)

    def folder(self, name: str) -> str:
        """A temporary folder, created at the first use."""
        path = os.path.join(self.temporary, "redirected", name)
        os.makedirs(path, exist_ok=True)
        return path

    def shorten(self, text: str) -> None:
        """Remember something that was changed in order to be quick; shown once in the report."""
        if text not in self.shortcuts:
            self.shortcuts.append(text)

    def note(self, text: str) -> None:
        """Remember something that the report should mention."""
        if text not in self.notes:
            self.notes.append(text)

    def facts(self) -> EvidenceFields:
        """The fields that every evidence of this process has."""
        return {
            "script": self.script,
            "framework": "transformers",
            "device": self.device,
            "versions": versions(),
            "state_loads": self.state_loads,
            "locations": {} if self.origins.adapter is None else {"adapter": self.origins.adapter},
            "call_number": self.following.number,
            "stand_ins": tuple(self.stand_ins),
        }

    def report_run(self, **fields: Unpack[EvidenceFields]) -> None:
        """Send that a training run was reached, with what is known of it."""
        self.following.is_between = False
        self.has_reached_training = True
        self.channel.send("run", run=0, values=fields)

    def report_stage(self, stage: Stage) -> None:
        """Send the result of a stage."""
        self._has_failed |= stage.status is StageStatus.FAILED
        self.channel.send("stage", run=0, stage=stage)

    def measured(self, **fields: Unpack[EvidenceFields]) -> None:
        """Send fields of `Evidence`; a later value of a field replaces an earlier one."""
        self.channel.send("measured", run=0, values=fields)

    def elapsed(self) -> float:
        """Seconds since Python started on the script."""
        return time.perf_counter() - self.started

    def on_error(self, error: BaseException) -> None:
        """Report an error that ends the script: in the run that it is in, or before any."""
        if isinstance(error, StartOverError):
            self._has_failed = True
            self.run_again(error)
            self._end(EndingKind.TIME, "none was left to run the script again with other stand-ins")
            return
        # Before anything else: an error that the guard caused must not be reported as one of the script.
        if (refusal := self.refusal(error)) is not None:
            self._end(EndingKind.REFUSED, refusal)
            return
        # No line of the script led to it. A cell that is no Python has no frame either, but says where it is.
        if is_probes_own(error) and failure_of(error, None).location is None:
            self.on_own_error(error)
            return
        is_judged = is_about_names(error) or (self.watch is not None and self.watch.is_in_next(error))
        if self.following.is_between and not is_judged:
            # What a shortened training returns may cause it.
            self.note(f"the script ended after its measured training with {type(error).__name__}: {error}")
            self._end(EndingKind.MEASURED, "")
            return
        # The error comes after an optimizer step that no loop repeats: what was measured so far is kept, and the end
        # is reported as `stopped`.
        if self.watch is not None and self.watch.is_behind(error):
            self.watch.on_exit()
            self._end(EndingKind.STOPPED, f"{type(error).__name__}: {error}")
            return
        if self.watch is not None and self.watch.on_error(error):
            self._end_measured(error)
            return
        self._report_failure(failure_of(error, None), in_construction=self._is_construction(error), error=error)

    def refusal(self, error: BaseException) -> str | None:
        """Why an error is of lintrain's making and not the script's; None if it is the script's."""
        return self.network.refusal(error) or self.keeper.refusal(error)

    def on_exit(self, *, may_run_again: bool = False) -> None:
        """Report that the script ended without a training call."""
        if self._ended or not self.is_root:
            return
        if self.timeline is not None and self.timeline.purpose == "ranks":
            self.timeline.report(done=True, left=True)
            return
        is_measured = self.watch is not None and self.watch.on_exit()
        if is_measured or self.following.is_between:
            self._end_measured(may_run_again=may_run_again)
            return
        if self.construction_error is not None:
            failure = failure_of(self.construction_error, self.construction_location)
            self._report_failure(failure, in_construction=True)
        elif self.watch is not None and self.watch.backwards_by_hand:
            self._end(EndingKind.BY_HAND, f"{self.watch.backwards_by_hand} backward passes")
        else:
            # Nothing trains, but a loader that yields nothing or a model that is moved twice can still be judged.
            self._report_objects()
            self._end(EndingKind.NO_TRAINING, "")

    def on_training_elsewhere(self) -> None:
        """An optimizer steps in a process that the script started: only the script's own process is followed."""
        self._end(EndingKind.ELSEWHERE, "it trains in processes that it starts itself")

    def run_again(self, error: BaseException | None = None) -> None:
        """Run the script again with corrected stand-ins or repairs of the parent; return if there is neither."""
        if self._questions is None or not self._may_run_again():
            return
        # First of all: what was made up may be the cause, and then no repair of the text is.
        is_corrected = self._has_failed and self.corrects(error or self.failed_by)
        if (repaired := self._questions.ask(is_corrected=is_corrected)) is None:
            return
        if error is not None:
            traceback.clear_frames(error.__traceback__)  # they hold models and data of the run that is over
        self._start_over()
        try:
            run_from_the_top(repaired)
        except SystemExit:
            pass  # the script's own end
        except BaseException as following:  # noqa: BLE001 - as Python's own hook for the script's error
            self.on_error(following)
        self.on_exit(may_run_again=True)
        self._exit()

    def _end_measured(self, error: BaseException | None = None, *, may_run_again: bool = True) -> None:
        """End after a measured run, unless there is another one with repairs."""
        if may_run_again and self._may_run_again():
            self._measure_the_rest()
            self.run_again(error)
        self._end(EndingKind.MEASURED, "")

    def try_repairs(self) -> bool:
        """After a failing stage, run again with repairs; whether none is known, so that stand-ins may be tried."""
        if not (self._has_failed and self._may_run_again()):
            return False
        self._measure_the_rest()
        self.run_again()
        self._questions = None  # the text alone does not come as far as with stand-ins
        return True

    @property
    def may_continue(self) -> bool:
        """Whether the script may continue after the present call, once that is measured without an error."""
        return self.may_start_over and self.following.has_room() and not self._has_failed and is_main_thread()

    def enters(self, call: Location | None) -> bool:
        """A library is asked to train: a loop before it is closed; whether the call is new, so that it is measured."""
        if self.watch is not None and self.has_begun:
            self.watch.on_library()
            self.measuring = True
        return self.following.enter(call)

    def continue_after_call(self, *, is_new: bool) -> None:
        """Close the run of the present call; the script continues, and its next call is a run of its own."""
        if is_new:
            self._measure_the_rest()
            self.channel.send("call")
        self.following.leave(self._stop_following)
        self.measuring = False
        if self.watch is not None:
            self.watch.start_over()

    def _stop_following(self) -> None:
        """End the process from another thread: the script takes too long to come to its next training call."""
        self.note("the script took too long to reach its next training call, which was not measured")
        self._end(EndingKind.MEASURED, "")
        self._exit()

    @property
    def may_start_over(self) -> bool:
        """Whether a script that fails, or takes too long, may run again in this process."""
        return self._questions is not None and not self._ended and self._is_ours()

    def _is_ours(self) -> bool:
        return self.is_root and not self.channel.is_muted and self.timeline is None

    def _may_run_again(self) -> bool:
        return self.may_start_over and (self._has_failed or self._tries_fixes) and is_main_thread()

    def _start_over(self) -> None:
        """Forget what is known of the run that failed: another attempt begins."""
        self.channel.send("attempt")
        self.following.start_over(measures_again=self._tries_fixes)
        self.started = time.perf_counter()
        self.measuring = self._has_failed = self.has_reached_training = False
        # What is reproduced is the first error, which the user sees without lintrain.
        self.construction_error = self.construction_location = self.reproducer = self.failed_by = None
        self.conflicts, self.tokenizers, self.launcher = {}, {}, ""
        self.state_loads.clear()
        for each in (self.objects, self.origins, *filter(None, [self.watch])):
            each.start_over()

    def restart(self, reason: str) -> NoReturn:
        """End this process because a shortcut turned out to be unsound; the parent starts a pass without it."""
        self._end(EndingKind.NEEDS_FULL_DATA, reason)
        self._exit()

    def _measure_the_rest(self) -> None:
        if self.following.is_between:
            return  # the run is closed
        if not gpu_answers():
            return
        if self.device != "cpu" and (found := measure_device()) is not None:
            self.measured(accelerator=found)
        self.measured(objects=self._objects(is_measured=True), stand_ins=tuple(self.stand_ins))

    def _objects(self, *, is_measured: bool = False) -> ObjectEvidence:
        return self.objects.evidence(self.note, is_measured=is_measured)

    def _report_objects(self) -> None:
        """Nothing was trained; the objects that the script created may be enough to judge, as a run of their own."""
        found = self._objects()
        if can_be_judged_alone(found):
            self._report_without_training(found)
            self.report_stage(Stage.passed(StageName.SCRIPT, self.elapsed()))

    def finish(self) -> NoReturn:
        """End the process after a measured run: no `finally:`, no `except:`, no exit hook of the script runs."""
        self._end_measured()
        # A spawned rank that is not measured: the collective operations of the measured one need it.
        if self.channel.is_muted:
            wait_for_the_others()
        self._exit()

    def stop(self, reason: str) -> NoReturn:
        """End the process because the model that the script trains cannot be constructed."""
        self._end(EndingKind.CRASHED, reason)
        self._exit()

    def on_own_error(self, error: BaseException) -> None:
        """End because lintrain itself failed; the parent reports it and keeps what was measured so far."""
        where = traceback.extract_tb(error.__traceback__)
        location = f" ({os.path.basename(where[-1].filename)}:{where[-1].lineno})" if where else ""
        self._end(EndingKind.PROBE_FAILED, f"{type(error).__name__}: {error}{location}")

    def _is_construction(self, error: BaseException) -> bool:
        if any(is_sign(error) for is_sign in self.signs_of_construction):
            return True
        seen = error
        while seen is not None and seen is not self.construction_error:
            seen = seen.__cause__ or seen.__context__  # type: ignore[assignment]
        return seen is not None

    def _report_without_training(self, objects: ObjectEvidence) -> None:
        fields: EvidenceFields = {**self.facts(), "objects": objects, "shortcuts": self.shortcuts}
        self.report_run(**fields)

    def _report_failure(self, failure: Failure, *, in_construction: bool, error: BaseException | None = None) -> None:
        if self._ended:
            return
        if self.timeline is not None:
            self.timeline.report(failure=f"{failure.type}: {failure.message}")
        is_between = self.following.is_between
        self._report_without_training(self._objects())
        if in_construction:
            self.report_stage(Stage.passed(StageName.SCRIPT, self.elapsed()))
            self.report_stage(Stage.failed(StageName.CONSTRUCTION, failure))
        else:
            self.report_stage(Stage.failed(StageName.SCRIPT, failure, self.elapsed()))
        if error is not None:
            self.run_again(error)
        self._end(EndingKind.MEASURED if is_between else EndingKind.CRASHED, f"{failure.type}: {failure.message}")

    def _end(self, kind: EndingKind, reason: str) -> None:
        with self._lock:
            if not self._ended:
                self._ended = True
                self.given_batch.conclude()
                if kind is EndingKind.MEASURED:
                    self._measure_the_rest()
                notes = [*self.notes, *self.keeper.summary(), *self.network.summary(self.keeper.others)]
                self.channel.send("end", kind=kind, reason=reason, notes=notes, files=own_files(), pid=os.getpid())

    _exit = staticmethod(end_process)
