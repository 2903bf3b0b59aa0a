"""Learners of scikit-learn that a script fits, and the splits that it makes: how many rows each was given."""

from __future__ import annotations

import functools
from typing import Any

from lintrain.evidence.run import LearnedRows, SplitRows
from lintrain.runtime.child.frames import callers_frame, frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.measure.subset import number_of_rows


class Learners:
    """What was fitted and split, in its order."""

    def __init__(self) -> None:
        self.learned: list[LearnedRows] = []
        self.splits: list[SplitRows] = []

    @property
    def moment(self) -> int:
        """How many of both there are."""
        return len(self.learned) + len(self.splits)

    def learns(self, learner: Any, rows: Any) -> None:
        """A learner is fitted by code of the script, or by a library that the script calls."""
        location, number = frame_location(users_frame()), _rows(rows)
        if location is not None and number is not None:
            self.learned.append(LearnedRows(location, type(learner).__name__, number, self.moment))

    def divides(self, rows: Any, kept: Any) -> None:
        """Rows were split in two."""
        location, number, rest = frame_location(users_frame()), _rows(rows), _rows(kept)
        if location is not None and number is not None and rest is not None:
            self.splits.append(SplitRows(location, number, rest, self.moment))


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Fits and splits are numbered together, in their order."""
    learners = Learners()
    session.objects.add("learned", lambda _: learners.learned)
    session.objects.add("splits", lambda _: learners.splits)
    hooks.add("sklearn.base", functools.partial(_watch_fits, learners))
    hooks.add("sklearn.model_selection._split", functools.partial(_watch_splits, learners))


def _watch_fits(learners: Learners, module: Any) -> None:
    """What decorates every `fit` (scikit-learn 1.3 and later) checks the parameters first, in the frame of its call."""
    check = module.BaseEstimator._validate_params

    @functools.wraps(check)
    def validate_params(self: Any) -> Any:
        frame = callers_frame(above=1)
        given: dict[str, Any] = frame.f_locals if frame is not None else {}
        named: dict[str, Any] = given.get("kwargs") or {}
        rows = next(iter(given.get("args") or ()), named.get("X", named.get("raw_documents")))
        if rows is not None:
            learners.learns(self, rows)
        return check(self)

    module.BaseEstimator._validate_params = validate_params


def _watch_splits(learners: Learners, module: Any) -> None:
    split = module.train_test_split

    @functools.wraps(split)
    def train_test_split(*arrays: Any, **kwargs: Any) -> Any:
        parts = split(*arrays, **kwargs)
        learners.divides(arrays[0], parts[0])
        return parts

    module.train_test_split = train_test_split


def _rows(value: Any) -> int | None:
    shape = getattr(value, "shape", None)
    return int(shape[0]) if shape else number_of_rows(value)
