"""A metric is taken for a data set, or a data set for a metric.

`evaluate.load` and `load_dataset` share many names (`glue`, `squad`). Each gives what its own library keeps under the
name, and the script ends where the result is used as the other thing.

## Bad

    raw = evaluate.load("glue", "mnli")  # <- dataset-from-evaluate
    train = raw["train"]
    # raises TypeError: 'Glue' object is not subscriptable

## Good

    raw = load_dataset("glue", "mnli")
    train = raw["train"]

## When it is fine

A metric and a data set may have the same name:

    metric = evaluate.load("glue", "mnli")
    raw = load_dataset("glue", "mnli")
    result = metric.compute(predictions=[0, 1], references=raw["train"]["label"][:2])

## References

Evaluate documentation, `evaluate.load`; Datasets documentation, `load_dataset`. `datasets.load_metric` was removed in
datasets 3.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    AddImport,
    Dataset,
    DatasetDict,
    Evidence,
    Finding,
    Fix,
    Level,
    Metric,
    Misuse,
    Pipeline,
    Place,
    Reason,
    Replace,
    Rule,
    Value,
    Verdict,
    confirmed,
    unsettled,
)

TRAINER_DATA = ("train_dataset", "eval_dataset")
LOADERS = {"evaluate.load": "load_dataset", "load_dataset": "evaluate.load", "datasets.load_dataset": "evaluate.load"}


class DatasetFromEvaluate(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen: set[Value] = set()
        for misuse in [*pipeline.misuses, *_given_to_trainers(pipeline)]:
            if misuse.value in seen or not _is_swapped(misuse):
                continue
            seen.add(misuse.value)
            yield self._report(pipeline, misuse)

    def _report(self, pipeline: Pipeline, misuse: Misuse) -> Finding:
        place = _loaded_at(misuse.value) or misuse.place
        code = pipeline.code(place)
        is_metric = isinstance(misuse.value, Metric)
        loads, used = ("a metric", "a data set") if is_metric else ("a data set", "a metric")
        use = misuse.text if 0 < len(misuse.text) <= 30 and "\n" not in misuse.text else misuse.use
        return self.finding(
            place,
            f"{loads} is loaded here, and `{use}` needs {used}",
            because=[Reason(misuse.place, f"used as {used}", "use", misuse.text)],
            why=f"what is loaded here has none of the methods of {used}",
            help="load it with `load_dataset`" if is_metric else "load it with `evaluate.load`",
            facts={"code": code if "\n" not in code else None},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        uses = [reason.place.line for reason in finding.related("use")]
        stage = evidence.stage("script")
        failure = stage.failure if stage else None
        if failure and failure.place and failure.place.line in {finding.place.line, *uses}:
            return confirmed(f"line {failure.place.line} ends with {failure.type}: {failure.message}"[:200])
        return unsettled("the script did not end at this line")

    def fix(self, finding: Finding) -> Fix | None:
        code = finding.facts.get("code")
        callee, bracket, arguments = code.partition("(") if isinstance(code, str) else ("", "", "")
        if callee not in LOADERS:
            return None
        new = LOADERS[callee]
        brings = AddImport("datasets", "load_dataset") if new == "load_dataset" else AddImport("evaluate")
        return Fix.of(f"load it with `{new}`", Replace(finding.place, f"{new}{bracket}{arguments}"), brings, safe=False)


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


def _loaded_at(value: Value) -> Place | None:
    return value.steps[0].place if isinstance(value, Dataset) else value.origin


def _given_to_trainers(pipeline: Pipeline) -> Iterator[Misuse]:
    """Metrics that a Trainer is given as its data."""
    for run in pipeline.runs:
        for name in TRAINER_DATA:
            argument = run.arguments.get(name)
            if argument is not None and isinstance(argument.value, Metric):
                yield Misuse(argument.place, argument.value, f"{name}={argument.text}", f"{name}={argument.text}")
