"""What is done about a sign in a whole run: a warning once per kind, an error, or a request to stop."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, TextIO, get_args

from lintrain.api.probing import is_one_of_several
from lintrain.api.report import MistakesError
from lintrain.callbacks.signs import KINDS
from lintrain.doctor.judgement import Judgement
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.runtime.child.library import library, loaded
from lintrain.startup.lazy_dataclass import dataclass

OnMistake = Literal["raise", "stop", "warn"]


class MistakeWarning(UserWarning):
    """A watched run makes a mistake, and was not asked to raise an error; the text is the report."""


def check_on_mistake(on_mistake: OnMistake) -> None:
    """Raise ValueError for anything but the three."""
    if on_mistake not in get_args(OnMistake):
        raise ValueError(f"on_mistake is 'raise', 'stop' or 'warn', not {on_mistake!r}")


def without_signs(names: Sequence[str]) -> tuple[str, ...]:
    """The names that are not of signs, so those of rules and stages."""
    return tuple(name for name in names if name not in KINDS)


@dataclass(frozen=True, slots=True)
class Sign:
    """What a whole run showed at a step.

    `rule` is the name of its kind, `page` that of the rule to read, `location` the line whose losses show it, `batch`
    the file of the batch that was kept.
    """

    rule: str
    level: Level
    message: str
    why: str
    help: str
    page: str
    step: int
    location: Location | None = None
    batch: str = ""

    def text(self) -> str:
        """Some lines for a terminal or a log."""
        where = f"{self.location.path}:{self.location.line}: " if self.location else ""
        lines = [f"{where}{self.level}[{self.rule}] {self.message}", f"  = why: {self.why}", f"  = help: {self.help}"]
        if self.batch:
            script = self.location.path if self.location else "train.py"
            lines.append(f"  = batch: {self.batch}; `lintrain probe {script} --batch {self.batch}`")
        if self.page:
            lines.append(f"  = page: `lintrain explain {self.page}`")
        return "\n".join(lines)


class RunReport:
    """The signs of a whole run so far, in the form of a `lintrain.Report`."""

    def __init__(self, signs: Sequence[Sign]) -> None:
        self.findings = tuple(signs)

    @property
    def ok(self) -> bool:
        """Whether there is nothing but notes."""
        return all(sign.level is Level.NOTE for sign in self.findings)

    @property
    def exit_code(self) -> int:
        """As that of a Report: 0 or 1."""
        return 0 if self.ok else 1

    @property
    def reason(self) -> str:
        """The last sign in one line."""
        return self.findings[-1].message if self.findings else "nothing stands out"

    def text(self, stream: TextIO | None = None) -> str:
        """All signs."""
        return "\n".join(sign.text() for sign in self.findings)


class Reporting:
    """Reports every kind once, as the run was asked to; `should_stop` is set from then on if it is to end.

    `known` are kinds that were reported in another way; while `is_held`, nothing is reported. Of processes that train
    together, the one that saw a sign first warns of it.
    """

    _made = 0

    def __init__(self, on_mistake: OnMistake, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> None:
        check_on_mistake(on_mistake)
        self.on_mistake = on_mistake
        self._select, self._ignore = frozenset(select) & KINDS, frozenset(ignore)
        self.signs: list[Sign] = []
        self.known: set[str] = set()
        self.should_stop = self.is_held = False
        Reporting._made += 1
        self._number = Reporting._made

    def is_wanted(self, judgement: Judgement) -> bool:
        """Whether a sign is new and asked for; a rank other than the first reports errors alone."""
        is_new = judgement.name not in self.known and not self.is_held
        is_asked = judgement.name not in self._ignore and (not self._select or judgement.name in self._select)
        return is_new and is_asked and (judgement.level is Level.ERROR or rank() in (None, 0))

    def report(self, sign: Sign) -> None:
        """Warn of a sign; raise MistakesError for an error if the run is to end with it."""
        self.signs.append(sign)
        self.known.add(sign.rule)
        if sign.level is Level.ERROR and self.on_mistake != "warn":
            if self.on_mistake == "raise" or is_one_of_several():
                raise MistakesError(RunReport(self.signs))
            self.should_stop = True
        self.warn(sign.rule, sign.text(), sign.step)

    def warn(self, kind: str, text: str, step: int) -> None:
        """Warn with the number of this process, unless another one has warned of the same kind at this step or before.

        Each of them would do so: what is wrong in one is wrong in all after their gradients were averaged. One whose
        loss is not finite at the same step is named in a line.
        """
        number = rank()
        if number is None:
            warnings.warn(text, MistakeWarning, stacklevel=3)
            return
        first, at = _first_to_warn(f"lintrain/{self._number}/{kind}", number, step)
        if first == number or step < at:
            warnings.warn(f"rank {number}: {text}", MistakeWarning, stacklevel=3)
        elif step == at and kind == "non-finite":
            warnings.warn(f"rank {number}: {kind} at step {step}, as in rank {first}", MistakeWarning, stacklevel=3)


def _first_to_warn(key: str, number: int, step: int) -> tuple[int, int]:
    """The process that was the first to warn and its step, by the store that the group was set up with; none waits."""
    try:
        store = library("torch.distributed.distributed_c10d")._get_default_store()
        first, at = bytes(store.compare_set(key, "", f"{number} {step}")).split()
    except (
        AttributeError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ):  # the process that holds the store has ended
        return number, step
    return int(first), int(at)


def rank() -> int | None:
    """The number of this process among those that train together; None if it is alone."""
    distributed = loaded("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_rank()) if distributed.get_world_size() > 1 else None
