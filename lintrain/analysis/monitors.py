"""The names that callbacks monitor, and what a run computed of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.pipeline.values import python
from lintrain.pipeline.values.model import Network
from lintrain.pipeline.values.training import KerasRun
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.evidence.run import Evidence
    from lintrain.pipeline.record import Pipeline

STOPPING = "transformers.EarlyStoppingCallback"

OF_LIGHTNING = frozenset({"lightning.EarlyStopping", "lightning.ModelCheckpoint"})

ALWAYS_LOGGED = frozenset({"epoch", "step"})

UNGIVEN = python.Absent()

NOT_LOGGED = {
    "stopping": lazy_pattern(r"Early stopping conditioned on metric `(.+?)`"),
    "keeping": lazy_pattern(r"ModelCheckpoint\(monitor='(.+?)'\)` could not find"),
}
"""The error of Lightning about a name that nothing logs, by the callback that monitors it."""

ACCURACY = {"acc": "accuracy", "accuracy": "acc"}
"""The two names of the accuracy, each with the other one."""

KEEPS_NAMES = (2, 3)
"""The version of Keras since which the accuracy has the name that it was given."""

OTHER_FITS = lazy_pattern(
    r"\.fit(?:_generator)?\((?:.|\n)*\.fit(?:_generator)?\(|\bpickle\.load|json\.load|read_csv\([^)]*hist"
)
"""A second training, or a history that is read from a file."""


def judged_with_lightning(monitored: str, evidence: Evidence) -> Verdict:
    """Compares the name with those that a short run logged, and with Lightning's own error about a missing name."""
    logged = [name for name in str(evidence.arguments.get("logged") or "").split(", ") if name]
    if monitored in logged:
        return Verdict.refuted(f"`{monitored}` is one of the {len(logged)} names that were logged")
    stage = evidence.stage("evaluation")
    if stage is not None and stage.failure is not None and monitored in stage.failure.message:
        return Verdict.confirmed(f"{stage.failure.type}: {stage.failure.message}", stage=stage.name)
    return Verdict.inconclusive(
        f"`{monitored}` was not logged in the batches that ran: {evidence.not_reached('evaluation')}"
    )


def judged_with_keras(monitored: str, evidence: Evidence) -> Verdict:
    """Compares the name with those that an epoch computes: a training step and, with validation data, an evaluation."""
    names = evidence.watched_names
    if names is None:
        return Verdict.inconclusive(evidence.not_reached("evaluation"))
    if monitored in names.computed:
        return Verdict.refuted(f"`{monitored}` is one of the {len(names.computed)} names that an epoch computes")
    if monitored in names.missing:
        computed = ", ".join(f"`{name}`" for name in names.computed)
        return Verdict.confirmed(f"an epoch computes {len(names.computed)} names: {computed}", stage="step")
    return Verdict.inconclusive(
        f"`{monitored}` is not one of the {len(names.watched)} monitored names, or a callback of the script mentions it"
    )


def stopping(callbacks: python.Value) -> Location | None:
    """Where a Trainer's early stopping is created."""
    found = [each for each in items(callbacks) if isinstance(each, python.LibraryObject) and each.path == STOPPING]
    return found[0].origin if found else None


def items(value: python.Value) -> list[python.Value]:
    """The callbacks of a list, and of lists in it, or the only one."""
    if not isinstance(value, python.Sequence):
        return [value]
    return [part for each in value.items for part in (each.items if isinstance(each, python.Sequence) else [each])]


def monitored(callback: python.LibraryObject) -> str | None:
    """The name that a callback monitors, by default `val_loss`; a checkpoint that is always saved monitors nothing."""
    if callback.path.endswith("ModelCheckpoint") and not python.is_true(
        callback.arguments.get("save_best_only", UNGIVEN)
    ):
        return None
    position = "1" if callback.path.endswith("ModelCheckpoint") else "0"
    given = callback.arguments.get("monitor", callback.arguments.get(position, UNGIVEN))
    if python.is_missing(given):
        return "val_loss"
    name = python.literal(given)
    return name if isinstance(name, str) else None


def computed_by_keras(pipeline: Pipeline, run: KerasRun) -> frozenset[str] | None:
    """The names that an epoch of a network computes, without `val_`; None if they are not known.

    They are those that `compile` was given, by function or by name; a metric that is an object has the name of its
    class in small letters. Of several outputs, those of each output begin with its name.
    """
    if not run.is_complete or pipeline.source.contains(COMPUTES_OTHERS):
        return None
    loss, metrics = run.value("loss"), run.value("metrics")
    found = {"loss", "lr", "learning_rate"}
    if isinstance(loss, python.Mapping):
        given = metrics if isinstance(metrics, python.Mapping) else python.Mapping({})
        if not loss.is_complete or not given.is_complete or not (python.is_missing(metrics) or given.entries):
            return None
        parts = {str(name): given.entries.get(name, UNGIVEN) for name in loss.entries}
    elif isinstance(metrics, python.Mapping) or not isinstance(run.model, Network | python.Instance):
        return None
    elif isinstance(loss, python.Sequence) or not _has_one_output(run) or pipeline.source.contains(SEVERAL_OUTPUTS):
        parts = {"": metrics} if isinstance(run.model, Network) else {}
        found.add(OF_ANY_OUTPUT)
    else:
        parts = {"": metrics}
    if not parts:
        return None
    for output, values in parts.items():
        names = _names_of_metrics(values)
        if names is None:
            return None
        found |= names | ({f"{output}_{name}" for name in names | {"loss"}} if output else set())
    return frozenset(found)


