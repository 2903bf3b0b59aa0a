"""Modules of torch: layers, containers and losses as objects, and what calling them gives."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.module_parts import is_used_as_list, runs_inside_a_forward
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    called,
    element_of,
    family,
    function,
    method,
    method_of,
    stored_attribute_of,
    subscript_of,
)
from lintrain.interpreter.grad_modes import CHANGES
from lintrain.interpreter.layer_shapes import OPEN, SEQUENTIAL, argument_of
from lintrain.interpreter.shapes import ANY, integer
from lintrain.interpreter.tracing import ACTIVATIONS, MOVES, graph_here
from lintrain.libraries.stdlib.containers import copied
from lintrain.libraries.torch.freezing import mode_of, move, note_module_attribute
from lintrain.libraries.torch.layers import function_loss, module_loss, through, without_graph
from lintrain.libraries.torch.tensors import activated
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import WEIGHT, is_method_of_weight, is_module
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Model, Module, Parameters, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    Instance,
    Mapping,
    Sequence,
    Unknown,
    Value,
    first_default,
    literal,
    number_of,
)
from lintrain.pipeline.values.tensors import Shape

LOSSES = frozenset(
    {
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "cosine_embedding_loss",
        "cross_entropy",
        "ctc_loss",
        "gaussian_nll_loss",
        "hinge_embedding_loss",
        "huber_loss",
        "kl_div",
        "l1_loss",
        "margin_ranking_loss",
        "mse_loss",
        "multi_margin_loss",
        "nll_loss",
        "poisson_nll_loss",
        "smooth_l1_loss",
        "triplet_margin_loss",
    }
)
"""The losses among the functions of `torch.nn.functional`."""

CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict", "TransformerEncoder", "TransformerDecoder"})
"""Classes whose arguments are modules, known or not; other layers only take sizes."""


@family("torch")
def _layer(path: str) -> Transfer | None:
    package, _, name = path.rpartition(".")
    if package == "torch.nn" and name[:1].isupper() and name not in {"Parameter", "ParameterList", "ParameterDict"}:
        return make_module
    if package == "torch.nn.functional":
        return function_loss if name in LOSSES else activated if name in ACTIVATIONS | MOVES else _computed
    if package == "torch" and name in ACTIVATIONS:
        return activated
    return _harmless if package in {"torch.nn.init", "torch.nn.utils"} else None


def make_module(call: Call) -> Value:
    """The module that a call makes, with the modules among its arguments as its parts."""
    parts = [part for argument in call.positional for part in _parts_of(argument.value)]
    parts.extend([UNKNOWN] if call.is_open else [])
    if call.path.rpartition(".")[2] not in CONTAINERS:
        # Arguments of plain layers are sizes. An unknown size must not count as an unknown module inside
        # the layer.
        parts = [] if call.path.startswith("torch.nn.") else [part for part in parts if is_module(part)]
    arguments = call.values()
    if call.is_open and call.path.startswith("torch.nn."):
        arguments[OPEN] = UNKNOWN
    made = Module(call.path, parts, arguments, origin=call.location)
    if made.name.endswith("Loss") and len(call.positional) > 1 and _is_output(call.positional[0].value):
        # A loss that is built with the tensors it is meant for: the other rules judge what it would get.
        module_loss(call, replace(made, arguments={}))
    if made.name in DROPOUTS:
        _note_idle_dropout(call, made)
    if made.path == SEQUENTIAL and not is_used_as_list(call.reader, call.location):
        # Its layers are compared with each other even if the script never calls it.
        through(call, made, UNKNOWN)
    return made


DROPOUTS = {"LSTM": 5, "GRU": 5, "RNN": 6}
"""The position of `dropout` among the arguments of recurrent layers."""


def _note_idle_dropout(call: Call, layer: Module) -> None:
    """Record a dropout between the layers of a recurrent network that has one layer."""
    layers, rate = argument_of(layer, "num_layers", 2), call.argument("dropout", DROPOUTS[layer.name])
    # Where an option sets the number, one layer is only its default, and the dropout is for other numbers.
    is_single = isinstance(layers, Absent) or (integer(layers) == 1 and first_default(layers) is None)
    # With `**options` a number of layers may be given as well.
    if rate is not None and is_single and (number_of(rate.value) or 0) > 0 and not call.is_open:
        call.reader.record.misuses.append(Misuse(rate.location, layer, "dropout of one layer", layer.name))


def _is_output(value: Value) -> bool:
    return isinstance(value, Tensor) and not isinstance(value.model, Unknown)


def _parts_of(value: Value) -> list[Value]:
    match value:
        case Sequence():
            unknown: list[Value] = [] if value.is_complete else [UNKNOWN]
            return [*value.items, *unknown]
        case Mapping():
            return [*value.entries.values(), *([] if value.is_complete else [UNKNOWN])]
        case Constant():
            return []
        case _:
            return [value]


@function("copy.deepcopy")
def _deep_copy(call: Call) -> Value:
    """A module of its own: training it, or putting it into eval mode, leaves the first one alone."""
    given = call.value("x", 0)
    if isinstance(given, Instance | Model | Module):
        made = _with_own_parts(call, given, {}, MOST_LEVELS)
        made.origin = call.location
        return made
    if isinstance(given, Unknown) and given is not UNKNOWN:
        return Unknown(origin=call.location)
    return copied(call.reader, given) or UNKNOWN


MOST_LEVELS = 8
"""Of modules within modules that a copy gets for itself; deeper ones are shared with the first."""


def _with_own_parts(call: Call, value: Value, copies: dict[int, Value], levels: int) -> Value:
    """A copy of a module whose parts are copies too, one that is held twice still one; other values are shared."""
    if id(value) in copies or levels == 0:
        return copies.get(id(value), value)
    match value:
        case Instance() | Module():
            made = copies[id(value)] = replace(value, attributes={})
            own = call.reader.counted(value.attributes)
            made.attributes = {name: _with_own_parts(call, value.attributes[name], copies, levels - 1) for name in own}
            if isinstance(made, Module) and isinstance(value, Module):
                made.parts = [_with_own_parts(call, part, copies, levels - 1) for part in value.parts]
            return made
        case Model():
            return copies.setdefault(id(value), replace(value))
        case _:
            return value


@called(Module)
def _call_module(call: Call) -> Value:
    module = call.receiver
    if not isinstance(module, Module):
        return UNKNOWN
    if module.path.startswith("torch.nn.") and module.name.endswith("Loss"):
        return module_loss(call, module)
    given, own = call.value("input", 0), frozenset[int]()
    if not runs_inside_a_forward(call.reader) and not is_method_of_weight(module):
        own = frozenset({len(call.reader.record.events)})
        call.reader.act(Act.FORWARD, call.location, module, given=given)
    result = through(call, module, given)
    if isinstance(result, Tensor):
        result.passes = graph_here(call.reader, [given]) | (frozenset() if call.reader.without_grad else own)
        result.cut = without_graph(call) or result.cut
    return result


KEEPS_AXES = frozenset({"interpolate", "normalize", "pad", "upsample"})
"""Functions that change one tensor, and give one with as many axes."""


def _computed(call: Call) -> Value:
    given, name = call.value("input", 0), call.path.rpartition(".")[2]
    same = given if isinstance(given, Tensor) and name in KEEPS_AXES and not call.is_open else None
    rank = same.shape.rank if same is not None else None
    shape = ANY if rank is None else Shape((None,) * rank, False)
    given_to = [argument.value for argument in (*call.positional, *call.keywords.values())]
    passes = graph_here(call.reader, given_to)
    cut = same.cut if same is not None else None
    return Tensor(text=call.text, shape=shape, cut=cut, origin=call.location, passes=passes)


def _harmless(call: Call) -> Value:
    """What looks at its arguments, or changes weights only."""
    return UNKNOWN


@attribute_of(Module)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, Module):
        return None
    if name in {"module", "_orig_mod"}:
        return value
    if name in value.attributes:
        return value.attributes[name]
    if name == "training":
        return mode_of(reader, value)
    # `layer.weight.data.copy_(…)` is no pass through the layer.
    if method_of(value, name) is not None and (name not in CHANGES or not value.path):
        return Bound(value, name)
    return _inner(value, name)


def _inner(module: Module, name: str = "") -> Module:
    """A part that is not known more closely."""
    # It has an empty path, and the whole as its part: `model.layer1` overlaps with the model without being
    # all of it.
    return Module("", [module], {WEIGHT: Constant(name)} if name else {}, origin=module.origin)


@stored_attribute_of(Module)
def _store(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    if isinstance(owner, Module):
        owner.attributes[name] = value
        note_module_attribute(reader, owner, name, value, location)


@subscript_of(Module)
def _item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    if not isinstance(value, Module):
        return UNKNOWN
    # A tensor of a layer, such as `layer.weight.data`, has rows and no layers.
    position = literal(key) if WEIGHT not in value.arguments else None
    is_part = isinstance(position, int) and -len(value.parts) <= position < len(value.parts)
    return value.parts[position] if isinstance(position, int) and is_part else _inner(value)


@element_of(Module)
def _each(reader: Reader, value: Value) -> Value:
    # One part stands for all in a loop over a ModuleList, so the loop's body is followed with a real layer.
    known = [part for part in value.parts if is_module(part)] if isinstance(value, Module) else []
    if not known or (isinstance(value, Module) and len(value.parts) == 1):
        return known[0] if known else UNKNOWN
    # The sizes of one are not those of the others.
    return replace(known[0], arguments={OPEN: UNKNOWN}) if isinstance(known[0], Module) else known[0]


@method(Module, "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "compile", "apply")
@method(Module, "share_memory", "to_empty", "xpu")
def _move(call: Call) -> Value:
    return move(call)


@method(Module, "append", "extend", "insert", "add_module", "register_module", "update")
def _append(call: Call) -> Value:
    if isinstance(call.receiver, Module):
        call.receiver.parts.extend(part for argument in call.positional for part in _parts_of(argument.value))
        if call.path.endswith((".insert", ".update")) or call.reader.conditions or call.reader.loops:
            call.receiver.arguments[OPEN] = UNKNOWN
    call.reader.act(Act.REPLACE, call.location, call.receiver, name=UNKNOWN, value=UNKNOWN)
    return call.receiver


@method(Module, *CHANGES)
def _change(call: Call) -> Value:
    """A weight whose numbers a method changes."""
    return call.receiver


@method(Module, "pop", "__delitem__")
def _take_out(call: Call) -> Value:
    """A part that is taken out of a list of layers; which ones remain is not followed."""
    if isinstance(call.receiver, Module):
        call.receiver.arguments[OPEN] = UNKNOWN
    return UNKNOWN


@method(Module, "parameters", "named_parameters")
def _parameters(call: Call) -> Value:
    return Parameters((call.receiver,), call.path.endswith("named_parameters"), origin=call.location)


@method(Module, "state_dict", "load_state_dict", "modules", "named_modules", "named_children", "buffers")
@method(
    Module, "register_buffer", "register_parameter", "extra_repr", "type", "get_parameter", "items", "keys", "values"
)
def _look(call: Call) -> Value:
    return UNKNOWN


@method(Module, "forward")
def _forward(call: Call) -> Value:
    return _call_module(call)


@method(Module, "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook")
def _hook(call: Call) -> Value:
    escape(call)
    return UNKNOWN


@function("torch.save")
def _save(call: Call) -> Value:
    call.reader.act(Act.SAVE, call.location, call.value("obj", 0))
    return UNKNOWN
