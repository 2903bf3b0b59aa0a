"""The result of a method of a data set or frame is discarded, or a mapped function returns none.

Methods such as `map`, `filter` and `shuffle` return a new data set and do not change the old one. A call whose result
is not assigned has no effect: a later step fails, or training silently uses the unchanged rows. The same holds for
`batch` and others of `tf.data`, for `drop`, `fillna` and others of a pandas frame, and for the columns that a mapped
function sets and does not return.

## Bad

    raw.map(tokenize, batched=True)  # <- discarded-map
    trainer = Trainer(model, args, train_dataset=raw["train"], processing_class=tokenizer)
    # raises ValueError: You should supply an encoding

A method that adds no column:

    train = raw["train"].map(tokenize, batched=True)
    train.shuffle(seed=1)  # <- discarded-map
    trainer = Trainer(model, args, train_dataset=train, processing_class=tokenizer)

## Good

    raw = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=raw["train"], processing_class=tokenizer)

and

    train = raw["train"].map(tokenize, batched=True)
    train = train.shuffle(seed=1)
    trainer = Trainer(model, args, train_dataset=train, processing_class=tokenizer)

## When it is fine

Some methods change the data set itself:

    train = raw.map(tokenize, batched=True)["train"]
    train.set_format("torch", columns=["input_ids", "attention_mask", "label"])
    trainer = Trainer(model, args, train_dataset=train, processing_class=tokenizer)

A function that returns nothing is called for its side effects:

    def show(row):
        print(row["premise"])

    raw["train"].select(range(3)).map(show)

## Fix

Safe: these methods return a new data set, so the present line has no effect.

## References

Datasets documentation, "Process": all methods return a new `Dataset` object, except `set_format`, `set_transform` and
`reset_format`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import batch_functions, dropped_results, expressions, run_data, script_text, tf_datasets
from lintrain.pipeline.record import Discard
from lintrain.pipeline.values.columns import DataFrame
from lintrain.pipeline.values.data import Dataset, DatasetDict
from lintrain.pipeline.values.python import Either, Value
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
)

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


OF_FRAMES = frozenset(
    {"assign", "astype", "drop", "drop_duplicates", "dropna", "fillna", "ffill", "bfill", "interpolate", "rename"}
    | {"replace", "reset_index", "set_index", "sort_index", "sort_values"}
)
"""Methods of pandas that return another frame, unless they are called with `inplace=True`."""

OF_TENSORFLOW = "tf.data"
"""The subject of a finding about a data set of TensorFlow, whose methods no run follows."""

CACHE_FILES = {"cache_file_name", "cache_file_names"}
"""With one of these arguments, a call also writes a file, which may be its only purpose."""

NOT_IN_PLACE = "Data sets are not changed in place, so the script continues with the old one. The line raises no error."


@dataclass(frozen=True, slots=True)
class Claim:
    """The assignment that keeps the result, None without a fix, and the names of the columns that the call adds."""

    assignment: str | None = None
    added: tuple[str, ...] = ()


class DiscardedMap(Rule[Claim]):
    level = Level.ERROR
    keywords = "dataset|pandas|.map(|tf.|tensorflow"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        called = script_text.methods_called_as_statements(source)
        if not tf_datasets.STEPS_OF_DATA.isdisjoint(called) and tf_datasets.dropped_steps(source):
            return True
        return not (CHANGING | OF_FRAMES).isdisjoint(called) or any(batch_functions.lost_columns(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for discard in pipeline.discards:
            if discard.method in CHANGING and not discard.is_displayed and self._is_lost(pipeline, discard):
                yield self._report(pipeline, discard)
            elif isinstance(discard.receiver, DataFrame) and not discard.is_displayed and _is_new(pipeline, discard):
                yield self._of_frame(discard)
        yield from self._of_tensorflow(pipeline)
        yield from self._unknown(pipeline)
        seen = set[str]()
        for mapped, function in batch_functions.lost_columns(pipeline.source):
            if function.name not in seen:
                seen.add(function.name)
                yield self._of_function(mapped, pipeline.source.location(function.body[-1]), function.name)

    def _of_tensorflow(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for location, method, name in tf_datasets.dropped_steps(pipeline.source):
            shown = f"{name}.{method}(…)" if len(name) <= 20 else method
            yield self.finding(
                location,
                f"`{shown}` returns a new data set, but the result is discarded",
                why=NOT_IN_PLACE,
                help=f"assign it: `{name} = {name}.{method}(…)`",
                subject=OF_TENSORFLOW,
                claim=Claim(),
            )

    def _unknown(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """The results of data sets that are not known, by the code of the call."""
        known = {discard.location for discard in pipeline.discards if _datasets(discard.result)}
        of_tensorflow = {location.line for location, _, _ in tf_datasets.dropped_steps(pipeline.source)}
        for dropped in dropped_results.dropped_results(pipeline.source):
            location = pipeline.source.location(dropped.call)
            is_known = location in known or location.line in of_tensorflow
            if not is_known and not pipeline.source.is_displayed(location):
                yield self.finding(
                    location,
                    f"`{dropped.method}` returns a new data set, but the result is discarded",
                    why=NOT_IN_PLACE,
                    help=f"assign it: `{dropped.owner} = {dropped.owner}.{dropped.method}(…)`",
                    claim=Claim(),
                )

    def _of_function(self, mapped: Location, last: Location, name: str) -> Finding[Claim]:
        shown = f"`{name}`" if len(name) <= 30 else "this function"
        return self.finding(
            mapped,
            f"{shown} returns nothing, so `map` keeps none of the columns that it sets",
            related=[Related(last, "the function ends here", "function")],
            help="end it with `return`, and the dictionary whose columns are to be kept",
            subject="function",
            claim=Claim(),
        )

    def _of_frame(self, discard: Discard) -> Finding[Claim]:
        name = discard.receiver_text
        return self.finding(
            discard.location,
            f"`{name}.{discard.method}(…)` returns a new frame, but the result is discarded"
            if len(name) <= 20
            else f"`{discard.method}` returns a new frame, but the result is discarded",
            why="frames are not changed in place, so the script continues with the old one",
            help=f"assign it: `{name} = {name}.{discard.method}(…)`",
            claim=Claim(),
        )

    def _is_lost(self, pipeline: Pipeline, discard: Discard) -> bool:
        made = _datasets(discard.result)
        if not made or any(dataset.is_unchanged is not False for dataset in made):
            return False
        if CACHE_FILES & expressions.keywords_in(pipeline.code(discard.location)):
            return False
        return not any(_repeats(dataset, made[0]) for dataset in pipeline.datasets if isinstance(dataset, Dataset))

    def _report(self, pipeline: Pipeline, discard: Discard) -> Finding[Claim]:
        made = _datasets(discard.result)[0]
        name = discard.receiver_text
        shown = f"`{name}.{discard.method}(…)`" if len(name) <= 30 and "\n" not in name else f"`{discard.method}`"
        is_name = name.isidentifier() and _is_used_after(pipeline, name, discard)
        return self.finding(
            discard.location,
            f"{shown} returns a new data set, but the result is discarded",
            related=run_data.origin_of(made),
            why=NOT_IN_PLACE,
            help=f"assign it: `{name} = {name}.{discard.method}(…)`" if is_name else "assign the result to a name",
            claim=Claim(f"{name} = {pipeline.code(discard.location)}" if is_name else None, tuple(_added(made))),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for result in evidence.objects.dropped:
            yield self.finding(
                result.location,
                f"`{result.method}` returns a new data set, but the result is discarded",
                why=NOT_IN_PLACE,
                help="assign the result to a name",
                claim=Claim(added=result.added),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if finding.subject == "function":
            return Verdict.inconclusive("what a mapped function was meant to return is not measured")
        if finding.subject == OF_TENSORFLOW:
            return Verdict.inconclusive("what a data set of TensorFlow was meant to become is not measured")
        added = finding.claim.added if finding.claim else ()
        split = next((each for each in evidence.splits if each.columns), None)
        if split is None:
            return Verdict.inconclusive(evidence.not_reached("dataset"))
        dropped = [each for each in evidence.objects.dropped if each.location.meets(finding.location)]
        if not added and dropped and not dropped[0].is_cached:
            kept = sorted(set(dropped[0].columns) & split.column_names)
            text = f"nothing keeps what `{dropped[0].method}` returned"
            count = f"{split.argument} has {len(kept)} of the {len(dropped[0].columns)} columns from before"
            return Verdict.confirmed(f"{text}; {count}", kept=len(kept))
        if not added and evidence.ran(finding.location) and not dropped:
            line = finding.location.line
            return Verdict.refuted(f"0 of the data sets that line {line} made were thrown away", line=line)
        if not added:
            return Verdict.inconclusive("this method does not change the columns, and only columns can be compared")
        present = sorted(set(added) & split.column_names)
        count = f"{len(present)} of the {len(added)} columns that the call adds ({', '.join(added)})"
        verdict = Verdict.refuted if present else Verdict.confirmed
        return verdict(f"{split.argument} has {count}", columns=[*sorted(split.column_names)])

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.assignment is None:
            return None
        return fixes.Fix.of(
            "assign the new data set to the same name", fixes.Replace(finding.location, claim.assignment), safe=True
        )


def _is_new(pipeline: Pipeline, discard: Discard) -> bool:
    """Whether a method of a frame certainly leaves the frame as it is."""
    code = pipeline.code(discard.location)
    return discard.method in OF_FRAMES and "**" not in code and "inplace" not in expressions.keywords_in(code)


def _datasets(value: Value) -> list[Dataset]:
    if isinstance(value, Either):
        return [dataset for option in value.options for dataset in _datasets(option)]
    if isinstance(value, DatasetDict):
        return list(value.every())
    return [value] if isinstance(value, Dataset) else []


def _repeats(dataset: Dataset, lost: Dataset) -> bool:
    """Whether the same call also occurs elsewhere: this one only fills the cache."""
    step, other = lost.steps[-1], dataset.steps[-1]
    return step.text == other.text and step.location != other.location


def _added(made: Dataset) -> list[str]:
    before = made.parent.columns if isinstance(made.parent, Dataset) else None
    return [name for name in made.columns or {} if name not in (before or {})]


def _is_used_after(pipeline: Pipeline, name: str, discard: Discard) -> bool:
    uses = script_text.uses_of(pipeline.source_of(discard.location), name)
    return any(use.location.line > discard.location.end_line for use in uses)
