"""What a probe measured at one training run: plain, typed, serializable; without torch objects."""

from __future__ import annotations

from dataclasses import field

from lintrain.evidence.data import ColumnEvidence as ColumnEvidence
from lintrain.evidence.data import CopiedRows as CopiedRows
from lintrain.evidence.data import DroppedResult as DroppedResult
from lintrain.evidence.data import EdgeEvidence as EdgeEvidence
from lintrain.evidence.data import EncodedChat as EncodedChat
from lintrain.evidence.data import LabelConflicts as LabelConflicts
from lintrain.evidence.data import LabelEvidence as LabelEvidence
from lintrain.evidence.data import LearnedRows as LearnedRows
from lintrain.evidence.data import LeftWeights as LeftWeights
from lintrain.evidence.data import MadeLoader as MadeLoader
from lintrain.evidence.data import MovedModel as MovedModel
from lintrain.evidence.data import ObjectEvidence as ObjectEvidence
from lintrain.evidence.data import ScoredTokens as ScoredTokens
from lintrain.evidence.data import SharedRows as SharedRows
from lintrain.evidence.data import SplitEvidence as SplitEvidence
from lintrain.evidence.data import SplitRows as SplitRows
from lintrain.evidence.data import StateLoad as StateLoad
from lintrain.evidence.data import StepStop as StepStop
from lintrain.evidence.data import TokenizerEvidence as TokenizerEvidence
from lintrain.evidence.kept_rows import CollatedRows as CollatedRows
from lintrain.evidence.kept_rows import EncodedTexts as EncodedTexts
from lintrain.evidence.kept_rows import SegmentEvidence as SegmentEvidence
from lintrain.evidence.loop import LoaderUse as LoaderUse
from lintrain.evidence.loop import LoopEvidence as LoopEvidence
from lintrain.evidence.loop import LossEvidence as LossEvidence
from lintrain.evidence.loop import LossTerm as LossTerm
from lintrain.evidence.loop import OddCall as OddCall
from lintrain.evidence.loop import OddCallKind as OddCallKind
from lintrain.evidence.loop import OptimizerUse as OptimizerUse
from lintrain.evidence.loop import ReachedWeights as ReachedWeights
from lintrain.evidence.loop import ScheduleEvidence as ScheduleEvidence
from lintrain.evidence.loop import ScheduleUse as ScheduleUse
from lintrain.evidence.loop import TargetAlignment as TargetAlignment
from lintrain.evidence.memory import DeviceEvidence as DeviceEvidence
from lintrain.evidence.memory import MemoryEvidence as MemoryEvidence
from lintrain.evidence.memory import ResidentModel as ResidentModel
from lintrain.evidence.memory import ThroughputEvidence as ThroughputEvidence
from lintrain.evidence.repeats import CheckpointEvidence as CheckpointEvidence
from lintrain.evidence.repeats import DeterminismEvidence as DeterminismEvidence
from lintrain.evidence.repeats import RankGather as RankGather
from lintrain.evidence.repeats import RankPrint as RankPrint
from lintrain.evidence.repeats import RankSchedule as RankSchedule
from lintrain.evidence.repeats import RanksEvidence as RanksEvidence
from lintrain.evidence.repeats import RankWait as RankWait
from lintrain.evidence.repeats import RankWrite as RankWrite
from lintrain.evidence.repeats import Trial as Trial
from lintrain.evidence.repeats import TrialsEvidence as TrialsEvidence
from lintrain.evidence.responses import CacheEvidence as CacheEvidence
from lintrain.evidence.responses import EvaluationEvidence as EvaluationEvidence
from lintrain.evidence.responses import FutureEvidence as FutureEvidence
from lintrain.evidence.responses import MaskEvidence as MaskEvidence
from lintrain.evidence.responses import MetricUse as MetricUse
from lintrain.evidence.responses import ResponseEvidence as ResponseEvidence
from lintrain.evidence.responses import RewardEvidence as RewardEvidence
from lintrain.evidence.responses import SpreadEvidence as SpreadEvidence
from lintrain.evidence.responses import TokenEvidence as TokenEvidence
from lintrain.evidence.stages import Failure as Failure
from lintrain.evidence.stages import Repair as Repair
from lintrain.evidence.stages import Stage as Stage
from lintrain.evidence.stages import StageName as StageName
from lintrain.evidence.stages import StageStatus as StageStatus
from lintrain.evidence.stages import StageText as StageText
from lintrain.evidence.stages import StandIn as StandIn
from lintrain.evidence.stages import StandInKind as StandInKind
from lintrain.evidence.sweep import RepeatedRows as RepeatedRows
from lintrain.evidence.sweep import RowFault as RowFault
from lintrain.evidence.sweep import Sweep as Sweep
from lintrain.evidence.sweep import TargetCopy as TargetCopy
from lintrain.evidence.sweep import WrongRows as WrongRows
from lintrain.evidence.tables import BatchRow as BatchRow
from lintrain.evidence.tables import BatchTable as BatchTable
from lintrain.evidence.tables import PredictedClass as PredictedClass
from lintrain.evidence.tables import RowAnswer as RowAnswer
from lintrain.evidence.tables import RowText as RowText
from lintrain.evidence.tables import RowValues as RowValues
from lintrain.evidence.tables import Span as Span
from lintrain.evidence.training import CLASSIFICATION_TASKS as CLASSIFICATION_TASKS
from lintrain.evidence.training import AccumulationEvidence as AccumulationEvidence
from lintrain.evidence.training import BackwardEvidence as BackwardEvidence
from lintrain.evidence.training import BatchAnswers as BatchAnswers
from lintrain.evidence.training import BatchEvidence as BatchEvidence
from lintrain.evidence.training import ForwardEvidence as ForwardEvidence
from lintrain.evidence.training import KerasEvidence as KerasEvidence
from lintrain.evidence.training import LayerGradient as LayerGradient
from lintrain.evidence.training import LayerUpdate as LayerUpdate
from lintrain.evidence.training import ModelEvidence as ModelEvidence
from lintrain.evidence.training import NonFiniteGradient as NonFiniteGradient
from lintrain.evidence.training import NonFiniteOrigin as NonFiniteOrigin
from lintrain.evidence.training import NonFiniteRows as NonFiniteRows
from lintrain.evidence.training import OptimizerGroup as OptimizerGroup
from lintrain.evidence.training import OverfitEvidence as OverfitEvidence
from lintrain.evidence.training import StepEvidence as StepEvidence
from lintrain.evidence.training import TensorEvidence as TensorEvidence
from lintrain.evidence.training import WatchedNames as WatchedNames
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything measured in one run of a script; None if a stage was not reached.

    `overrides` names the trainer's methods that the user's subclass replaces, and the functions given instead of them
    (`compute_loss`, `compute_loss_func`, `get_train_dataloader`). `shortcuts` lists what was changed to be quick.
    `ended_in` is the statement of the script's top level in which a run was ended; None if the script itself ended.
    `locations` are where the script makes the `model`, the `tokenizer`, the `collator`, the `arguments`, the `adapter`
    and the callbacks that may stop it (`stopping`) or keep its best weights (`keeping`); where it takes some rows as
    `train_dataset` or `eval_dataset`, encodes its texts (`encoding`), sets the padding token (`padding`), gives its
    model a larger embedding (`resizing`), first adds tokens to its tokenizer (`tokens`), freezes with
    a name that does nothing (`freeze`), or all that it trains (`frozen`), and evaluates by a call of its own
    (`evaluation`); the last line of a `forward` that returns nothing; where weights get another format (`cast`), and
    the function that computes the loss for a trainer (`compute_loss`) with its last `return` (`returned_loss`).
    `origin` is where the first NaN or infinity of a loss comes from.
    `accumulation` is measured only where the run accumulates gradients; `responses` come from calling the model again.
    `call_number` counts the training calls that the script came to, from 1 on.
    `odd_calls` are calls that show a mistake by themselves.
    `stand_ins` are what `--stand-ins` put in place of what the machine lacks.
    `repairs` are fixes with which the script ran: the probe went on after an earlier run had failed without them.
    """

    script: str
    framework: str
    trainer: str
    call: Location | None
    construction: Location | None
    device: str
    versions: dict[str, str]
    stages: tuple[Stage, ...] = ()
    splits: tuple[SplitEvidence, ...] = ()
    shared_rows: SharedRows | None = None
    conflicts: LabelConflicts | None = None
    model: ModelEvidence | None = None
    tokenizer: TokenizerEvidence | None = None
    encodings: tuple[EncodedTexts, ...] = ()
    batches: tuple[BatchEvidence, ...] = ()
    tables: tuple[BatchTable, ...] = ()
    forward: ForwardEvidence | None = None
    origin: NonFiniteOrigin | None = None
    responses: ResponseEvidence | None = None
    backward: BackwardEvidence | None = None
    step: StepEvidence | None = None
    evaluation: EvaluationEvidence | None = None
    rewards: RewardEvidence | None = None
    overfit: OverfitEvidence | None = None
    memory: MemoryEvidence | None = None
    accelerator: DeviceEvidence | None = None
    throughput: ThroughputEvidence | None = None
    accumulation: AccumulationEvidence | None = None
    loop: LoopEvidence | None = None
    odd_calls: tuple[OddCall, ...] = ()
    keras: KerasEvidence | None = None
    watched_names: WatchedNames | None = None
    schedule: ScheduleEvidence | None = None
    checkpoint: CheckpointEvidence | None = None
    determinism: DeterminismEvidence | None = None
    ranks: RanksEvidence | None = None
    trials: TrialsEvidence | None = None
    state_loads: tuple[StateLoad, ...] = ()
    objects: ObjectEvidence = field(default_factory=ObjectEvidence)
    arguments: dict[str, str | int | float | bool | None] = field(
        default_factory=dict[str, str | int | float | bool | None]
    )
    locations: dict[str, Location] = field(default_factory=dict[str, Location])
    overrides: tuple[str, ...] = ()
    ended_in: Location | None = None
    shortcuts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
    call_number: int = 1

    def wrong_rows(self, *faults: RowFault) -> list[tuple[SplitEvidence, WrongRows]]:
        """The rows of the splits that have one of some faults, each with its split."""
        swept = [(split, split.sweep) for split in self.splits if split.sweep is not None]
        return [(split, rows) for split, sweep in swept for rows in sweep.with_fault(*faults)]

    @property
    def location(self) -> Location:
        """The location of findings about the run as a whole: its trainer's construction, else the training call."""
        return self.construction or self.call or Location(self.script, 1, 1, 1, 1)

    @property
    def optimizer_location(self) -> Location:
        """Where the script makes the only optimizer that steps, else the location of the run as a whole."""
        uses = self.loop.optimizers if self.loop is not None else ()
        made = [use.made_at for use in uses if use.made_at is not None and use.steps]
        return made[0] if len(made) == 1 else self.location

    @property
    def data_location(self) -> Location:
        """Where the script makes the loader that it trains on, else the location of the run as a whole."""
        loader = self.loop.loader if self.loop is not None else None
        return loader.made_at if loader is not None and loader.made_at is not None else self.location

    def location_of(self, *things: str) -> Location:
        """The location of the first of some things that is known, else the location of the run as a whole."""
        return next((self.locations[thing] for thing in things if thing in self.locations), self.location)

    def location_of_failure(self, *things: str) -> Location:
        """Where the script's own code fails; where it only calls the training, the location of one of some things."""
        found = self.failure.location if self.failure is not None else None
        is_call = found is None or (self.call is not None and self.call.meets(found))
        return self.location_of(*things) if found is None or is_call else found

    @property
    def called_losses(self) -> tuple[LossEvidence, ...]:
        """The calls of loss functions in the first batch: those of a loop, or of a Trainer's step."""
        if self.loop is not None:
            return self.loop.losses
        return self.forward.calls if self.forward is not None else ()

    @property
    def sees_losses(self) -> bool:
        """Whether such calls were watched: of a Trainer only where the script computes the loss itself."""
        return self.loop is not None or bool(self.called_losses)

    def losses_of(self, *functions: str) -> tuple[LossEvidence, ...]:
        """The calls of some loss functions in the first batch."""
        return tuple(loss for loss in self.called_losses if loss.function in functions)

    def first(self, count: str) -> Location | None:
        """Where the script's own loop first did what a field of `LoopEvidence` counts, or None if it never did."""
        return self.loop.seen_at.get(count) if self.loop is not None else None

    def split(self, argument: str) -> SplitEvidence | None:
        """The split that was given by an argument of the trainer, or None if it was not reached."""
        return next((split for split in self.splits if split.argument == argument), None)

    def batch(self, argument: str = "train_dataset") -> BatchEvidence | None:
        """The batch collated from the split of an argument, or None if there is none."""
        return next((batch for batch in self.batches if batch.argument == argument), None)

    def table(self, argument: str = "train_dataset") -> BatchTable | None:
        """Rows of the batch collated from the split of an argument, or None if there are none."""
        return next((table for table in self.tables if table.argument == argument), None)

    def stage(self, name: StageName | StageText) -> Stage | None:
        """One stage by its name, or None if the probe has no such stage."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def passed(self, name: StageName | StageText) -> bool:
        """Whether a stage was reached and passed."""
        stage = self.stage(name)
        return stage is not None and stage.status is StageStatus.PASSED

    def ran(self, location: Location) -> bool:
        """Whether top-level code at a location, outside of any branch, certainly ran: the script passed it."""
        reached = self.call or (self.failure.reached if self.failure else None)
        is_above = reached is not None and reached.path == location.path and location.end_line < reached.line
        # A function that was called from there and failed ran none of its later lines.
        return is_above and (self.call is not None or not self._failed_above(location))

    def _failed_above(self, location: Location) -> bool:
        """Whether a function of the same file failed on a line above a location."""
        frames = (each.partition(" in ") for each in (self.failure.frames if self.failure else ()))
        at = (where.rpartition(":") for where, _, name in frames if not name.startswith("<module>"))
        return any(path == location.path and line.isdigit() and int(line) < location.line for path, _, line in at)

    def is_repaired(self, rule: str, location: Location) -> bool:
        """Whether the run had a finding's fix, so that it shows nothing about the finding."""
        return any(repair.rule == rule and repair.location == location for repair in self.repairs)

    def never_came_to(self, location: Location) -> bool:
        """Whether the run was ended above a location: nothing there was executed or defined."""
        last = self.ended_in
        return last is not None and last.path == location.path and location.line > last.end_line

    def skipped(self, location: Location) -> bool:
        """Whether a loop that was followed never came to any line of a location: a branch that was not taken."""
        of_loop = self.loop.skipped if self.loop else ()
        return any(
            each.path == location.path and each.line <= location.line and location.end_line <= each.end_line
            for each in of_loop
        )

    def failed_with(self, *texts: str) -> Stage | None:
        """The first failed stage whose error (`Type: message`) holds one of the texts, or None."""
        return next((stage for stage in self.stages if stage.failure and stage.failure.contains(*texts)), None)

    def failed_at(self, location: Location, *texts: str) -> Stage | None:
        """The same, if the error is on a line of a location."""
        failed = (stage for stage in self.stages if stage.failure and stage.failure.contains(*texts))
        return next((stage for stage in failed if stage.failure and _stands_at(stage.failure.location, location)), None)

    def failed_place(self, *texts: str) -> Location | None:
        """Where the script's own code was when a stage failed with one of the texts, or None."""
        stage = self.failed_with(*texts)
        return stage.failure.location if stage is not None and stage.failure is not None else None

    def not_reached(self, name: StageName | StageText) -> str:
        """Why a stage has no result, as text after `inconclusive:`."""
        stage = self.stage(name)
        if stage is not None and stage.status is StageStatus.PASSED:
            return f"the {name} stage passed and does not show it"
        if stage is not None and stage.failure is not None:
            return f"the {name} stage failed: {stage.failure.type}"
        if stage is not None and stage.reason:
            return f"the {name} stage was not reached: {stage.reason}"
        return f"the {name} stage was not reached"

    def unasked(self, extra: StageName | StageText) -> str:
        """Why there is no result of a measurement that is only made on request, as text after `inconclusive:`."""
        if self.stage(extra) is None:
            return f"`lintrain probe --also {extra}` measures it"
        return self.not_reached(extra)

    @property
    def without_loop(self) -> str:
        """Why there are no counts of a loop of the script's own, as text after `inconclusive:`."""
        return f"`{self.trainer}` runs the loop" if self.trainer else self.not_reached("forward")

    @property
    def given_splits(self) -> dict[str, tuple[SplitEvidence, ...]]:
        """The splits by trainer argument; several if a dictionary of data sets was given."""
        given: dict[str, tuple[SplitEvidence, ...]] = {}
        for split in self.splits:
            given[split.argument] = (*given.get(split.argument, ()), split)
        return given

    @property
    def peak_learning_rate(self) -> float | None:
        """The largest learning rate of any parameter group (warm-up skipped), or None before the step stage."""
        if self.step is None:
            return None
        return max((group.learning_rate for group in self.step.groups), default=None)

    @property
    def failed_stage(self) -> Stage | None:
        """The first stage that failed, or None."""
        return next((stage for stage in self.stages if stage.status is StageStatus.FAILED), None)

    @property
    def failure(self) -> Failure | None:
        """The error of the first failed stage, or None."""
        return self.failed_stage.failure if self.failed_stage else None


def _stands_at(failure: Location | None, location: Location) -> bool:
    return failure is not None and failure.meets(location)
