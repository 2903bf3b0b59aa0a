"""A schedule continues at a later epoch, but the optimizer does not know its initial learning rate.

A schedule of torch that is created with `last_epoch` takes the initial rates from the groups of its optimizer. A new
optimizer has none: the script starts with `last_epoch=-1`, and fails when it resumes.

## Bad

    start = int(os.environ.get("START", "4"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, last_epoch=start - 1)  # <- missing-initial-lr
    # raises KeyError: "param 'initial_lr' is not specified

## Good

    start = int(os.environ.get("START", "4"))
    optimizer = torch.optim.SGD([{"params": net.parameters(), "initial_lr": 0.1}], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, last_epoch=start - 1)

## When it is fine

The state of the optimizer contains the initial rates:

    state = torch.load("checkpoint.pt") if os.path.exists("checkpoint.pt") else {"epoch": -1}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if "optimizer" in state:
        optimizer.load_state_dict(state["optimizer"])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, last_epoch=state["epoch"])

The schedule starts from the beginning:

    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, last_epoch=-1)

## Fix

None: the optimizer's state may be loaded first, or the rate set in each group.

## References

PyTorch documentation, `torch.optim.lr_scheduler.LRScheduler`; the fix in `akamaster/pytorch_resnet_cifar10`, commit
4c19b3bb4271.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import script_text, training_loops
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import Constant
from lintrain.rule import Finding, Level, Pipeline, Rule

SETS_RATES = r"""["']initial_lr["']\s*[:\],]|initial_lr="""

LOADS = re.compile(r"opt\w*(\[.*\])?\.load_state_dict\(|(load|resume|restore)\w*\(.*\bopt")
"""Code that gives an optimizer the state of a checkpoint, itself or in a function."""

RESUMES = re.compile(r".*[-+]\s*\d+|\d+", re.DOTALL)
"""Code of a `last_epoch` that counts from an epoch: `args.start_epoch - 1`."""


class MissingInitialLr(Rule):
    level = Level.ERROR
    keywords = "last_epoch"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if script_text.mentions(pipeline, SETS_RATES):
            return
        for scheduler in pipeline.schedulers:
            given, optimizer = scheduler.given.get("last_epoch"), scheduler.optimizer
            if given is None or not isinstance(optimizer, Optimizer) or not _resumes(given):
                continue
            if optimizer.path.startswith("torch.") and not _has_rates(pipeline, scheduler, optimizer):
                yield self._report(scheduler, optimizer, given)

    def _report(self, scheduler: Scheduler, optimizer: Optimizer, given: Argument) -> Finding:
        return self.finding(
            given.location,
            f"`{scheduler.name}` resumes, but no group of the optimizer has an `initial_lr`",
            related=training_loops.origin_of(optimizer, "a new optimizer without initial rates"),
            help="load the optimizer's state before, or set `initial_lr` in its groups",
            level=Level.ERROR if isinstance(given.value, Constant) else Level.WARNING,
        )


def _resumes(given: Argument) -> bool:
    """Whether a schedule continues at another epoch than the first, or may do so when the script resumes."""
    if isinstance(given.value, Constant) and not given.value.default:
        return isinstance(given.value.value, int) and given.value.value >= 0
    return RESUMES.fullmatch(given.text) is not None


def _has_rates(pipeline: Pipeline, scheduler: Scheduler, optimizer: Optimizer) -> bool:
    """Whether an earlier schedule or a loaded state has set the initial rates of an optimizer."""
    others = [each for each in pipeline.schedulers if each.optimizer is optimizer and each is not scheduler]
    if scheduler.origin is None or any(each.origin and each.origin < scheduler.origin for each in others):
        return True
    lines = pipeline.source_of(scheduler.origin).lines[: scheduler.origin.line]
    return any(LOADS.search(line) for line in lines)
