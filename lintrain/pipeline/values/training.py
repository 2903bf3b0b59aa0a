"""What trains: arguments, Trainers, Keras and Lightning runs, losses and metrics, as the script makes them."""

from __future__ import annotations

from dataclasses import field

from lintrain.model.location import Location
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import CollatedRows, Dataset
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import ABSENT, UNKNOWN, Instance, LibraryObject, Value, literal, options_of
from lintrain.pipeline.values.tensors import Shape
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class TrainingArguments(Value):
    """A Trainer's arguments object: what the script set, in the call or as an attribute later, by name."""

    path: str
    values: dict[str, Value] = field(default_factory=lambda: {})
    locations: dict[str, Location] = field(default_factory=lambda: {})
    is_complete: bool = True
    text: str = ""

    def value(self, name: str) -> Value:
        """What an argument was set to: Absent if it was not, Unknown if it may have been."""
        return self.values.get(name, ABSENT if self.is_complete else UNKNOWN)

    def usual(self, name: str) -> Value:
        """Like `value`, for what hardly any command line or file sets: Absent if the script does not set it."""
        return self.values.get(name, ABSENT)


@dataclass(eq=False, slots=True)
class Metric(Value):
    """A metric of `evaluate`, or a metric function of scikit-learn, by its name (None if it is not literal).

    `takes_classes` if its predictions must be classes; False if it expects scores or texts, None if that is not known.
    """

    library: str
    name: str | None = None
    config: str | None = None
    text: str = ""
    takes_classes: bool | None = None
    parts: tuple[Metric, ...] = ()
    """The metrics that `evaluate.combine` put together; empty for a single one, or where they are not known."""

    def every(self) -> tuple[Metric, ...]:
        """The metric, or those that it combines."""
        return self.parts or (self,)


@dataclass(frozen=True, slots=True)
class MetricCall:
    """One use of a metric: what it was given as predictions and references, and their code.

    `average` is how several classes are made one number; `is_written` if the script has the call itself.
    """

    metric: Metric
    location: Location
    predictions: Argument | None
    references: Argument | None
    average: Value = ABSENT
    is_written: bool = True


@dataclass(frozen=True, slots=True)
class LossCall:
    """One use of a loss of torch, by the name that its function has (`cross_entropy`), with what it was given.

    `options` are its settings, given to the function or to the module (`ignore_index`, `reduction`).
    """

    name: str
    location: Location
    prediction: Argument | None
    target: Argument | None
    options: dict[str, Value]
    text: str = ""
    without_grad: bool = False
    is_alternative: bool = False
    """Whether another loss may be called here instead: `criterion` is one of several."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a library's model: what it was given by name, positional arguments under their numbers.

    `output` is what the call gave.
    """

    model: Model
    location: Location
    arguments: dict[str, Argument]
    output: Value
    without_grad: bool = False


@dataclass(eq=False, slots=True)
class Predictions(Value):
    """What a Trainer's evaluation gives: the EvalPrediction that `compute_metrics` gets, the result of `predict`.

    `is_tuple` if `predictions` is a tuple: hidden states or encoder states come with the logits.
    `is_result` if it is certainly what the library's own `predict` gives, which has the metrics as a third part.
    """

    model: Value = UNKNOWN
    is_tuple: bool = False
    predictions: Value = UNKNOWN
    labels: Value = UNKNOWN
    is_result: bool = False


@dataclass(eq=False, slots=True)
class TrainerRun(Value):
    """A Trainer (of transformers or a subclass of it) as the script makes it.

    `arguments` are those of the call by their parameter names; `is_complete` if no others can have been given
    (no `**kwargs`, no subclass with a constructor of its own that was not understood). `attributes` were set later.
    `overrides` names the methods of Trainer that the script's subclass has itself; `instance` is its object.
    `metrics` is what its metric function returns, Absent if it has none, Unknown if that was not understood.
    `collator_needs` are the columns that a collator of the script's own certainly reads, and where; `collated` is the
    batch that it gives.
    """

    path: str
    name: str
    construction: Location
    arguments: dict[str, Argument] = field(default_factory=lambda: {})
    is_complete: bool = True
    overrides: frozenset[str] = frozenset()
    attributes: dict[str, Value] = field(default_factory=lambda: {})
    train_calls: list[Location] = field(default_factory=lambda: [])
    text: str = ""
    instance: Instance | None = None
    metrics: Value = ABSENT
    collator_needs: dict[str, Location] = field(default_factory=lambda: {})
    collated: Value = UNKNOWN

    def value(self, name: str) -> Value:
        """The value of an argument: set later, given in the call, Absent, or Unknown if that is not known."""
        if name in self.attributes:
            return self.attributes[name]
        if name in self.arguments:
            return self.arguments[name].value
        return ABSENT if self.is_complete else UNKNOWN

    @property
    def passed_on(self) -> CollatedRows | None:
        """What its collator returns, if that is code of the script that only passes rows on to a library's collator."""
        collated = self.collated
        return collated if isinstance(collated, CollatedRows) and not collated.is_changed else None

    @property
    def collator(self) -> Value:
        """What makes its batches: the collator that a function of the script calls, else what it was given."""
        return self.passed_on.collator if self.passed_on and self.passed_on.collator else self.value("data_collator")

    @property
    def collated_rows(self) -> Value:
        """What its collator gets rows of: its training data, or the rows that a function of the script makes of it."""
        return self.passed_on or self.value("train_dataset")

    @property
    def is_plain(self) -> bool:
        """Whether it is the Trainer or Seq2SeqTrainer of transformers, or a subclass: TRL's prepare data themselves."""
        return self.path in {"transformers.Trainer", "transformers.Seq2SeqTrainer"}

    @property
    def model(self) -> Model | None:
        """The model that it trains, where that is understood; the first of several that are of one checkpoint."""
        model, *others = options_of(self.value("model"))
        # A `try` that loads a model and falls back on local files loads the same one.
        is_known = isinstance(model, Model) and all(_is_alike(model, other) for other in others)
        return model if isinstance(model, Model) and is_known else None

    @property
    def settings(self) -> TrainingArguments | None:
        """Its training arguments, where they are understood."""
        settings = self.value("args")
        return settings if isinstance(settings, TrainingArguments) else None

    def dataset(self, argument: str) -> Dataset | None:
        """The data set that it was given by an argument, where that is understood."""
        dataset = self.value(argument)
        return dataset if isinstance(dataset, Dataset) and not dataset.is_withheld else None


