"""Models, what they return, and what trains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum

from lintrain.model.location import Location
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.python import ABSENT, UNKNOWN, Either, LibraryObject, Mapping, Unknown, Value
from lintrain.pipeline.values.python import Sequence as Items
from lintrain.pipeline.values.tensors import Operation, Shape
from lintrain.startup.lazy_dataclass import dataclass


class Task(StrEnum):
    """What a model's head is for."""

    SEQUENCE_CLASSIFICATION = "sequence classification"
    TOKEN_CLASSIFICATION = "token classification"
    IMAGE_CLASSIFICATION = "image classification"
    AUDIO_CLASSIFICATION = "audio classification"
    QUESTION_ANSWERING = "question answering"
    MULTIPLE_CHOICE = "multiple choice"
    CAUSAL_LM = "causal language model"
    MASKED_LM = "masked language model"
    SEQ2SEQ_LM = "sequence-to-sequence language model"
    NO_HEAD = "no head"
    UNKNOWN = "unknown"


@dataclass(eq=False, slots=True)
class Config(Value):
    """A model's configuration object: the checkpoint that it was read from, what its call gave and what was set since.

    `num_labels` is the head size that the script asks for with it, Absent if it names none.
    """

    path: str
    checkpoint: Value = UNKNOWN
    arguments: dict[str, Value] = field(default_factory=lambda: {})
    attributes: dict[str, Value] = field(default_factory=lambda: {})
    num_labels: Value = ABSENT
    is_complete: bool = True


@dataclass(eq=False, slots=True)
class Model(Value):
    """A model of a library: `path` is its class, `how` the method that made it (`from_pretrained`, `from_config`, "").

    `num_labels` is the size of its head as the script gives it (a number, the length of a list), Absent if it does
    not. `is_adapted` with PEFT; `frozen` lists where parameters are frozen; `attributes` what was set on it.
    """

    path: str
    framework: str = "torch"
    how: str = ""
    task: Task = Task.UNKNOWN
    checkpoint: Value = UNKNOWN
    arguments: dict[str, Value] = field(default_factory=lambda: {})
    argument_locations: dict[str, Location] = field(default_factory=lambda: {})
    num_labels: Value = ABSENT
    config: Config | None = None
    is_complete: bool = True
    """Whether `arguments` are all that its call was given."""
    labels_by_default: int | None = None
    """The outputs of its head where the script sizes it nowhere; None if its checkpoint is not known."""
    is_adapted: bool = False
    frozen: list[Location] = field(default_factory=lambda: [])
    attributes: dict[str, Value] = field(default_factory=lambda: {})
    layers: list[Value] = field(default_factory=lambda: [])
    text: str = ""

    @property
    def is_pretrained(self) -> bool:
        """Whether its weights come from a checkpoint."""
        return self.how == "from_pretrained"

    @property
    def name(self) -> str:
        """The last part of the class's path."""
        return self.path.rpartition(".")[2]

    @property
    def problem_type(self) -> Value:
        """What its labels are, from its call or its configuration; Absent if the script does not set it."""
        if "problem_type" in self.arguments or self.config is None:
            return self.arguments.get("problem_type", ABSENT)
        return self.config.attributes.get("problem_type", self.config.arguments.get("problem_type", ABSENT))


@dataclass(eq=False, slots=True)
class Encoder(LibraryObject):
    """A model of Sentence Transformers: a SentenceTransformer makes vectors of texts, a CrossEncoder scores pairs."""

    @property
    def scores_pairs(self) -> bool:
        """Whether it is a CrossEncoder."""
        return self.path.endswith("CrossEncoder")


@dataclass(eq=False, slots=True)
class ModelPart(Value):
    """Something inside a model by its dotted name (`base_model`, `bert.encoder`)."""

    model: Value
    name: str


@dataclass(eq=False, slots=True)
class Parameters(Value):
    """The parameters of modules, as `model.parameters()` gives them; `is_named` if their names come with them.

    `is_part` if they are not all that the modules have; `part` is then the name of the part, where it has one.
    """

    of: tuple[Value, ...] = ()
    is_named: bool = False
    is_part: bool = False
    part: str = ""


@dataclass(eq=False, slots=True)
class Parameter(Value):
    """One parameter of a module, or of its part of that name, as a loop over all of them sees it."""

    of: tuple[Value, ...] = ()
    part: str = ""


