"""Predictions of all processes are gathered with the rows that only fill up the last batch.

With several processes accelerate repeats rows until each process has a batch of the same size. `gather` returns the
repeated rows as well, so that a metric counts them twice; `gather_for_metrics` leaves them out.

## Bad

    accelerator = Accelerator()
    net, eval_loader = accelerator.prepare(net, eval_loader)
    net.eval()
    correct = 0
    for x, y in eval_loader:
        with torch.no_grad():
            predictions = net(x).argmax(dim=-1)
        predictions, labels = accelerator.gather((predictions, y))  # <- duplicated-eval-rows
        correct += (predictions == labels).sum().item()

## Good

    accelerator = Accelerator()
    net, eval_loader = accelerator.prepare(net, eval_loader)
    net.eval()
    correct = 0
    for x, y in eval_loader:
        with torch.no_grad():
            predictions = net(x).argmax(dim=-1)
        predictions, labels = accelerator.gather_for_metrics((predictions, y))
        correct += (predictions == labels).sum().item()

## When it is fine

The surplus may be cut off by hand:

    accelerator = Accelerator()
    net, eval_loader = accelerator.prepare(net, eval_loader)
    net.eval()
    rows = []
    for x, y in eval_loader:
        with torch.no_grad():
            predictions = net(x).argmax(dim=-1)
        rows.append(accelerator.gather(predictions))
    rows = torch.cat(rows)[: len(features)]

Of a loss that is only shown a few rows more or less make no difference:

    accelerator = Accelerator()
    net, eval_loader = accelerator.prepare(net, eval_loader)
    net.eval()
    losses = []
    for x, y in eval_loader:
        with torch.no_grad():
            loss = criterion(net(x), y)
        losses.append(accelerator.gather(loss).mean().item())

## Fix

Safe: on one process it gives the same, and on several the rows that fill up the last batch are counted no more.

## References

Accelerate documentation, `Accelerator.gather_for_metrics`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Launcher
from lintrain.pipeline.values.python import Unknown
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

JUDGED = lazy_pattern(r"pred|label|logit|referenc|target|answer|generated", re.IGNORECASE)
"""What a metric is computed of."""

OF_LOSS = lazy_pattern(r"loss|criterion")
"""What is one number for each process: the rows in it are no matter."""

CUT_OFF = lazy_pattern(r"\[\s*:\s*[-\w(]|samples_seen|drop_last\s*=\s*True|even_batches|remainder")
"""Signs of code that leaves surplus rows out itself, or has none."""


class DuplicatedEvalRows(Rule):
    level = Level.WARNING
    keywords = "gather"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline) or CUT_OFF.search(pipeline.source.text):
            return
        found: dict[Location, Finding] = {}
        for gathered in pipeline.acts(Act.GATHER):
            loop = training_loops.evaluation_loop(pipeline, gathered)
            what = training_loops.text_of_event(gathered)
            if loop is None or not JUDGED.search(what) or OF_LOSS.search(what):
                continue
            if _is_prepared(pipeline, gathered, loop.header):
                found.setdefault(gathered.location, self._report(pipeline, gathered, loop.location))
        yield from found.values()

    def _report(self, pipeline: Pipeline, gathered: Event, loop: Location) -> Finding:
        call = pipeline.code(gathered.location)
        return self.finding(
            gathered.location,
            "`gather` also returns rows that only fill up the last batch",
            related=[Related(loop, "a prepared loader repeats rows at its end", "loop")],
            help="call `gather_for_metrics`, which leaves them out",
            facts={"call": call.replace(".gather(", ".gather_for_metrics(", 1)},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        seen = ranks.gather_at(finding.location)
        if seen is None:
            return Verdict.inconclusive(f"no evaluation by {ranks.processes} processes was seen to its last batch here")
        surplus = seen.fetched - seen.rows
        text = f"`{seen.function}` gives {seen.gathered} rows where {ranks.processes} processes have {seen.rows}"
        if not surplus:
            return Verdict.inconclusive(f"{text}: these fill all batches, for another number of processes they may not")
        if seen.gathered == seen.fetched:
            return Verdict.confirmed(f"{text}: {surplus} of them count twice", surplus=surplus)
        if seen.gathered == seen.rows:
            return Verdict.refuted(f"{text}: the {surplus} that fill up the last batch are left out", surplus=0)
        return Verdict.inconclusive(f"{text}, and {surplus} more fill up the last batch: these are no single rows")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        call = fixes.Replace(finding.location, str(finding.facts["call"]))
        return fixes.Fix.of("leave the repeated rows out", call, safe=True)


def _is_prepared(pipeline: Pipeline, gathered: Event, header: str) -> bool:
    """Whether the loop goes over something that an Accelerator prepared."""
    launcher = gathered.details.get("launcher")
    if not isinstance(launcher, Launcher) or not launcher.is_accelerator:
        return False
    names = {binding.name for value in launcher.prepared for binding in pipeline.names_of(value)}
    names |= {value.name for value in launcher.prepared if isinstance(value, Unknown)}
    return bool(names & set(re.findall(r"\w+", header)))
