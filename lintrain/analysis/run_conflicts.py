"""What a Trainer is given that excludes something else it is given, or that its own methods never read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import gradients, library_arguments, script_text, trainer_methods
from lintrain.analysis.tuning import name_in_enum
from lintrain.knowledge.contradictions import SETTING
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import LibraryCall, Pipeline
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import (
    ABSENT,
    Constant,
    Function,
    LibraryObject,
    Mapping,
    is_missing,
    literal,
    number_of,
)
from lintrain.pipeline.values.training import TrainerRun
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.project_search import scripts_have
from lintrain.startup.lazy_dataclass import dataclass

SEARCH = "hyperparameter_search"
RESUME = "resume_from_checkpoint"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A setting that excludes another one, or has no effect: where it is, what to report, and where the other is."""

    location: Location
    message: str
    advice: str
    other: tuple[Location, str]
    level: Level = Level.WARNING


def as_call(run: TrainerRun) -> LibraryCall:
    """A trainer with its own arguments and those of its settings, which are named `args.…`."""
    arguments = {name: each for name, each in run.arguments.items() if name not in run.attributes}
    if (settings := run.settings) is not None:
        set_at = settings.locations.items()
        arguments |= {SETTING + name: Argument(settings.value(name), location) for name, location in set_at}
    return LibraryCall(run.path, run.construction, arguments, 0, False, not run.is_complete, run.text)


def conflicts(pipeline: Pipeline) -> Iterator[Conflict]:
    """What the runs of a script are given and never read, or cannot work with."""
    for run in pipeline.runs:
        yield from _unread_by_own_loss(run)
        yield from _unread_checkpoint(pipeline, run)
        yield from _search_of_one_model(pipeline, run)
        yield from _own_reference(run)
        yield from _listed_texts(pipeline, run)
    for model in pipeline.models:
        yield from _other_numbers(model)
    # A function that is called several times puts one configuration into several models.
    yield from dict.fromkeys(_other_tasks(pipeline))


TASK_TYPES = {Task.CAUSAL_LM: "CAUSAL_LM", Task.SEQ2SEQ_LM: "SEQ_2_SEQ_LM"}
"""The `task_type` of PEFT for each of the two kinds of models that write texts."""

KINDS = {Task.CAUSAL_LM: "a decoder-only model", Task.SEQ2SEQ_LM: "an encoder-decoder"}


def _other_tasks(pipeline: Pipeline) -> Iterator[Conflict]:
    """Adapters of PEFT that are made for the other kind of model than the one that they are put into."""
    for event in pipeline.acts(Act.ADAPT):
        config, model = event.details.get("config"), event.subject
        if not isinstance(config, LibraryObject) or config.origin is None or not isinstance(model, Model):
            continue
        given, wanted = name_in_enum(config.arguments.get("task_type", ABSENT)), TASK_TYPES.get(model.task)
        if wanted is not None and given in TASK_TYPES.values() and given != wanted:
            message = f"`task_type` is `{given}`, but the model is {KINDS[model.task]}"
            made = (model.origin or event.location, "the model")
            yield Conflict(config.origin, message, f'pass `task_type="{wanted}"`', made)


def _unread_by_own_loss(run: TrainerRun) -> Iterator[Conflict]:
    """Label smoothing and loss functions are applied by the library's `compute_loss` alone."""
    function, settings = trainer_methods.own_method(run, "compute_loss"), run.settings
    if function is None or any(trainer_methods.reads(function, name) for name in READERS):
        return
    head = (function.source.location(function.node) if function.source else run.construction, "replaces the library's")
    rate = number_of(settings.value("label_smoothing_factor")) if settings is not None else None
    if settings is not None and rate and (location := settings.locations.get("label_smoothing_factor")):
        message = "`label_smoothing_factor` has no effect: `compute_loss` is overridden"
        yield Conflict(location, message, "pass `label_smoothing` to the loss in `compute_loss`, or remove it", head)
    given = run.arguments.get("compute_loss_func")
    if given is not None and not is_missing(given.value):
        message = "`compute_loss_func` is never called: `compute_loss` is overridden"
        yield Conflict(given.keyword or given.location, message, "keep one of them", head)


READERS = ("label_smoother", "label_smoothing_factor", "label_smoothing", "compute_loss", "compute_loss_func")
"""What an own `compute_loss` reads if it applies them itself, or calls the library's."""


def _unread_checkpoint(pipeline: Pipeline, run: TrainerRun) -> Iterator[Conflict]:
    """`resume_from_checkpoint` among the arguments is a place for a script's own option: the Trainer never reads it."""
    settings = run.settings
    location = settings.locations.get(RESUME) if settings is not None else None
    if settings is None or location is None or "train" in run.overrides:
        return
    value = settings.value(RESUME)
    trains = [event for event in pipeline.acts(Act.TRAIN) if event.subject is run]
    is_given = isinstance(value, Constant) and value.value not in (None, False, "")
    # What passes it on by name, or reads it anywhere in the file, may well resume.
    source = pipeline.source_of(location)
    is_read = RESUME in script_text.attribute_names(source) or (
        not source.path.endswith((".py", ".ipynb")) and scripts_have(source.path, rf"\.{RESUME}\b")
    )
    if not is_given or is_read or not trains or any(RESUME in event.details for event in trains):
        return
    yield Conflict(
        location,
        f"`{RESUME}` has no effect here: only `train` reads it",
        f"pass it to the call: `train({RESUME}=…)`",
        (trains[0].location, "starts from the model's weights"),
    )