LOADING = frozenset({"local_files_only", "cache_dir", "force_download", "token", "use_auth_token", "device_map"})
"""Arguments of `from_pretrained` that decide where from a checkpoint is loaded and where to, not what the model is."""


def _is_alike(one: Model, other: Value) -> bool:
    """Whether two models are certainly loaded from one checkpoint, by the same class and with the same arguments."""
    if not isinstance(other, Model) or (one.path, one.how, one.config) != (other.path, other.how, other.config):
        return False
    names = {*one.arguments, *other.arguments} - LOADING
    pairs = [(one.arguments.get(name, ABSENT), other.arguments.get(name, ABSENT)) for name in names]
    given = [(one.checkpoint, other.checkpoint), *pairs]
    return all(
        first is second or (literal(first) is not None and literal(first) == literal(second)) for first, second in given
    )


@dataclass(eq=False, slots=True)
class KerasRun(Value):
    """A Keras `compile` with the `fit` calls that follow it; arguments by name."""

    model: Value = UNKNOWN
    compiled: Location | None = None
    compile_arguments: dict[str, Argument] = field(default_factory=lambda: {})
    fits: list[tuple[Location, dict[str, Argument]]] = field(default_factory=lambda: [])
    is_complete: bool = True
    """Whether `compile_arguments` are all that `compile` was given."""
    output: Value = UNKNOWN
    """The layer that gives what the loss gets, where that is known."""
    is_optimizer_touched: bool = False
    """Whether the script reached for the model's optimizer, and may have set its learning rate."""
    evaluations: list[Argument] = field(default_factory=list[Argument])
    """What the model was evaluated on."""
    evaluation_labels: list[Argument] = field(default_factory=list[Argument])
    """The labels of these evaluations."""
    predictions: list[Argument] = field(default_factory=list[Argument])
    """What the model was asked to predict for."""
    takes_single_steps: bool = False
    """Whether the script trains the model batch by batch, with `train_on_batch`."""
    frozen: Location | None = None
    """Where the whole model was frozen, if it was when it was compiled."""

    def value(self, name: str) -> Value:
        """An argument of `compile`: Absent if it was not given, Unknown if it may have been."""
        if name in self.compile_arguments:
            return self.compile_arguments[name].value
        return ABSENT if self.is_complete and self.compiled else UNKNOWN


@dataclass(eq=False, slots=True)
class KerasLabels(Value):
    """Labels of classes: `is_one_hot` if each is a row of zeros with a one, else each is the number of its class."""

    is_one_hot: bool = False
    classes: int | None = None
    shape: Shape = field(default_factory=Shape)
    """The shape of all of them, as far as it is known."""


@dataclass(eq=False, slots=True)
class Pixels(Value):
    """Images as numbers, from 0 to 255 unless they were scaled; `side` is their height and width, where it is known."""

    is_scaled: bool = False
    side: int | None = None


@dataclass(eq=False, slots=True)
class LabelledBatches(Value):
    """Batches of inputs with such labels, as the loaders of folders give them; `pixels` if these are images."""

    is_one_hot: bool = False
    classes: int | None = None
    pixels: Pixels | None = None


@dataclass(eq=False, slots=True)
class LightningTrainer(LibraryObject):
    """A Trainer of Lightning."""


@dataclass(frozen=True, slots=True)
class LightningFit:
    """One call of a Trainer's `fit`: the module that it trains."""

    location: Location
    module: Value
    loader: Value = UNKNOWN
    """What its `training_step` gets batches of."""
    held_out: Value = UNKNOWN
    """What its `validation_step` gets batches of."""
    trainer: Value = UNKNOWN
    may_be_given_optimizer: bool = False
    """Whether its optimizer may be set from outside, as by `--optimizer` of Lightning's command line."""


@dataclass(frozen=True, slots=True)
class LoggedNames:
    """One reading of a `self.log(…)` in a Lightning module: the names that it logs by, None if one is not known."""

    location: Location
    names: tuple[str, ...] | None
