"""The batch stage: the trainer's own loader and collator."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import islice

from lintrain.evidence.run import StageName
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.batch import describe
from lintrain.runtime.measure.subset import number_of_rows, subset

MOST_LENGTHS = 4_096


def collate_batches(run: TrainerRun) -> None:
    """Take the first batches of the training loader and describe the first; all of them count for the tokens."""
    with ExitStack() as stack:
        if _reads_every_length(run):
            rows = subset(run.trainer.train_dataset, MOST_LENGTHS)
            stack.enter_context(replaced(run.trainer, train_dataset=rows))
            run.session.shorten(f"batches grouped by length were made from {MOST_LENGTHS} rows")
        loader = run.trainer.get_train_dataloader()
        for batch in islice(iter(loader), run.session.batches):
            run.batches.append(batch)
            run.progress(StageName.BATCH, len(run.batches), run.session.batches)
    if not run.batches:
        raise ValueError("the training loader yields no batch")
    run.batch_evidence.append(describe(run, "train_dataset", run.batches))
    run.measured(batches=run.batch_evidence)


def _reads_every_length(run: TrainerRun) -> bool:
    """Whether the sampler would read the whole dataset to group its rows by length."""
    arguments = run.trainer.args
    groups = getattr(arguments, "group_by_length", False)
    strategy = str(getattr(arguments, "train_sampling_strategy", "random"))
    rows = number_of_rows(run.trainer.train_dataset) or 0
    return rows > MOST_LENGTHS and (groups or "length" in strategy or "rebalance" in strategy)