def _search_of_one_model(pipeline: Pipeline, run: TrainerRun) -> Iterator[Conflict]:
    """Each trial of a search needs a new model, which only `model_init` makes."""
    if not run.is_complete or not is_missing(run.value("model_init")) or SEARCH in run.overrides:
        return
    model = run.arguments.get("model")
    for location in run.train_calls:
        if model is not None and f".{SEARCH}(" in pipeline.code(location):
            yield Conflict(
                location,
                f"`{SEARCH}` needs `model_init`, but the trainer is given a model",
                "pass a function that builds the model: `model_init=…`, and no `model`",
                (model.keyword or model.location, "the only model of all trials"),
                Level.ERROR,
            )


def _own_reference(run: TrainerRun) -> Iterator[Conflict]:
    """A trained model is no reference for itself: its trainers refuse it, and the loss would be constant."""
    model, reference = run.arguments.get("model"), run.arguments.get("ref_model")
    if run.path not in COMPARE or model is None or reference is None or is_missing(reference.value):
        return
    is_same_name = model.text == reference.text and model.text.isidentifier()
    if is_same_name and model.value is reference.value and not isinstance(model.value, Constant):
        where, advice = reference.keyword or reference.location, "remove `ref_model`: the trainer makes a copy"
        message = f"`{model.text}` is both the trained model and its own reference"
        yield Conflict(where, message, advice, (model.keyword or model.location, "the trained model"), Level.ERROR)


COMPARE = frozenset({"trl.DPOTrainer", "trl.KTOTrainer", "trl.OnlineDPOTrainer"})


def _listed_texts(pipeline: Pipeline, run: TrainerRun) -> Iterator[Conflict]:
    """Today `SFTTrainer` gives `formatting_func` one row at a time, and appends the end token to its text."""
    given = run.arguments.get("formatting_func")
    function = given.value if given is not None else None
    if run.path != "trl.SFTTrainer" or given is None or not isinstance(function, Function) or function.is_wrapped:
        return
    is_since = gradients.is_since(pipeline.targets, "trl", (1, 0))
    is_patched = pipeline.source_of(given.location).contains(library_arguments.UNSLOTH)  # it maps whole batches
    if isinstance(function.node, ast.FunctionDef) and is_since and not is_patched and _returns_list(function.node):
        head = ((function.source or pipeline.source).location(function.node), "returns the texts of a batch")
        message = f"`{function.name}` returns a list, and `SFTTrainer` gives it one row at a time"
        yield Conflict(given.keyword or given.location, message, "return the text of one row", head, Level.ERROR)
    if isinstance(function.node, ast.FunctionDef) and is_since and not is_patched and _returns_rows(pipeline, function):
        head = ((function.source or pipeline.source).location(function.node), "returns a dictionary")
        message = f"`{function.name}` returns a dictionary, and `SFTTrainer` reads a text"
        yield Conflict(given.keyword or given.location, message, "return the text alone", head, Level.ERROR)


def _returns_rows(pipeline: Pipeline, function: Function) -> bool:
    """Whether a function returns a dictionary that it makes, or what another function of the file returns as one."""
    returned = [node.value for node in own_nodes(function.node) if isinstance(node, ast.Return) and node.value]
    if len(returned) != 1:
        return False
    match returned[0]:
        case ast.Dict():
            return True
        case ast.Call(func=ast.Name(id=name)):
            source = function.source or pipeline.source
            called = [each for each in source.nodes_of(ast.FunctionDef) if each.name == name]
            ends = [node.value for each in called for node in own_nodes(each) if isinstance(node, ast.Return)]
            return len(called) == 1 and bool(ends) and all(isinstance(each, ast.Dict) for each in ends)
        case _:
            return False


def _returns_list(function: ast.FunctionDef) -> bool:
    """Whether all that a function returns are lists that it makes itself."""
    nodes = own_nodes(function)
    returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    made = [(unparse(node.targets[0]), node.value) for node in nodes if isinstance(node, ast.Assign)]
    values = [
        [value for name, value in made if isinstance(each, ast.Name) and name == each.id] or [each] for each in returned
    ]
    return bool(values) and all(isinstance(each, ast.List | ast.ListComp) for found in values for each in found)


def _other_numbers(model: Model) -> Iterator[Conflict]:
    """A class with one number in `id2label` and another one in `label2id`, which transformers keeps as given."""
    names_at, numbers_at = (model.argument_locations.get(name) for name in ("id2label", "label2id"))
    names, numbers = model.arguments.get("id2label"), model.arguments.get("label2id")
    if names_at is None or numbers_at is None or not isinstance(names, Mapping) or not isinstance(numbers, Mapping):
        return
    shown = [(literal(value), _as_number(key)) for key, value in names.entries.items()]
    for label, value in numbers.entries.items():
        number, others = literal(value), [other for name, other in shown if name == label]
        # Names in both spellings or of merged classes may share a number, and are not compared.
        if isinstance(label, str) and type(number) is int and len(others) == 1 and others[0] not in (None, number):
            message = f"`{label}` is class {number} in `label2id`, and class {others[0]} in `id2label`"
            advice = "make one of the other: `label2id={name: number for number, name in id2label.items()}`"
            yield Conflict(numbers_at, message, advice, (names_at, "numbered here"))
            return


def _as_number(key: object) -> int | None:
    """The number of a class, which transformers reads from a text, too."""
    if isinstance(key, str):
        return int(key) if key.isdecimal() else None
    return key if type(key) is int else None
