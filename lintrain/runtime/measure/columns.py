"""The dataset stage: every split's columns, label values over the whole column, and decoded samples."""

from __future__ import annotations

from lintrain.evidence.run import ColumnEvidence, SplitEvidence, StageName
from lintrain.runtime.child.given import Given
from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.arrow import arrow_columns
from lintrain.runtime.measure.rows import row_columns, sample_rows
from lintrain.runtime.measure.samples import decoded_samples
from lintrain.runtime.measure.subset import is_arrow, number_of_rows

LABEL_NAMES = ("labels", "label", "label_ids")


def measure_splits(run: MeasuredRun, given: list[Given]) -> None:
    """Send the evidence of every split; an error is that of reading the user's data."""
    splits: list[SplitEvidence] = []
    for number, one in enumerate(given):
        run.progress(StageName.DATASET, number, len(given))
        splits.append(measure_split(run, one))
        run.measured(splits=splits)


def measure_split(run: MeasuredRun, given: Given) -> SplitEvidence:
    """Columns, label range and samples of one split."""
    dataset = given.dataset
    rows = sample_rows(dataset)
    run.texts += [value for row in rows if is_mapping(row) for value in row.values() if isinstance(value, str)]
    columns = arrow_columns(dataset) if is_arrow(dataset) else row_columns(dataset, rows)
    label = label_column(columns, run.label_inputs)
    return SplitEvidence(
        argument=given.argument,
        rows=number_of_rows(dataset),
        columns=tuple(columns),
        key=given.key,
        samples=decoded_samples(run, rows, label),
        label_column=label.name if label else None,
        kind=type(dataset).__name__,
    )


def label_column(columns: list[ColumnEvidence], label_names: tuple[str, ...]) -> ColumnEvidence | None:
    """The column that the trainer takes as labels."""
    by_name = {column.name: column for column in columns}
    return next((by_name[name] for name in (*label_names, *LABEL_NAMES) if name in by_name), None)
