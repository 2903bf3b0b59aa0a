"""A metric that ranks scores gets classes, of which each is as high as any other of its kind.

The area under the ROC curve and the average precision compare how high the scores of positive and negative rows are.
After a threshold, a rounding or an `argmax`, the curve has a single point: the number is another one, mostly lower, and
models that differ in their scores look the same. No error is raised.

## Bad

    from sklearn.metrics import roc_auc_score

    network = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(network(x).squeeze(1), (y > 0).float()).backward()
        optimizer.step()
    scores = torch.sigmoid(network(features)).squeeze(1).detach().numpy()
    predicted = (scores > 0.5).astype(int)
    print(roc_auc_score((targets > 0).numpy(), predicted))  # <- classes-in-ranking-metric

## Good

    from sklearn.metrics import roc_auc_score

    network = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(network(x).squeeze(1), (y > 0).float()).backward()
        optimizer.step()
    scores = torch.sigmoid(network(features)).squeeze(1).detach().numpy()
    print(roc_auc_score((targets > 0).numpy(), scores))

## When it is fine

Metrics of classes get classes:

    from sklearn.metrics import f1_score

    network = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(network(x).squeeze(1), (y > 0).float()).backward()
        optimizer.step()
    scores = torch.sigmoid(network(features)).squeeze(1).detach().numpy()
    print(f1_score((targets > 0).numpy(), scores > 0.5))

## Fix

None: the scores may have another name, or be computed where the classes are collected.

## References

scikit-learn documentation, `sklearn.metrics.roc_auc_score`: "Target scores"; `average_precision_score`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import hard_predictions, metric_names
from lintrain.pipeline.values.training import MetricCall
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location

RANKING = frozenset({"roc_auc_score", "average_precision_score", "roc_curve", "precision_recall_curve"})
"""Functions of scikit-learn whose result depends on the order of the scores alone."""


class ClassesInRankingMetric(Rule):
    level = Level.WARNING
    keywords = "roc_auc_score|average_precision_score|roc_curve|precision_recall_curve"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return metric_names.may_call(source, RANKING)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        calls = (call for call in pipeline.metric_calls if call.metric.name in RANKING)
        yield from one_per_location(found for call in calls if (found := self._of_call(pipeline, call)) is not None)

    def _of_call(self, pipeline: Pipeline, call: MetricCall) -> Finding | None:
        given = call.predictions
        hard = hard_predictions.hardened(pipeline, given) if given is not None else None
        if given is None or hard is None:
            return None
        shown = f"`{given.text}`" if len(given.text) <= 24 else "this"
        return self.finding(
            given.location,
            f"{shown} holds classes, but `{call.metric.name}` ranks scores",
            related=[Related(hard, "only the classes are left here", "origin")],
            help="pass the probabilities or logits that the classes were chosen from",
        )
