"""The result of a data set's method is thrown away.

`map`, `filter`, `shuffle` and their like give a new data set and leave the old one as it was. A call whose result is
not assigned has no effect: the mistake shows later under another name, or training goes on with the rows as they were.

## Bad

    raw.map(tokenize, batched=True)  # <- discarded-map
    trainer = Trainer(model, args, train_dataset=raw["train"], processing_class=tokenizer)
    # raises ValueError: You should supply an encoding

## Good

    raw = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=raw["train"], processing_class=tokenizer)

## When it is fine

Some methods change the data set itself:

    train = raw.map(tokenize, batched=True)["train"]
    train.set_format("torch", columns=["input_ids", "attention_mask", "label"])
    trainer = Trainer(model, args, train_dataset=train, processing_class=tokenizer)

A function that gives nothing back is called for what it does:

    def show(row):
        print(row["premise"])

    raw["train"].select(range(3)).map(show)

## Fix

Safe: `map` and its like return a new data set, so the line as it stands does nothing.

## References

Datasets documentation, "Process": every method returns a new `Dataset` object, but for `set_format`, `set_transform`
and `reset_format`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import run_data
from lintrain.pipeline.record import Discard
from lintrain.pipeline.values.data import Dataset, DatasetDict
from lintrain.pipeline.values.python import Either, Value
from lintrain.rule import Evidence, Finding, Level, Pipeline, Rule, Source, Targets, Verdict, fixes
from lintrain.source import parsing

CHANGING = frozenset(
    {
        "add_column",
        "cast",
        "cast_column",
        "class_encode_column",
        "filter",
        "map",
        "remove_columns",
        "rename_column",
        "rename_columns",
        "select",
        "select_columns",
        "shuffle",
        "sort",
        "train_test_split",
        "with_format",
        "with_transform",
    }
)


CACHE_FILES = {"cache_file_name", "cache_file_names"}
"""With one of these a call also writes a file of the script's choice, which may be all that is wanted of it."""


class DiscardedMap(Rule):
    level = Level.ERROR
    keywords = "dataset"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        calls = (node.value for node in source.nodes_of(ast.Expr) if isinstance(node.value, ast.Call))
        return any(isinstance(call.func, ast.Attribute) and call.func.attr in CHANGING for call in calls)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for discard in pipeline.discards:
            if discard.method in CHANGING and not discard.is_displayed and self._is_lost(pipeline, discard):
                yield self._report(pipeline, discard)

    def _is_lost(self, pipeline: Pipeline, discard: Discard) -> bool:
        made = _datasets(discard.result)
        if not made or any(dataset.is_unchanged is not False for dataset in made):
            return False
        if _keeps_a_file(pipeline.code(discard.location)):
            return False
        return not any(_repeats(dataset, made[0]) for dataset in pipeline.datasets if isinstance(dataset, Dataset))

    def _report(self, pipeline: Pipeline, discard: Discard) -> Finding:
        made = _datasets(discard.result)[0]
        name = discard.receiver_text
        shown = f"`{name}.{discard.method}(…)`" if len(name) <= 30 and "\n" not in name else f"`{discard.method}`"
        is_name = name.isidentifier() and _is_used_after(pipeline, name, discard)
        return self.finding(
            discard.location,
            f"{shown} gives a new data set, and nothing keeps it",
            related=run_data.origin_of(made),
            why="data sets are not changed in place: the old one goes on without this step",
            help=f"assign it: `{name} = {name}.{discard.method}(…)`" if is_name else "assign what it gives to a name",
            facts={
                "code": f"{name} = {pipeline.code(discard.location)}" if is_name else None,
                "adds": " ".join(_added(made)) or None,
            },
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        adds = str(finding.facts.get("adds") or "").split()
        split = next((each for each in evidence.splits if each.columns), None)
        if split is None:
            return Verdict.inconclusive(evidence.not_reached("dataset"))
        if not adds:
            return Verdict.inconclusive(
                "this method leaves the columns as they are, and columns are all that can be compared"
            )
        there = sorted(set(adds) & split.column_names)
        text = f"{len(there)} of the {len(adds)} columns that it adds ({', '.join(adds)}) are in {split.argument}"
        if there:
            return Verdict.refuted(text, columns=[*sorted(split.column_names)])
        return Verdict.confirmed(text, columns=[*sorted(split.column_names)])

    def fix(self, finding: Finding) -> fixes.Fix | None:
        code = finding.facts.get("code")
        if not isinstance(code, str):
            return None
        return fixes.Fix.of(
            "assign the new data set to the same name", fixes.Replace(finding.location, code), safe=True
        )


def _datasets(value: Value) -> list[Dataset]:
    if isinstance(value, Either):
        return [dataset for option in value.options for dataset in _datasets(option)]
    if isinstance(value, DatasetDict):
        return list(value.every())
    return [value] if isinstance(value, Dataset) else []


def _repeats(dataset: Dataset, lost: Dataset) -> bool:
    """Whether the same step is done elsewhere: this one only fills the cache."""
    step, other = lost.steps[-1], dataset.steps[-1]
    return step.text == other.text and step.location != other.location


def _added(made: Dataset) -> list[str]:
    before = made.parent.columns if isinstance(made.parent, Dataset) else None
    return [name for name in made.columns or {} if name not in (before or {})]


def _is_used_after(pipeline: Pipeline, name: str, discard: Discard) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and node.lineno > discard.location.end_line
        for node in pipeline.source_of(discard.location).nodes
    )


def _keeps_a_file(code: str) -> bool:
    """Whether a call says by which name its result is to be kept on the disk."""
    names = (node.arg for node in ast.walk(parsing.expression_of(f"({code})")) if isinstance(node, ast.keyword))
    return any(name in CACHE_FILES for name in names)
