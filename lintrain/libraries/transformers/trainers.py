"""Making a Trainer: its arguments by name, its metric function read on what its model will predict."""

from __future__ import annotations

from dataclasses import replace

from lintrain.installed.facts import Facts
from lintrain.interpreter import invocation, objects
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    base_call,
    derived_call,
    derived_transfer,
    family,
    instance_method,
    method,
    method_of,
    stored_attribute_of,
)
from lintrain.knowledge.trainers import TRAINER, trainer_parameters
from lintrain.libraries.datasets.rows import note_list
from lintrain.libraries.torch.loaders import is_many, read_collate, row_of
from lintrain.libraries.transformers.models import task_of
from lintrain.libraries.transformers.predictions import predictions_of, read_metric_function
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.data import Dataset, Rows
from lintrain.pipeline.values.installed import InstalledName
from lintrain.pipeline.values.loading import TorchDataset
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Class,
    Constant,
    Function,
    Instance,
    Partial,
    Sequence,
    Unknown,
    Value,
    is_missing,
    join,
    text_of,
)
from lintrain.pipeline.values.training import TrainerRun


@family("transformers")
@family("trl")
def _trainers(path: str) -> Transfer | None:
    return _trainer if trainer_parameters(path) else None


def _trainer(call: Call) -> Value:
    run = _begin(call, call.path, call.path.rpartition(".")[2])
    _give(run, call)
    return _made(call, run)


def _parameters_of(path: str) -> tuple[str, ...]:
    return trainer_parameters(path) or ()


def _begin(call: Call, path: str, name: str) -> TrainerRun:
    run = TrainerRun(path, name, call.location, text=call.text, origin=call.location)
    call.reader.record.runs.append(run)
    return run


def _give(run: TrainerRun, call: Call) -> None:
    """Take the arguments of a constructor call."""
    if run.instance is not None and (above := _installed_base(run.instance.cls)) is not None:
        _hand(run, call, above.facts)
        return
    run.arguments = {name: argument for name, argument in call.named(*_parameters_of(run.path)).items() if name != "**"}
    run.is_complete = not call.is_open and "**" not in call.keywords


def _installed_base(cls: Class) -> InstalledName | None:
    """The trainer of an installed package that a class of the script derives from."""
    bases = (base for owner in cls.lineage() for base in owner.bases)
    return next((base for base in bases if isinstance(base, InstalledName) and derived_transfer(base.facts)), None)


def _made(call: Call, run: TrainerRun) -> TrainerRun:
    """The run, once its arguments are known: its model made, its metric function read."""
    if is_missing(run.value("model")) and not is_missing(run.value("model_init")):
        # The Trainer calls it in its constructor, so what the function builds is the model of the run.
        run.attributes["model"] = dispatch.call(call.reader, run.value("model_init"), [], location=call.location)
    # TRL takes a name in place of a model, and chooses the class of the head by itself.
    if isinstance(run.value("model"), Constant) and run.path.startswith("trl."):
        run.attributes["model"] = _loaded_by_name(call, run)
    if not isinstance(run.value("compute_metrics"), Absent):
        read_metric_function(call.reader, run, call.location)
    for argument in (run.arguments.get("train_dataset"), run.arguments.get("eval_dataset")):
        if argument is not None:
            note_list(call.reader, argument.value, argument.location, argument.text)
    _read_collator(call, run)
    return run


def _loaded_by_name(call: Call, run: TrainerRun) -> Value:
    """The model that a trainer of TRL loads by the name it is given: with a head of one score for rewards."""
    name = run.value("model")
    if text_of(name) is None:
        return name
    head = "SequenceClassification" if run.path == "trl.RewardTrainer" else "CausalLM"
    path = f"transformers.AutoModelFor{head}"
    model = Model(path, "torch", "from_pretrained", task_of(path), name, is_complete=False, origin=call.location)
    settings = run.settings.value("model_init_kwargs") if run.settings else UNKNOWN
    return model if is_missing(settings) else Unknown(name="model")