@dataclass(eq=False, slots=True)
class Module(Value):
    """A module of torch's or torchvision's own classes: `parts` are the modules and values that it was made of."""

    path: str
    parts: list[Value] = field(default_factory=lambda: [])
    arguments: dict[str, Value] = field(default_factory=lambda: {})
    attributes: dict[str, Value] = field(default_factory=lambda: {})

    @property
    def name(self) -> str:
        """The last part of the class's path."""
        return self.path.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class Layer(Value):
    """A layer of Keras: `inputs` are what it was called on, for one call of the functional way to write networks."""

    path: str
    arguments: dict[str, Value] = field(default_factory=lambda: {})
    inputs: tuple[Value, ...] = ()
    is_trainable: bool = True
    made: Location | None = None
    """The call that makes the layer; its origin is the call of the layer, where there is one."""

    @property
    def name(self) -> str:
        """The last part of the class's path."""
        return self.path.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class Network(Value):
    """A Keras network: the layers of a Sequential in order, or the output of a functional one as its only layer.

    `is_complete` if no other layers can be in it; `reading` is the one that added the last. The layers from the index
    `settled` on certainly follow each other at its end, whatever is before them.
    """

    path: str
    layers: list[Value] = field(default_factory=lambda: [])
    is_complete: bool = True
    settled: int = 0
    is_trainable: bool = True
    reading: int | None = None
    frozen: Location | None = None
    """Where `trainable = False` was set on it, while that holds."""

    @property
    def last(self) -> Layer | None:
        """The layer that gives the output, where it is known."""
        final = self.layers[-1] if len(self.layers) > self.settled else None
        return final if isinstance(final, Layer) else None


@dataclass(eq=False, slots=True)
class Launcher(Value):
    """What runs a plain loop on devices: an Accelerator or a Fabric; `prepared` is what it was given to wrap.

    `is_open` if its call may have been given arguments that are not known.
    """

    path: str
    arguments: dict[str, Value] = field(default_factory=lambda: {})
    argument_locations: dict[str, Location] = field(default_factory=lambda: {})
    is_open: bool = False
    prepared: list[Value] = field(default_factory=lambda: [])

    @property
    def is_accelerator(self) -> bool:
        """Whether it is the Accelerator of accelerate."""
        return self.path.startswith("accelerate.")


@dataclass(eq=False, slots=True)
class Scaler(Value):
    """A gradient scaler of mixed precision."""

    path: str
    arguments: dict[str, Value] = field(default_factory=lambda: {})


class Role(StrEnum):
    """What an array or tensor holds, in training terms."""

    LOGITS = "logits"
    PROBABILITIES = "probabilities"
    CLASSES = "classes"
    SCORES = "scores"
    LABELS = "labels"
    LOSS = "loss"
    TOKENS = "token ids"
    HIDDEN = "hidden states"
    PARAMETERS = "parameters"
    UNKNOWN = "unknown"


@dataclass(eq=False, slots=True)
class Tensor(Value):
    """An array or tensor: what it holds, and the model that it came out of (UNKNOWN if none).

    `made` is the operation that its numbers come from, None if that is not known; `cut` the one that took it off
    autograd's graph; `is_sliced` if some of its rows or tokens were left out. `kind` is the kind of its numbers
    (`float`, `int`), empty if it is not known.
    `is_cleaned` if the script chose among its entries or replaced some, so that no -100 need be among them.
    `hits_of` are the labels for which it contains, position by position, whether they were matched, if no -100 was
    left out. `of` is the unknown thing whose numbers they are, UNKNOWN if they were computed. `passes` are the
    forward passes in its graph, by the order of their events, as far as they are known.
    """

    role: Role = Role.UNKNOWN
    model: Value = UNKNOWN
    text: str = ""
    made: Operation | None = None
    shape: Shape = field(default_factory=Shape)
    kind: str = ""
    cut: Operation | None = None
    is_sliced: bool = False
    is_reshaped: bool = False
    """Whether its axes were put into another order since its numbers were made."""
    is_cleaned: bool = False
    hits_of: Tensor | None = None
    of: Value = UNKNOWN
    passes: frozenset[int] = frozenset()

    @property
    def graph(self) -> frozenset[int]:
        """The forward passes that `backward` goes through from here: none if it was taken off the graph."""
        return frozenset() if self.cut is not None else self.passes

    def merged(self, others: Sequence[Value]) -> Value | None:
        """What tensors of several branches have in common: `loss`, `loss.mean()` and `loss / steps` are a loss."""
        tensors = [self, *(other for other in others if isinstance(other, Tensor))]
        if len(tensors) != 1 + len(others):
            return None
        same_role = all(each.role is self.role for each in tensors)
        same_model = all(each.model is self.model for each in tensors)
        return Tensor(
            self.role if same_role else Role.UNKNOWN,
            self.model if same_model else UNKNOWN,
            made=self.made if all(each.made == self.made for each in tensors) else None,
            shape=self.shape.with_rows(first=all(each.shape.rows_first for each in tensors))
            if all(each.shape == self.shape for each in tensors)
            else Shape(),
            kind=self.kind if all(each.kind == self.kind for each in tensors) else "",
            is_sliced=any(each.is_sliced for each in tensors),
            is_reshaped=any(each.is_reshaped for each in tensors),
            is_cleaned=True,
        )


