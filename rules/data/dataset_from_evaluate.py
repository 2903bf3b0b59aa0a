"""A metric is used as a data set, or a data set as a metric.

`evaluate.load` and `load_dataset` share many names (`glue`, `squad`): one returns a metric, the other a data set. The
script raises an error where the result is used as the other object.

## Bad

    raw = evaluate.load("glue", "mnli")  # <- dataset-from-evaluate
    print(raw["train"])
    tokenized = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], processing_class=tokenizer)
    # raises TypeError: 'Glue' object is not subscriptable

## Good

    raw = load_dataset("glue", "mnli")
    print(raw["train"])
    tokenized = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], processing_class=tokenizer)

## When it is fine

A metric and a data set may have the same name:

    metric = evaluate.load("glue", "mnli")
    raw = load_dataset("glue", "mnli")
    result = metric.compute(predictions=[0, 1], references=raw["train"]["label"][:2])

## Fix

Asks first: only the use of the result shows that the other function was intended.

## References

Evaluate documentation, `evaluate.load`; Datasets documentation, `load_dataset`. `datasets.load_metric` was removed in
datasets 3.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import statements
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.data import Dataset, DatasetDict
from lintrain.pipeline.values.python import Value
from lintrain.pipeline.values.training import Metric
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

if TYPE_CHECKING:
    from lintrain.evidence.run import Failure

UNREACHABLE = ("Connection", "ffline", "HTTPError", "imeout", "timed out", "Max retries", "Couldn't reach")
TRAINER_DATA = ("train_dataset", "eval_dataset")
LOADERS = {"evaluate.load": "load_dataset", "load_dataset": "evaluate.load", "datasets.load_dataset": "evaluate.load"}


@dataclass(frozen=True, slots=True)
class Claim:
    """The code that loads, if it is on one line; `is_certain` if every run comes to both statements."""

    code: str | None = None
    is_certain: bool = False


class DatasetFromEvaluate(Rule[Claim]):
    level = Level.ERROR
    keywords = "evaluate|load_dataset|load_metric"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen: set[Value] = set()
        for misuse in [*pipeline.misuses, *_given_to_trainers(pipeline)]:
            if misuse.value in seen or not _is_swapped(misuse):
                continue
            seen.add(misuse.value)
            yield self._report(pipeline, misuse)

    def _report(self, pipeline: Pipeline, misuse: Misuse) -> Finding[Claim]:
        location = _loaded_at(misuse.value) or misuse.location
        code = pipeline.code(location)
        is_metric = isinstance(misuse.value, Metric)
        loads, used = ("a metric", "a data set") if is_metric else ("a data set", "a metric")
        use = misuse.text if 0 < len(misuse.text) <= 30 and "\n" not in misuse.text else misuse.use
        return self.finding(
            location,
            f"{loads} is loaded here, but `{use}` needs {used}",
            related=[Related(misuse.location, f"used as {used}", "use", misuse.text)],
            why=f"{loads} does not have the methods of {used}",
            help="load it with `load_dataset`" if is_metric else "load it with `evaluate.load`",
            claim=Claim(
                code if "\n" not in code else None,
                all(statements.is_plain_at_module_level(pipeline, each) for each in (location, misuse.location)),
            ),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        claim = finding.claim
        uses = [reason.location for reason in finding.with_role("use")]
        for location in (finding.location, *uses):
            stage = evidence.failed_at(location, "")
            if stage is not None and stage.failure is not None:
                return _of_failure(stage.failure)
        locations = [each.line for each in (finding.location, *uses)]
        is_certain = claim is not None and claim.is_certain
        if is_certain and all(evidence.ran(each) for each in (finding.location, *uses)):
            return Verdict.refuted(f"line {max(locations)}, which uses the loaded object, ran without an error")
        return Verdict.inconclusive("this line raised no error, but may not have run")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        callee, bracket, arguments = (claim.code if claim and claim.code else "").partition("(")
        if callee not in LOADERS:
            return None
        new = LOADERS[callee]
        added = fixes.AddImport("datasets", "load_dataset") if new == "load_dataset" else fixes.AddImport("evaluate")
        return fixes.Fix.of(
            f"load it with `{new}`", fixes.Replace(finding.location, f"{new}{bracket}{arguments}"), added, safe=False
        )


def _of_failure(failure: Failure) -> Verdict:
    error = f"{failure.type}: {failure.message}"[:150]
    line = failure.location.line if failure.location else 0
    if failure.contains(*UNREACHABLE):
        return Verdict.inconclusive(f"line {line} could not connect to the hub: {error}")
    return Verdict.confirmed(f"line {line} raises {error}")


def _is_swapped(misuse: Misuse) -> bool:
    """Whether a metric is used as a data set, or an unchanged data set as a metric."""
    match misuse.value:
        case Metric(library="evaluate"):
            return True
        case Dataset(steps=steps):
            return (
                len(steps) == 1 and steps[0].operation == "load_dataset" and misuse.use.startswith(("compute", "add"))
            )
        case DatasetDict(parent=None):
            return all(len(split.steps) == 1 for split in misuse.value.every())
        case _:
            return False


def _loaded_at(value: Value) -> Location | None:
    return value.steps[0].location if isinstance(value, Dataset) else value.origin


def _given_to_trainers(pipeline: Pipeline) -> Iterator[Misuse]:
    """Metrics that are passed to a Trainer as its data."""
    for run in pipeline.runs:
        for name in TRAINER_DATA:
            argument = run.arguments.get(name)
            if argument is not None and isinstance(argument.value, Metric):
                yield Misuse(argument.location, argument.value, f"{name}={argument.text}", f"{name}={argument.text}")