OF_ANY_OUTPUT = "*"
"""Among computed names: an output of a name that is not known may be before each of the others."""


def _has_one_output(run: KerasRun) -> bool:
    """Whether the metrics of a network have their plain names."""
    model = run.model
    if isinstance(model, python.Instance):
        return all(model.cls.lookup(name) is None for name in OWN_STEPS)
    return isinstance(model, Network) and (
        model.path.endswith("Sequential") or not isinstance(run.output, python.Unknown)
    )


def _names_of_metrics(metrics: python.Value) -> set[str] | None:
    """The names of what `compile` got as metrics; None if one of them is not known."""
    found = set[str]()
    given = metrics.items if isinstance(metrics, python.Sequence) and metrics.is_complete else [metrics]
    for each in [] if python.is_missing(metrics) else given:
        name = python.literal(each.arguments.get("name", UNGIVEN) if isinstance(each, python.LibraryObject) else each)
        if isinstance(each, python.Function) and not each.is_wrapped and each.name.isidentifier():
            found.add(each.name)
        elif isinstance(name, str):
            found.add(name)
        elif isinstance(each, python.LibraryObject) and "name" not in each.arguments and each.path.startswith("keras."):
            found.add(each.path.rpartition(".")[2].lower())
        else:
            return None
    return found


OWN_STEPS = ("compile", "compute_metrics", "fit", "metrics", "test_step", "train_step")
"""Methods by which a class of the script decides what an epoch computes."""

COMPUTES_OTHERS = lazy_pattern(r"train_step|test_step|add_metric|weighted_metrics|logs\[")
"""Code after which an epoch may compute more than `compile` names."""

SEVERAL_OUTPUTS = lazy_pattern(r"outputs\s*=\s*\[|Model\([^()]*,\s*\[")
"""Code after which names of what an epoch computes may begin with that of an output."""

OTHER_NAMES = {
    "mse": "mean_squared_error",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "acc": "accuracy",
    "cosine_proximity": "cosine_similarity",
}
"""Short names of metrics, whose long names earlier releases of Keras used in an epoch."""


def adds_no_name(callback: python.LibraryObject) -> bool:
    """Whether a callback is one of Keras that runs no code of the script, which could add to what an epoch computes."""
    return callback.path.startswith("keras.callbacks.") and not callback.path.endswith("LambdaCallback")


def may_be_computed(name: str, computed: frozenset[str], run: KerasRun) -> bool:
    """Whether a monitored name may be one of the computed ones: the second object of a class is `auc_1`.

    A metric that gets a `name` has this one alone: `BinaryAccuracy(name="acc")` computes no `accuracy`.
    """
    wanted = name.removeprefix("val_")
    if OF_ANY_OUTPUT in computed and any(wanted.endswith(f"_{name}") for name in computed):
        return True
    as_it_is = _names_of_objects(run)
    known = {_plain(each) for each in computed - as_it_is}
    return bool({wanted, NUMBERED.sub("", wanted)} & as_it_is) or bool(
        {_plain(wanted), _plain(NUMBERED.sub("", wanted))} & known
    )


def _names_of_objects(run: KerasRun) -> frozenset[str]:
    """The names that metrics of a run get as an argument."""
    metrics = run.value("metrics")
    given = metrics.items if isinstance(metrics, python.Sequence) else [metrics]
    objects = [each for each in given if isinstance(each, python.LibraryObject)]
    named = (python.literal(each.arguments.get("name", UNGIVEN)) for each in objects)
    return frozenset(name for name in named if isinstance(name, str))


def _plain(name: str) -> str:
    """A name of a metric without what classes and releases write in other ways: `SparseCategoricalAccuracy`."""
    return OTHER_NAMES.get(name, name).replace("_", "").lower()


NUMBERED = lazy_pattern(r"_\d+$")


def is_followed(callback: python.Value) -> bool:
    """Whether a callback of Lightning is defined in the script or is one of the library's own."""
    return isinstance(callback, python.Instance) or (
        isinstance(callback, python.LibraryObject) and "lightning" in callback.path
    )


def monitored_by_lightning(callback: python.Value) -> str | None:
    """The name that a callback of Lightning monitors and requires."""
    if (
        not isinstance(callback, python.LibraryObject)
        or callback.path not in OF_LIGHTNING
        or "**" in callback.arguments
    ):
        return None
    given = callback.arguments.get("monitor", UNGIVEN)
    is_first = callback.path.endswith("EarlyStopping") and isinstance(given, python.Absent)
    name = python.literal(callback.arguments.get("0", UNGIVEN) if is_first else given)
    is_strict = "strict" not in callback.arguments
    return name if isinstance(name, str) and is_strict and name not in ALWAYS_LOGGED else None