@dataclass(eq=False, slots=True)
class FoldRows(Tensor):
    """The numbers of the rows of one part of a fold, as `split` of scikit-learn gives them."""


def one_tensor(value: Value) -> Value:
    """What several tensors have in common, for code that gets any of them; any other value is left as it is."""
    if not isinstance(value, Either) or not all(isinstance(option, Tensor) for option in value.options):
        return value
    return value.options[0].merged(value.options[1:]) or value


@dataclass(eq=False, slots=True)
class ModelOutput(Value):
    """What calling a model gave: it has `.loss` and `.logits` if the model is one of transformers.

    `reads` names what the script took out of it.
    """

    model: Value = UNKNOWN
    has_labels: bool | None = None
    reads: set[str] = field(default_factory=set[str])


@dataclass(eq=False, slots=True)
class Mode(Unknown):
    """Whether the module `of` was in train mode when the script asked, after so many events: `model.training`."""

    of: Value = UNKNOWN
    made_at: int = 0


@dataclass(eq=False, slots=True)
class Optimizer(Value):
    """An optimizer: the class it was made from, its learning rate, and the modules whose parameters it was given.

    `learning_rate` is a default (has a `default`) if the script names none; `has_groups` when rates differ by group.
    """

    path: str
    learning_rate: Value = ABSENT
    learning_rate_location: Location | None = None
    trains: tuple[Value, ...] = ()
    has_groups: bool = False
    arguments: dict[str, Value] = field(default_factory=lambda: {})
    text: str = ""
    is_part: bool = False
    """Whether it may have been given only some of their parameters."""
    is_extended: bool = False
    """Whether it was given more parameters later."""
    given: Value = ABSENT
    """The parameters, as the call names them."""
    groups: tuple[Parameters, ...] = ()
    """The groups that are all the parameters of modules, each where it was given."""

    @property
    def name(self) -> str:
        """The last part of the class's path."""
        return self.path.rpartition(".")[2]

    @property
    def has_no_others(self) -> bool:
        """Whether all that it was given belongs to the modules that it trains."""
        return _of_modules(self.given)


FACTORS_AT = (0, 1, 2, 3, 5, 7, 10, 20, 30, 50, 100, 300, 1000, 3000, 10_000, 100_000)
"""The epochs or steps at which the function of a `LambdaLR` is asked."""


@dataclass(eq=False, slots=True)
class Scheduler(Value):
    """A learning-rate schedule over an optimizer; `given` are the arguments of its call by their parameter names.

    `is_complete` if these are all that it was given. `factors` are what the function of a `LambdaLR` returns at
    `FACTORS_AT`; empty if one is unknown.
    """

    path: str
    optimizer: Value = UNKNOWN
    given: dict[str, Argument] = field(default_factory=lambda: {})
    is_complete: bool = True
    text: str = ""
    factors: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path of what made it."""
        return self.path.rpartition(".")[2]


def _of_modules(parameters: Value, levels: int = 3) -> bool:
    """Whether these are parameters of known modules, and nothing else, in groups in a list at most."""
    match parameters:
        case Parameters(of=owners) | Parameter(of=owners):
            return bool(owners) and not any(isinstance(module, ModelPart) for module in owners)
        case Items(items=items) if levels and items and parameters.knows_items:
            return all(_of_modules(each, levels - 1) for each in items)
        case Mapping(entries=entries) if levels:
            return _of_modules(entries.get("params", ABSENT), levels - 1)
        case _:
            return False
