"""A metric gets the predictions in place of the labels, and the labels in place of the predictions.

scikit-learn takes the labels first, `precision_score(y_true, y_pred)`; torchmetrics takes the predictions first. With
both exchanged, precision is reported as recall and recall as precision, the report counts the rows of each predicted
class, and R² or ROC AUC have another value. No error is raised. The accuracy is the same in either order.

## Bad

    from sklearn.metrics import classification_report

    preds, labels = [], []
    with torch.no_grad():
        for x, y in loader:
            preds.extend(net(x).argmax(1).tolist())
            labels.extend(y.tolist())
    print(classification_report(preds, labels, zero_division=0))  # <- swapped-metric-arguments

## Good

    from sklearn.metrics import classification_report

    preds, labels = [], []
    with torch.no_grad():
        for x, y in loader:
            preds.extend(net(x).argmax(1).tolist())
            labels.extend(y.tolist())
    print(classification_report(labels, preds, zero_division=0))

## When it is fine

Metrics that are the same in either order, and arguments passed by name:

    from sklearn.metrics import accuracy_score, recall_score

    with torch.no_grad():
        for x, y in loader:
            preds = net(x).argmax(1)
            print(accuracy_score(preds, y), recall_score(y_pred=preds, y_true=y, average="macro", zero_division=0))

## Fix

Asks first: it changes the numbers that are reported.

## References

scikit-learn documentation, `sklearn.metrics`; torchmetrics documentation, `forward(preds, target)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import metric_names
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import Unknown, text_of
from lintrain.pipeline.values.training import MetricCall
from lintrain.rule import (
    Finding,
    Level,
    Location,
    Pipeline,
    Rule,
    Source,
    Targets,
    dataclass,
    fixes,
    lazy_pattern,
    one_per_location,
)

ASYMMETRIC = frozenset(
    {
        *("precision", "precision_score", "recall", "recall_score", "fbeta_score", "precision_recall_fscore_support"),
        *("classification_report", "balanced_accuracy_score", "average_precision_score", "roc_auc_score", "roc_auc"),
        *("roc_curve", "precision_recall_curve", "log_loss", "r2_score", "r2", "mean_absolute_percentage_error"),
        *("bleu", "sacrebleu", "google_bleu", "meteor", "chrf", "wer", "cer", "seqeval"),
        *("specificity", "auroc", "average_precision", "hinge_loss", "ndcg_score", "top_k_accuracy_score"),
    }
)
"""Metrics that have another value in the other order. Whoever swaps a confusion matrix may want it transposed."""

WEIGHTED = frozenset({"f1", "f1_score", "jaccard_score"})
"""Metrics of each class that are the same in either order, as long as the true rows of a class are no weight."""

PREDICTED = lazy_pattern(
    r"(?i)(?:^|_)(?:y?_?pred(?:s|ict(?:ed|ions?)?)?|y?hat|outputs?|logits|prob(?:s|a|abilities)?)(?:_|$)"
)
TRUE = lazy_pattern(
    r"(?i)(?:^|_)(?:true|truths?|labels?|targets?|gts?|gold|ground)(?:_|$)|^y_?(?:test|val|valid|true|gt)$"
)
TRUE_PREDICTIONS = lazy_pattern(r"(?i)true|truth|gold")
"""Names of what a network gives, and of what the data holds; `pred_labels` are predictions."""

NAME = lazy_pattern(
    r"(?:(?:np|numpy)\.(?:as)?array\(|(?:np|numpy|torch)\.(?:cat|concatenate|[hv]?stack)\()?"
    r"(?:\w+\.)*(?P<last>\w+)(?:\[[^\[\]]*\]|\.\w+\(\))*\)?"
)
"""A name, a part of it, or a method without arguments: `preds[mask]`, `self.labels`, `preds.cpu().numpy()`; also as an
array of its own: `np.array(preds)`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Both arguments and their code, to be exchanged."""

    first: Location
    second: Location
    first_code: str
    second_code: str


class SwappedMetricArguments(Rule[Claim]):
    level = Level.ERROR
    keywords = "bleu|wer|cer|meteor|chrf|seqeval|precision|recall|fbeta|_report|balanced|auc|roc|log_loss|r2|percent|f1"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return metric_names.may_call(source, ASYMMETRIC | WEIGHTED)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        calls: dict[Location, list[MetricCall]] = {}
        for call in pipeline.metric_calls:
            calls.setdefault(call.location, []).append(call)
        yield from one_per_location(
            self._report(some[0]) for some in calls.values() if some[0].is_written and all(map(_is_swapped, some))
        )

    def _report(self, call: MetricCall) -> Finding[Claim]:
        labels, preds = call.predictions, call.references
        is_short = labels is not None and len(labels.text) <= SHOWN
        claim = None
        if labels is not None and preds is not None and labels.keyword is None and preds.keyword is None:
            claim = Claim(labels.location, preds.location, labels.text, preds.text)
        return self.finding(
            call.location,
            f"`{call.metric.name}` gets {f'`{labels.text}`' if labels and is_short else 'labels'} as predictions",
            help="exchange the two arguments, or pass them by name",
            claim=claim,
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None:
            return None
        edits = [fixes.Replace(claim.first, claim.second_code), fixes.Replace(claim.second, claim.first_code)]
        return fixes.Fix.of("exchange the arguments", *edits, safe=False)


SHOWN = 24
"""So many characters of code fit into a message."""


def _is_swapped(call: MetricCall) -> bool:
    """Whether the values show it, or the names of the arguments whose values are not known."""
    names = {part.name for part in call.metric.every()}
    is_weighted = names <= WEIGHTED and text_of(call.average) == "weighted"
    if call.predictions is None or call.references is None or not (names <= ASYMMETRIC or is_weighted):
        return False
    given, expected = _kind_of(call.predictions), _kind_of(call.references)
    is_label = given is Role.LABELS if given is not None else _are_named(call.predictions, TRUE, PREDICTED)
    return is_label and (
        expected is Role.CLASSES if expected is not None else _are_named(call.references, PREDICTED, TRUE_PREDICTIONS)
    )


def _kind_of(argument: Argument) -> Role | None:
    """Whether a value is what a network gave (`CLASSES`) or what the data holds (`LABELS`); None if it is not known."""
    value = argument.value
    if not isinstance(value, Tensor):
        return None
    if not isinstance(value.model, Unknown) or value.role in {Role.CLASSES, Role.LOGITS}:
        return Role.CLASSES
    is_data = value.made is not None and value.made.name == "data"
    return Role.LABELS if value.role is Role.LABELS or is_data else None


def _are_named(argument: Argument, kind: re.Pattern[str], other: re.Pattern[str]) -> bool:
    """Whether the code of an argument is a name of one kind, and not of the other."""
    found = NAME.fullmatch(argument.text)
    last = found["last"] if found is not None else ""
    return kind.search(last) is not None and other.search(last) is None
