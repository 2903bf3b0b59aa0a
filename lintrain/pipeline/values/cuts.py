"""Parts of data sets whose rows are consecutive."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """Which rows a data set keeps of its source, if they are consecutive: from `first` up to `stop`.

    Counted in rows, or in percent; `first` is None if it is not known which, `stop` where they go to the end. `of`
    counts the rows of the source. `is_default` if the user may ask for others.
    """

    first: int | None = None
    stop: int | None = None
    of: int | None = None
    is_percent: bool = False
    is_default: bool = False

    @property
    def rows(self) -> int | None:
        """How many rows it keeps, None if that is not certain; a source that is shorter has fewer."""
        if self.is_percent or self.is_default or self.first is None or self.stop is None:
            return None
        return max(0, self.stop - self.first)

    def share(self) -> tuple[float, float] | None:
        """Where it begins and ends in its source, as shares of its rows; None if one of them is not known."""
        if self.first is None or not self.of:
            return None
        return self.first / self.of, min(1.0, (self.of if self.stop is None else self.stop) / self.of)

    def overlaps(self, other: Cut) -> bool | None:
        """Whether two cuts of one source share rows; None if that is not known."""
        if self.first is None or other.first is None or self.is_percent is not other.is_percent:
            return None
        if self.is_default or other.is_default:
            return None
        starts_before_end = other.stop is None or self.first < other.stop
        return starts_before_end and (self.stop is None or other.first < self.stop)
