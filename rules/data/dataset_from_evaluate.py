"""A metric is taken for a data set, or a data set for a metric.

`evaluate.load` and `load_dataset` share many names (`glue`, `squad`). Each gives what its own library keeps under the
name, and the script ends where the result is used as the other thing.

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

Asks first: that a data set was meant and not a metric, only the name tells.

## References

Evaluate documentation, `evaluate.load`; Datasets documentation, `load_dataset`. `datasets.load_metric` was removed in
datasets 3.0.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.evidence.run import Failure
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.data import Dataset, DatasetDict
from lintrain.pipeline.values.python import Value
from lintrain.pipeline.values.training import Metric
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes

UNREACHABLE = ("Connection", "ffline", "HTTPError", "imeout", "timed out", "Max retries", "Couldn't reach")
TRAINER_DATA = ("train_dataset", "eval_dataset")
LOADERS = {"evaluate.load": "load_dataset", "load_dataset": "evaluate.load", "datasets.load_dataset": "evaluate.load"}


class DatasetFromEvaluate(Rule):
    level = Level.ERROR
    keywords = "evaluate|load_dataset|load_metric"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen: set[Value] = set()
        for misuse in [*pipeline.misuses, *_given_to_trainers(pipeline)]:
            if misuse.value in seen or not _is_swapped(misuse):
                continue
            seen.add(misuse.value)
            yield self._report(pipeline, misuse)

    def _report(self, pipeline: Pipeline, misuse: Misuse) -> Finding:
        location = _loaded_at(misuse.value) or misuse.location
        code = pipeline.code(location)
        is_metric = isinstance(misuse.value, Metric)
        loads, used = ("a metric", "a data set") if is_metric else ("a data set", "a metric")
        use = misuse.text if 0 < len(misuse.text) <= 30 and "\n" not in misuse.text else misuse.use
        return self.finding(
            location,
            f"{loads} is loaded here, and `{use}` needs {used}",
            related=[Related(misuse.location, f"used as {used}", "use", misuse.text)],
            why=f"what is loaded here has none of the methods of {used}",
            help="load it with `load_dataset`" if is_metric else "load it with `evaluate.load`",
            facts={
                "code": code if "\n" not in code else None,
                "is_certain": _is_certain(pipeline, location) and _is_certain(pipeline, misuse.location),
            },
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        uses = [reason.location for reason in finding.with_role("use")]
        for location in (finding.location, *uses):
            stage = evidence.failed_at(location, "")
            if stage is not None and stage.failure is not None:
                return _of_failure(stage.failure)
        locations = [each.line for each in (finding.location, *uses)]
        if finding.facts.get("is_certain") and all(evidence.ran(each) for each in (finding.location, *uses)):
            return Verdict.refuted(f"the script ran past line {max(locations)}, where what was loaded is used")
        return Verdict.inconclusive("the script did not end at this line")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        code = finding.facts.get("code")
        callee, bracket, arguments = code.partition("(") if isinstance(code, str) else ("", "", "")
        if callee not in LOADERS:
            return None
        new = LOADERS[callee]
        brings = fixes.AddImport("datasets", "load_dataset") if new == "load_dataset" else fixes.AddImport("evaluate")
        return fixes.Fix.of(
            f"load it with `{new}`", fixes.Replace(finding.location, f"{new}{bracket}{arguments}"), brings, safe=False
        )


def _of_failure(failure: Failure) -> Verdict:
    told = f"{failure.type}: {failure.message}"[:150]
    line = failure.location.line if failure.location else 0
    if failure.says(*UNREACHABLE):
        return Verdict.inconclusive(f"line {line} could reach no hub: {told}")
    return Verdict.confirmed(f"line {line} ends with {told}")


def _is_certain(pipeline: Pipeline, location: Location) -> bool:
    """Whether every run of the script comes past a place: it stands in a plain statement of the module."""
    plain = (ast.Assign, ast.Expr)
    source = pipeline.source_of(location)
    return any(source.location(node).holds(location) for node in source.tree.body if isinstance(node, plain))


def _is_swapped(misuse: Misuse) -> bool:
    """Whether a metric stands for a data set, or a data set for a metric, and nothing was done to it in between."""
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
    """Metrics that a Trainer is given as its data."""
    for run in pipeline.runs:
        for name in TRAINER_DATA:
            argument = run.arguments.get(name)
            if argument is not None and isinstance(argument.value, Metric):
                yield Misuse(argument.location, argument.value, f"{name}={argument.text}", f"{name}={argument.text}")
