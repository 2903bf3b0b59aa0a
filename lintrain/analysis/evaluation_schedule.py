"""When a run certainly evaluates and saves, according to its training arguments."""

from __future__ import annotations

from lintrain.model.finding import Related
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Absent, Constant, Library, Value, is_missing, is_true, literal
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.startup.lazy_dataclass import dataclass

EVALUATION_NAMES = ("eval_strategy", "evaluation_strategy")
"""The argument that sets when to evaluate: its name since transformers 4.41, and its former name."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """`no`, `steps`, `epoch` or `best`, with the argument that sets it; `location` is None for the default."""

    name: str
    value: str
    location: Location | None

    def reason(self, note: str) -> tuple[Related, ...]:
        """The location that sets it, with a note."""
        return (Related(self.location, note, "origin"),) if self.location else ()


def evaluation_strategy(settings: TrainingArguments) -> Strategy | None:
    """When a run evaluates during training; None if that is not certain."""
    for name in EVALUATION_NAMES:
        if not isinstance(settings.value(name), Absent):
            return _strategy(settings, name, "no")
    return Strategy("eval_strategy", "no", None)


def saving_strategy(settings: TrainingArguments) -> Strategy | None:
    """When a run saves checkpoints; None if that is not certain."""
    return _strategy(settings, "save_strategy", "steps")


def _strategy(settings: TrainingArguments, name: str, default: str) -> Strategy | None:
    value = settings.value(name)
    if isinstance(value, Absent):
        return Strategy(name, default, None)
    text = _text_of(value)
    return Strategy(name, text, settings.locations.get(name)) if text else None


def _text_of(value: Value) -> str | None:
    """A strategy given as text or as a member of the library's enum."""
    match value:
        case Constant(value=str(text), may_differ=False):
            return text.lower()
        case Library(path=path) if "Strategy." in path:
            return path.rpartition(".")[2].lower()
        case _:
            return None


def keeps_the_best(settings: TrainingArguments) -> bool:
    """Whether the best checkpoint is certainly selected: it is loaded at the end, or only the best is saved."""
    saving = saving_strategy(settings)
    return is_true(settings.value("load_best_model_at_end")) or (saving is not None and saving.value == "best")


def best_metric(settings: TrainingArguments) -> str | None:
    """The metric that certainly selects the best checkpoint, without the Trainer's prefix `eval_`."""
    name = literal(settings.value("metric_for_best_model"))
    return name.removeprefix("eval_") if isinstance(name, str) else None


def is_evaluated(pipeline: Pipeline, run: TrainerRun) -> bool:
    """Whether the script certainly evaluates a run: by a call, or by its evaluation strategy."""
    if any(event.subject is run for event in pipeline.acts(Act.EVALUATE)):
        return True
    strategy = evaluation_strategy(run.settings) if run.settings else None
    return strategy is not None and strategy.value != "no"


def is_given_in_call(settings: TrainingArguments, name: str) -> bool:
    """Whether an argument is in the call that creates them, which the library's own checks cover."""
    location = settings.locations.get(name)
    return location is not None and settings.origin is not None and settings.origin.holds(location)


def is_left_out(settings: TrainingArguments, name: str) -> bool:
    """Whether an argument is certainly not set."""
    return is_missing(settings.value(name))
