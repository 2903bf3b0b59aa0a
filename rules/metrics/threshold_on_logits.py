"""Logits are compared with 0.5, the threshold of probabilities.

A loss with logits applies the sigmoid itself, so the network returns logits. A logit above 0.5 is a probability above
0.62: the accuracy is too low, and the predictions are not those that were trained. Metrics of Keras such as
`BinaryAccuracy()` compare with 0.5 as well, also with a loss of logits. No error is raised.

## Bad

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        outputs = scorer(x).squeeze(1)
        loss = criterion(outputs, (y > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        accuracy = ((outputs > 0.5) == (y > 0)).float().mean()  # <- threshold-on-logits

Rounded:

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        outputs = scorer(x).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(outputs, (y > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        predicted = torch.round(outputs)  # <- threshold-on-logits

## Good

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        outputs = scorer(x).squeeze(1)
        loss = criterion(outputs, (y > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        accuracy = ((outputs > 0) == (y > 0)).float().mean()

and

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        outputs = scorer(x).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(outputs, (y > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        predicted = torch.round(torch.sigmoid(outputs))

## When it is fine

The name holds probabilities after the loss:

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        outputs = scorer(x).squeeze(1)
        F.binary_cross_entropy_with_logits(outputs, (y > 0).float()).backward()
        outputs = torch.sigmoid(outputs)
        accuracy = ((outputs > 0.5) == (y > 0)).float().mean()

## Fix

None: the threshold may become 0, or the logits probabilities.

## References

PyTorch documentation, `torch.nn.BCEWithLogitsLoss`; the fix in `tkipf/gae`, commit 716a46ce579a.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs, loop_verdicts, rounded_logits, script_text
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Model, Role, Task, Tensor
from lintrain.pipeline.values.python import Absent, Library, LibraryObject, Sequence, Value, literal, text_of
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Finding, Level, OddCallRule, Pipeline, Related, one_per_location

ENDS_IN_SIGMOID = r"\bnn\.Sigmoid\(|return\s+(?:torch|F|nn\.functional)\.sigmoid\("
"""Code of a network that gives probabilities."""


class ThresholdOnLogits(OddCallRule):
    level = Level.ERROR
    odd = "0.5 for logits"
    odd_message = "this holds logits, but 0.5 is a threshold of probabilities"
    odd_help = "compare logits with 0, or apply a sigmoid first"
    keywords = "ith_logits|WithLogits|Classification|from_logits"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        losses = loop_verdicts.losses_called(pipeline, "binary_cross_entropy_with_logits")
        # What has passed a sigmoid is compared rightly: the mistake is the second sigmoid, which another rule reports.
        of_probabilities = {each.location for each in losses if any(loop_verdicts.operations_before(each, "sigmoid"))}
        found = (each for each in rounded_logits.rounded_logits(pipeline) if each.loss not in of_probabilities)
        if not all(any(loop_verdicts.tensors_given(each)) for each in losses):
            # A network whose end is not understood may apply the sigmoid itself.
            found = (each for each in found if not script_text.mentions(pipeline, ENDS_IN_SIGMOID))
        kept = rounded_logits.compared_logits(pipeline)
        yield from one_per_location(map(self._report, (*found, *kept)))
        yield from one_per_location(
            self._of_head(misuse, misuse.value.model)
            for misuse in pipeline.misuses
            if misuse.use == "logits against 0.5" and isinstance(misuse.value, Tensor)
            if isinstance(misuse.value.model, Model) and _gives_logits(pipeline, misuse.value.model)
        )

        yield from one_per_location(map(self._of_metric, _keras_metrics(pipeline)))

    def _of_metric(self, found: tuple[KerasRun, Argument, str]) -> Finding:
        run, metrics, name = found
        made = run.output.origin
        return self.finding(
            metrics.location,
            f"`{name}` compares with 0.5, but this network returns logits",
            related=[Related(made, "the last layer has no sigmoid", "loss")] if made else [],
            help="give it `threshold=0`, or end the network with a sigmoid and compute the loss without `from_logits`",
        )

    def _of_head(self, found: Misuse, model: Model) -> Finding:
        return self.finding(
            found.location,
            "this holds logits, but 0.5 is a threshold of probabilities",
            related=[Related(model.origin, "returns logits", "loss")] if model.origin else [],
            help="compare logits with 0, or apply a sigmoid first",
        )

    def _report(self, found: rounded_logits.RoundedLogits) -> Finding:
        shown = f"`{found.name}`" if len(found.name) <= 24 else "this"
        return self.finding(
            found.location,
            f"{shown} holds logits, but 0.5 is a threshold of probabilities",
            related=[Related(found.loss, "this loss expects logits", "loss")],
            help="compare logits with 0, or apply a sigmoid first",
        )


COUNTS = frozenset(
    {"BinaryAccuracy", "Precision", "Recall"}
    | {f"{a}{b}" for a in ("True", "False") for b in ("Positives", "Negatives")}
)
"""Metrics of Keras that compare each output with a threshold, which is 0.5 by default."""


def _keras_metrics(pipeline: Pipeline) -> Iterator[tuple[KerasRun, Argument, str]]:
    """Metrics of Keras with the threshold of probabilities, beside a loss with `from_logits=True`."""
    for run in pipeline.keras_runs:
        loss, metrics = keras_runs.loss_of(run), run.compile_arguments.get("metrics")
        is_of_logits = loss is not None and loss.name == "binary_crossentropy" and loss.from_logits is True
        if metrics is None or not is_of_logits or keras_runs.activation_at_end(run) != "linear":
            continue
        items = metrics.value.items if isinstance(metrics.value, Sequence) else [metrics.value]
        names = [_half(item, keras_runs.output_units(run) == 1) for item in items]
        if name := next(filter(None, names), ""):
            yield run, metrics, name


def _half(metric: Value, is_one: bool) -> str:
    """The name of a metric whose threshold is 0.5; empty for others. A network of one output has a binary accuracy."""
    name = text_of(metric) or ""
    if (name in {"accuracy", "acc"} and is_one) or name == "binary_accuracy":
        return name
    if isinstance(metric, Library) and metric.path.startswith("keras.metrics."):
        return metric.name if metric.name in COUNTS else ""
    if not isinstance(metric, LibraryObject) or not metric.path.startswith("keras.metrics."):
        return ""
    name = metric.path.rpartition(".")[2]
    is_given = {"threshold", "thresholds", "0", "**"} & metric.arguments.keys()
    return name if name in COUNTS and not is_given else ""


def _gives_logits(pipeline: Pipeline, model: Model) -> bool:
    """Whether a classifier of texts is certainly trained on a loss that applies the sigmoid or the softmax itself."""
    if model.attributes.keys() - {"config"}:
        return False  # such as a head of the script's own
    if text_of(model.problem_type) == "multi_label_classification" or _is_scored_as_logits(pipeline, model):
        return True
    labels = model.labels_by_default if isinstance(model.num_labels, Absent) else literal(model.num_labels)
    is_sized = isinstance(labels, int) and labels > 1
    # An own loss may be one of numbers, whose targets are 0 and 1.
    has_own_loss = any(run.model is model and "compute_loss" in run.overrides for run in pipeline.runs)
    is_plain = model.is_complete and isinstance(model.problem_type, Absent) and model.config is None
    return model.task is Task.SEQUENCE_CLASSIFICATION and is_sized and is_plain and not has_own_loss


OF_LOGITS = frozenset({"binary_cross_entropy_with_logits", "cross_entropy"})
"""Losses that apply the sigmoid or the softmax themselves."""


def _is_scored_as_logits(pipeline: Pipeline, model: Model) -> bool:
    """Whether a loss that expects logits gets the model's output as it is."""
    given = [
        loss.prediction.value for loss in pipeline.losses if loss.name in OF_LOGITS and loss.prediction is not None
    ]
    return any(isinstance(each, Tensor) and each.role is Role.LOGITS and each.model is model for each in given)
