"""Predictions are gathered together with the duplicated rows that fill the last batch.

With several processes, accelerate repeats rows until each process has a batch of the same size. `gather` also returns
the repeated rows, so a metric counts them twice; `gather_for_metrics` drops them.

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

The script drops the extra rows itself:

    accelerator = Accelerator()
    net, eval_loader = accelerator.prepare(net, eval_loader)
    net.eval()
    rows = []
    for x, y in eval_loader:
        with torch.no_grad():
            predictions = net(x).argmax(dim=-1)
        rows.append(accelerator.gather(predictions))
    rows = torch.cat(rows)[: len(features)]

In a loss that is only logged, a few repeated rows make no difference:

    accelerator = Accelerator()
    net, eval_loader = accelerator.prepare(net, eval_loader)
    net.eval()
    losses = []
    for x, y in eval_loader:
        with torch.no_grad():
            loss = criterion(net(x), y)
        losses.append(accelerator.gather(loss).mean().item())

## Fix

Safe: the result on one process is the same, and on several processes no row counts twice.

## References

Accelerate documentation, `Accelerator.gather_for_metrics`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import evaluations, training_loops
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Launcher
from lintrain.pipeline.values.python import Unknown, literal
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

JUDGED = lazy_pattern(
    r"pred|label|logit|referenc|target|answer|generated|argmax|topk|==|correct|(?:model|net)\(", re.IGNORECASE
)
"""Names and code of the values that a metric is computed from."""

OF_LOSS = lazy_pattern(r"loss|criterion")
"""Names of losses: one number per process, in which repeated rows do not matter."""

CUT_OFF = lazy_pattern(
    r"(?i)\[\s*:\s*(?:-|\(|len\(|[\w.\[\]]*(?:num|total|size|samples|rows|count|(?:^|_)n_|length|\bn\b))"
    r"|samples_seen|even_batches|remainder"
)
"""Signs of code that drops the extra rows itself, or has none."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The call that drops the repeated rows."""

    call: str


class DuplicatedEvalRows(Rule[Claim]):
    level = Level.WARNING
    keywords = "gather"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not training_loops.trains_by_hand(pipeline) or pipeline.source.contains(CUT_OFF):
            return
        found: dict[Location, Finding[Claim]] = {}
        for gathered in pipeline.acts(Act.GATHER):
            loop = evaluations.evaluation_loop(pipeline, gathered)
            what = training_loops.text_of_event(gathered)
            if loop is None or not JUDGED.search(what) or OF_LOSS.search(what):
                continue
            if _is_prepared(pipeline, gathered, loop):
                found.setdefault(gathered.location, self._report(pipeline, gathered, loop.location))
        yield from found.values()

    def _report(self, pipeline: Pipeline, gathered: Event, loop: Location) -> Finding[Claim]:
        call = pipeline.code(gathered.location)
        return self.finding(
            gathered.location,
            "`gather` also returns the repeated rows that fill the last batch",
            related=[Related(loop, "the prepared loader repeats rows to fill its last batch", "loop")],
            help="call `gather_for_metrics`, which drops them",
            claim=Claim(call.replace(".gather(", ".gather_for_metrics(", 1)),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for gathered in evidence.ranks.gathers if evidence.ranks is not None else ():
            yield self.finding(
                gathered.location,
                "the rows that fill the last batch are counted twice",
                help="gather with `gather_for_metrics`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        seen = ranks.gather_at(finding.location)
        if seen is None:
            return Verdict.inconclusive(f"no evaluation on {ranks.processes} processes reached its last batch here")
        surplus = seen.fetched - seen.rows
        text = f"`{seen.function}` returned {seen.gathered} rows for {seen.rows} rows on {ranks.processes} processes"
        if not surplus:
            return Verdict.inconclusive(
                f"{text}: all batches are full, which may differ with another number of processes"
            )
        if seen.gathered == seen.fetched:
            return Verdict.confirmed(f"{text}: {surplus} of them count twice", surplus=surplus)
        if seen.gathered == seen.rows:
            return Verdict.refuted(f"{text}: the {surplus} that fill the last batch are dropped", surplus=0)
        return Verdict.inconclusive(f"{text}, and {surplus} more fill the last batch: the values are not one per row")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        return fixes.Fix.of("drop the repeated rows", fixes.Replace(finding.location, finding.claim.call), safe=True)


def _is_prepared(pipeline: Pipeline, gathered: Event, loop: Loop) -> bool:
    """Whether the loop iterates over something that an Accelerator prepared, and that fills its last batch."""
    launcher = gathered.details.get("launcher")
    if not isinstance(launcher, Launcher) or not launcher.is_accelerator:
        return False
    if isinstance(loop.over, Loader):
        return literal(loop.over.value("drop_last")) is not True and any(
            each is loop.over for each in launcher.prepared
        )
    names = {binding.name for value in launcher.prepared for binding in pipeline.names_of(value)}
    names |= {value.name for value in launcher.prepared if isinstance(value, Unknown)}
    return bool(names & set(re.findall(r"\w+", loop.header)))