def _read_collator(call: Call, run: TrainerRun) -> None:
    """Read a collator of the script's own on a row of the training set, for the columns that it needs."""
    collator, dataset = run.value("data_collator"), run.value("train_dataset")
    if not isinstance(collator, Function | Instance | Partial | Bound):
        return
    if isinstance(dataset, Instance | Sequence | TorchDataset):
        # Read for its columns alone: acts of the collator are not acts of the script at this line.
        with call.reader.aside():
            row = row_of(call.reader, dataset, call.location)
            run.collated = read_collate(call.reader, collator, row, call.location, is_of_many=_has_many(run))
    # Trainers of TRL tokenize the rows before the collator gets them.
    if not isinstance(dataset, Dataset) or (run.path.startswith("trl.") and not dataset.is_tokenized):
        return
    rows = Rows(dataset, False, depth=len(call.reader.conditions), origin=call.location)
    run.collated = read_collate(call.reader, collator, rows, call.location, is_of_many=_has_many(run))
    run.collator_needs = dict(rows.needs)


def _has_many(run: TrainerRun) -> bool:
    """Whether a training batch certainly has several rows."""
    size = run.settings.value("per_device_train_batch_size") if run.settings else None
    return is_many(size, 8) and (run.settings is not None or is_missing(run.value("args")))


@base_call(TRAINER)
def _own_trainer(call: Call) -> Value:
    """An object of the script's own subclass of a trainer; its constructor is read until it calls the library's."""
    cls = call.receiver
    if not isinstance(cls, Class):
        return UNKNOWN
    path = next(path for path in cls.library_bases if trainer_parameters(path))
    run = _begin(call, path, cls.node.name)
    run.overrides = frozenset(name for owner in cls.lineage() for name in owner.attributes)
    run.instance = Instance(cls, origin=call.location)
    call.reader.instances.setdefault(cls.node, run.instance)
    _construct(call, run, run.instance)
    run.is_complete = run.is_complete and not cls.has_unknown_base
    return _made(call, run)


@derived_call(TRAINER)
def _installed_trainer(call: Call) -> Value:
    """An object of an installed package's subclass of a trainer, as far as its constructor hands its arguments on."""
    cls = call.receiver
    if not isinstance(cls, InstalledName):
        return UNKNOWN
    path = next(path for path in cls.facts.bases if trainer_parameters(path))
    run = _begin(call, path, cls.name.rpartition(".")[2])
    _hand(run, call, cls.facts)
    return _made(call, run)


def _hand(run: TrainerRun, call: Call, facts: Facts) -> None:
    """Give a run what the constructor of an installed class hands on; what it may change is unknown."""
    run.overrides |= frozenset(facts.methods)
    parameters = _parameters_of(run.path)
    positional = facts.positional if facts.has_hooks else parameters
    given = call.named(*(positional or ()))
    handed = facts.handed or {}
    own = {item.partition("=")[0]: item for item in facts.items or ()}
    for last, mine in handed.items():
        name = parameters[int(last)] if last.isdigit() and int(last) < len(parameters) else last
        if mine in given:
            run.arguments[name] = given[mine]
        elif own.get(mine) not in (None, f"{mine}=None"):
            run.attributes[name] = UNKNOWN
    rest = given.keys() - own.keys() - handed.keys() - {"**"} if facts.hands_rest else set[str]()
    run.arguments.update({name: given[name] for name in rest if name in parameters})
    changed = {*facts.opaque, *(facts.sets if facts.has_hooks else ())} & set(parameters)
    run.attributes.update(dict.fromkeys(changed, UNKNOWN))
    is_followed = facts.is_closed and facts.handed is not None and (positional is not None or not call.positional)
    run.is_complete = is_followed and not call.is_open and "**" not in call.keywords


def _construct(call: Call, run: TrainerRun, instance: Instance) -> None:
    found = instance.cls.lookup("__init__")
    if found is None or not isinstance(found[1], Function):
        _give(run, call)
        return
    # Until the constructor of the base is reached: a branch may end before it.
    run.is_complete = False
    invocation.run_function(call, found[1], instance, found[0])
    # The argument that the script wrote, not its name in the constructor, so that a finding is at the call.
    named = {argument.value: argument for argument in [*call.positional, *call.keywords.values()]}
    run.arguments = {name: named.get(argument.value, argument) for name, argument in run.arguments.items()}
    run.attributes = {name: value for name, value in instance.attributes.items() if name in _parameters_of(run.path)}


