"""A metric of the whole evaluation is computed from its last batch.

What a loop binds is bound again by each batch. After the loop the names hold the last batch, so the metric says nothing
about the rows before, and hits that were not added up are divided by the rows of all batches.

## Bad

    with torch.no_grad():
        for x, y in eval_loader:
            predicted = net(x).argmax(dim=1)
    accuracy = accuracy_score(y, predicted)  # <- last-batch-metric

The same with a comparison:

    with torch.no_grad():
        for x, y in eval_loader:
            predicted = net(x).argmax(dim=1)
    accuracy = (predicted == y).float().mean()  # <- last-batch-metric

Hits that are not added up:

    with torch.no_grad():
        for x, y in eval_loader:
            hits = (net(x).argmax(dim=1) == y).sum().item()
    accuracy = hits / len(eval_loader.dataset)  # <- last-batch-metric

## Good

    labels, predictions = [], []
    with torch.no_grad():
        for x, y in eval_loader:
            predictions.extend(net(x).argmax(dim=1).tolist())
            labels.extend(y.tolist())
    accuracy = accuracy_score(labels, predictions)

and

    hits = 0
    with torch.no_grad():
        for x, y in eval_loader:
            hits += (net(x).argmax(dim=1) == y).sum().item()
    accuracy = hits / len(eval_loader.dataset)

## When it is fine

A metric inside the loop, and a loop that ends after one batch:

    for x, y in eval_loader:
        predicted = net(x).argmax(dim=1)
        print(accuracy_score(y, predicted))

    for x, y in eval_loader:
        predicted = net(x).argmax(dim=1)
        break
    accuracy = accuracy_score(y, predicted)

## Fix

None: the metric may belong into the loop, or needs the rows of all batches.

## References

scikit-learn documentation, `sklearn.metrics.accuracy_score`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from lintrain.analysis import hits, last_batch, overwritten_sums, restarted_sums
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class LastBatchMetric(Rule):
    level = Level.WARNING
    keywords = "_score|_report|_matrix|_error|sum(|mean(|loss|crit & for"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return hits.may_evaluate(source)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        metrics = (self._report_metric(found) for found in last_batch.metrics_of_last_batch(pipeline))
        counts = map(self._report, hits.of_last_batch(pipeline))
        overwritten = chain(
            hits.overwritten(pipeline),
            overwritten_sums.divided_after_loops(pipeline.source),
            restarted_sums.restarted_sums(pipeline),
        )
        others = map(self._report_overwritten, overwritten)
        lines: dict[int, Finding] = {}
        logged = map(self._report_logged, last_batch.logged_of_last_batch(pipeline.source))
        for found in one_per_location(chain(metrics, counts, others, logged)):
            lines.setdefault(found.location.line, found)
        yield from lines.values()

    def _report_logged(self, found: last_batch.LoggedAttribute) -> Finding:
        return self.finding(
            found.location,
            f"`{found.code}` is that of the last batch only",
            related=[Related(found.set_at, "set again by each batch", "count")],
            help="log it in the step with `on_epoch=True`, which averages over all batches",
        )

    def _report_overwritten(self, found: hits.Overwritten) -> Finding:
        name = f"`{found.name}`" if len(found.name) <= 40 else "this"
        if found.is_left:
            return self.finding(
                found.location,
                f"returns {name} after the first batch",
                related=[Related(found.set_at, "adds up what is never more than one batch", "count")],
                help="return after the loop",
            )
        return self.finding(
            found.location,
            f"{name} is that of the last batch only",
            related=[Related(found.set_at, "set again by each batch", "count")],
            help="set it to 0 before the loop" if found.is_count else "add up what all batches give, or collect it",
        )

    def _report(self, found: hits.Hits) -> Finding:
        return self.finding(
            found.location,
            f"`{found.total}` holds the hits of the last batch only"
            if len(found.total) <= 40
            else "this count holds the hits of the last batch only",
            related=[Related(found.counted, "set again by each batch", "count")],
            help="add the hits of all batches up: `+=`",
        )

    def _report_metric(self, found: last_batch.LastBatch) -> Finding:
        metric = f"`{found.metric}`" if len(found.metric) <= 40 else "this"
        return self.finding(
            found.location,
            f"{metric} {'compares' if found.is_comparison else 'gets'} the last batch only",
            related=[Related(found.loop, "binds what the metric gets, again in each iteration", "loop")],
            help="collect the predictions and labels of all batches in lists",
        )
