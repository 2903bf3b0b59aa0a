"""The fields of `Evidence` by name: what a probed process sends as it measures, any of them at a time.

`Evidence` is whole and frozen, a message holds the few fields that one measurement fills. A misspelt field is a type
error where it is sent; the parent process reports one that it does not know (`runtime.parent.stream`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from lintrain.evidence.run import (
        AccumulationEvidence,
        BackwardEvidence,
        BatchEvidence,
        BatchTable,
        CheckpointEvidence,
        DeterminismEvidence,
        DeviceEvidence,
        EncodedTexts,
        EvaluationEvidence,
        ForwardEvidence,
        KerasEvidence,
        LabelConflicts,
        LoopEvidence,
        MemoryEvidence,
        ModelEvidence,
        NonFiniteOrigin,
        ObjectEvidence,
        OddCall,
        OverfitEvidence,
        RanksEvidence,
        ResponseEvidence,
        RewardEvidence,
        ScheduleEvidence,
        SharedRows,
        SplitEvidence,
        StandIn,
        StateLoad,
        StepEvidence,
        ThroughputEvidence,
        TokenizerEvidence,
        TrialsEvidence,
        WatchedNames,
    )
    from lintrain.model.location import Location


class EvidenceFields(TypedDict, total=False):
    """Every field of `Evidence` but `stages`, which are events of their own, and `repairs`, which the parent makes.

    Sequences where `Evidence` has tuples.
    """

    script: str
    framework: str
    trainer: str
    call: Location | None
    construction: Location | None
    device: str
    versions: Mapping[str, str]
    splits: Sequence[SplitEvidence]
    shared_rows: SharedRows | None
    conflicts: LabelConflicts | None
    model: ModelEvidence | None
    tokenizer: TokenizerEvidence | None
    encodings: Sequence[EncodedTexts]
    batches: Sequence[BatchEvidence]
    tables: Sequence[BatchTable]
    forward: ForwardEvidence
    origin: NonFiniteOrigin
    responses: ResponseEvidence
    backward: BackwardEvidence
    step: StepEvidence
    evaluation: EvaluationEvidence | None
    rewards: RewardEvidence | None
    overfit: OverfitEvidence
    memory: MemoryEvidence
    accelerator: DeviceEvidence
    throughput: ThroughputEvidence | None
    accumulation: AccumulationEvidence
    loop: LoopEvidence
    keras: KerasEvidence
    watched_names: WatchedNames
    odd_calls: tuple[OddCall, ...]
    schedule: ScheduleEvidence | None
    checkpoint: CheckpointEvidence
    determinism: DeterminismEvidence
    ranks: RanksEvidence
    trials: TrialsEvidence
    state_loads: Sequence[StateLoad]
    objects: ObjectEvidence
    arguments: Mapping[str, str | int | float | bool | None]
    locations: Mapping[str, Location]
    overrides: Sequence[str]
    ended_in: Location | None
    shortcuts: Sequence[str]
    notes: Sequence[str]
    stand_ins: Sequence[StandIn]
    call_number: int