@instance_method(TRAINER, "__init__")
def _library_constructor(call: Call) -> Value:
    """`super().__init__(…)` in the constructor of a script's own trainer."""
    run = next((each for each in call.reader.record.runs if each.instance is call.receiver), None)
    if run is not None:
        _give(run, call)
    return UNKNOWN


@attribute_of(TrainerRun)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    """What was set on it, a method of the script's subclass, an argument of its constructor, a method of Trainer."""
    if not isinstance(value, TrainerRun):
        return None
    if name in value.attributes:
        return value.attributes[name]
    if value.instance is not None:
        found = value.instance.cls.lookup(name)
        if found is not None:
            return objects.bind_member(reader, value.instance, name, *found, location)
    if method_of(value, name) is not None:
        return None
    known = value.value(name)
    return dispatch.child(reader, value, name) if isinstance(known, Absent) or known is UNKNOWN else known


@stored_attribute_of(TrainerRun)
def _store(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`trainer.eval_dataset = …`; a function put over a method counts as an override."""
    if not isinstance(owner, TrainerRun):
        return
    before = owner.value(name)
    # A default that the library gives is not known here as a value, so an assignment that may be
    # skipped leaves it open.
    kept = UNKNOWN if isinstance(before, Absent) else before
    owner.attributes[name] = join([kept, value]) if reader.conditions else value
    if isinstance(value, Function) and name not in {"compute_metrics", "data_collator"}:
        owner.overrides |= {name}
    if name == "compute_metrics":
        read_metric_function(reader, owner, location)


@method(TrainerRun, "train", "hyperparameter_search")
def _train(call: Call) -> Value:
    if isinstance(call.receiver, TrainerRun):
        call.receiver.train_calls.append(call.location)
        call.reader.act(Act.TRAIN, call.location, call.receiver, **call.values("resume_from_checkpoint"))
    return UNKNOWN


@method(TrainerRun, "evaluate")
def _evaluate(call: Call) -> Value:
    """Evaluating may be given a data set of its own."""
    if isinstance(call.receiver, TrainerRun):
        given = call.values("eval_dataset")
        dataset = call.value("eval_dataset", 0)
        call.reader.act(Act.EVALUATE, call.location, call.receiver, **{**given, "eval_dataset": dataset})
    return UNKNOWN


@method(TrainerRun, "predict")
def _predict(call: Call) -> Value:
    if not isinstance(call.receiver, TrainerRun):
        return UNKNOWN
    call.reader.act(Act.EVALUATE, call.location, call.receiver, test_dataset=call.value("test_dataset", 0))
    result = predictions_of(call.reader, call.receiver, call.location)
    result.is_result = call.receiver.path.startswith("transformers.") and "predict" not in call.receiver.overrides
    return result


@method(TrainerRun, "save_model", "save_state", "push_to_hub", "create_model_card")
def _save(call: Call) -> Value:
    call.reader.act(Act.SAVE, call.location, call.receiver)
    return UNKNOWN


@method(TrainerRun, "add_callback")
def _add_callback(call: Call) -> Value:
    """One more of the callbacks that the constructor was given."""
    run, given = call.receiver, call.argument("callback", 0)
    if isinstance(run, TrainerRun) and given is not None:
        before = run.value("callbacks")
        listed = before.items if isinstance(before, Sequence) else []
        is_known = is_missing(before) or (isinstance(before, Sequence) and before.is_complete)
        run.arguments["callbacks"] = replace(given, value=Sequence([*listed, given.value], "list", is_known))
    return Constant(None)


@method(TrainerRun, "remove_callback", "log", "log_metrics", "save_metrics", "is_world_process_zero")
def _harmless(call: Call) -> Value:
    return Constant(None)
