"""When a run evaluates and saves, as its training arguments say it for certain."""

from __future__ import annotations

from lintrain.model.finding import Related
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Absent, Constant, Library, Value, is_missing, is_true, literal
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.startup.lazy_dataclass import dataclass

EVALUATION_NAMES = ("eval_strategy", "evaluation_strategy")
"""The argument that says when to evaluate: its name since transformers 4.41, and the one before."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """`no`, `steps`, `epoch` or `best`, by the argument that says it; `place` is None where the default holds."""

    name: str
    value: str
    location: Location | None

    def reason(self, note: str) -> tuple[Related, ...]:
        """The place where the script says so."""
        return (Related(self.location, note, "origin"),) if self.location else ()


def evaluation_strategy(settings: TrainingArguments) -> Strategy | None:
    """When a run evaluates by itself; None where that is not certain."""
    for name in EVALUATION_NAMES:
        if not isinstance(settings.value(name), Absent):
            return _strategy(settings, name, "no")
    return Strategy("eval_strategy", "no", None)


def saving_strategy(settings: TrainingArguments) -> Strategy | None:
    """When a run saves checkpoints by itself; None where that is not certain."""
    return _strategy(settings, "save_strategy", "steps")


def _strategy(settings: TrainingArguments, name: str, default: str) -> Strategy | None:
    value = settings.value(name)
    if isinstance(value, Absent):
        return Strategy(name, default, None)
    text = _text_of(value)
    return Strategy(name, text, settings.locations.get(name)) if text else None


def _text_of(value: Value) -> str | None:
    """A strategy by its text or by its name in the library's enumeration."""
    match value:
        case Constant(value=str(text), is_default=False):
            return text.lower()
        case Library(path=path) if "Strategy." in path:
            return path.rpartition(".")[2].lower()
        case _:
            return None


def keeps_the_best(settings: TrainingArguments) -> bool:
    """Whether the best checkpoint is certainly told from the others: it is loaded at the end, or alone is saved."""
    saving = saving_strategy(settings)
    return is_true(settings.value("load_best_model_at_end")) or (saving is not None and saving.value == "best")


def best_metric(settings: TrainingArguments) -> str | None:
    """The metric that certainly tells the best checkpoint, without the `eval_` that the Trainer puts before it."""
    name = literal(settings.value("metric_for_best_model"))
    return name.removeprefix("eval_") if isinstance(name, str) else None


def is_evaluated(pipeline: Pipeline, run: TrainerRun) -> bool:
    """Whether the script certainly evaluates a run: by a call, or by the strategy of one that it trains."""
    if any(event.subject is run for event in pipeline.acts(Act.EVALUATE)):
        return True
    strategy = evaluation_strategy(run.settings) if run.settings else None
    return strategy is not None and strategy.value != "no"


def is_given_in_call(settings: TrainingArguments, name: str) -> bool:
    """Whether an argument stands in the call that made them, so that the library's own checks have seen it."""
    location = settings.locations.get(name)
    return location is not None and settings.origin is not None and settings.origin.holds(location)


def is_left_out(settings: TrainingArguments, name: str) -> bool:
    """Whether an argument is certainly not set."""
    return is_missing(settings.value(name))
