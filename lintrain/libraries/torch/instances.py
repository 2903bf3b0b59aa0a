"""The script's own modules: calling one runs its forward, with the methods that it has from `torch.nn.Module`.

What is not understood, by the names that training code uses: calling a model, stepping an optimizer.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from lintrain.interpreter import invocation
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.module_parts import runs_inside_a_forward
from lintrain.interpreter.core.registry import called, instance_called, instance_method, method
from lintrain.interpreter.tracing import graph_here
from lintrain.libraries.torch.freezing import move, set_mode
from lintrain.libraries.torch.gradients import MODEL_NAME, is_scaler, scaled_step
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import LEAVES_GRAPH, MODULE
from lintrain.pipeline.values.data import Encoding, Tokenizer
from lintrain.pipeline.values.model import Model, Module, Optimizer, Parameters, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Constant, Function, Instance, Unknown, Value, literal, text_of
from lintrain.pipeline.values.tensors import unmoved
from lintrain.source.nodes import unparse
from lintrain.startup.lazy_pattern import lazy_pattern


@instance_called(MODULE)
def _run(call: Call) -> Value:
    """An event for the outermost module only: what its own forward calls belongs to it."""
    module = call.receiver
    if not isinstance(module, Instance):
        return UNKNOWN
    own = frozenset[int]()
    if not runs_inside_a_forward(call.reader):
        own = frozenset[int]() if call.reader.without_grad else frozenset({len(call.reader.record.events)})
        call.reader.act(Act.FORWARD, call.location, module, given=call.value("input", 0))
    found = module.cls.lookup("forward")
    if found is None or not isinstance(found[1], Function):
        return UNKNOWN
    # The forward is followed whenever the module is called, so that losses and shapes in it are known for
    # these inputs.
    result = invocation.run_function(call, found[1], module, found[0])
    if isinstance(result, Unknown):
        passes = own | graph_here(call.reader, [argument.value for argument in call.positional])
        return Tensor(model=module, text=call.text, origin=call.location, passes=passes)
    if own and isinstance(result, Tensor):
        # In place, since what is known of how it was computed goes by its identity. A layer that is not understood
        # loses the history of what it gets, and only code that takes tensors off the graph ends it.
        node = found[1].node
        is_cut = (found[1].source or call.reader.source).once(_takes_off, node)
        given = [] if is_cut else [argument.value for argument in call.positional]
        result.passes = result.graph | own | graph_here(call.reader, given)
    return result


def _takes_off(forward: ast.AST) -> bool:
    """Whether code takes a tensor off autograd's graph, or may."""
    return LEAVES_GRAPH.search(unparse(forward)) is not None


@instance_method(MODULE, "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "compile", "apply")
@instance_method(MODULE, "share_memory", "to_empty", "xpu", "set_extra_state")
def _same(call: Call) -> Value:
    return move(call)


@instance_method(MODULE, "parameters", "named_parameters")
def _parameters(call: Call) -> Value:
    return Parameters((unmoved(call.receiver),), call.path.endswith("named_parameters"), origin=call.location)


@method(Unknown, "parameters", "named_parameters")
def _unknown_parameters(call: Call) -> Value:
    """Those of a model that is not known: still the same ones each time."""
    if call.receiver is UNKNOWN or call.positional or call.keywords or call.is_open:
        escape(call)
        return UNKNOWN
    call.reader.with_parameters |= {id(call.receiver), id(unmoved(call.receiver))}
    call.reader.kept.append(call.receiver)
    return _parameters(call)


@instance_method(MODULE, "state_dict", "load_state_dict", "children", "modules", "named_modules", "named_children")
@instance_method(MODULE, "buffers", "named_buffers", "extra_repr", "get_parameter", "get_submodule", "__init__")
@instance_method(MODULE, "save_pretrained", "push_to_hub")
def _look(call: Call) -> Value:
    return UNKNOWN


@instance_method(MODULE, "add_module", "register_module", "register_buffer", "register_parameter")
def _add(call: Call) -> Value:
    name = text_of(call.value("name", 0))
    if isinstance(call.receiver, Instance) and len(call.positional) > 1:
        # A name of its own for each unknown one: all of them are parts, and none may replace another.
        call.receiver.attributes[name or f"?{len(call.receiver.attributes)}"] = call.positional[1].value
    return Constant(None)


@method(Module, "train", "eval")
@instance_method(MODULE, "train", "eval")
def _set_mode(call: Call) -> Value:
    return set_mode(call)


@method(Unknown, "train", "eval")
def _set_unknown_mode(call: Call) -> Value:
    """`.train()` and `.eval()` of something unknown: with other arguments they are not those of a module."""
    if len(call.positional) + len(call.keywords) > 1 or call.is_open or (call.keywords and "mode" not in call.keywords):
        call.reader.act(Act.ESCAPE, call.location, call.receiver)
        return UNKNOWN
    return set_mode(call)


@method(Value, "zero_grad", "zero_grads", "clear_grad", "clear_gradients", "cleargrads", "optimizer_zero_grad")
@instance_method(MODULE, "zero_grad")
def _zero_grad(call: Call) -> Value:
    """Gradients are cleared, also those of what is not understood, like a model that a library made."""
    call.reader.act(Act.ZERO_GRAD, call.location, unmoved(call.receiver), text=Constant(call.receiver_text))
    return Constant(None)


OPTIMIZER = lazy_pattern(r"(^|[._])(opt|optim|optimizer|optimiser)s?(_?\w{0,12})(\[.*\])?$", re.IGNORECASE)
SCHEDULE = lazy_pattern(r"sched|warmup|(^|[._])lr", re.IGNORECASE)
OTHER_STEPS = lazy_pattern(r"(^|[._])(env|envs|prof|profiler|p|pbar|bar|timer|simulator|game)s?$", re.IGNORECASE)


@method(Unknown, "step")
def _step(call: Call) -> Value:
    """A step of whatever it is: an optimizer by its name, or perhaps one."""
    name = call.receiver_text
    for argument in call.positional:
        if isinstance(argument.value, Function):
            dispatch.call(call.reader, argument.value, [], location=call.location)
    if is_scaler(call.receiver, name) and len(call.positional) == 1:
        scaled_step(call)
    # By name, in this order: `lr_scheduler.step()` must not count as a step of an optimizer called `lr...`.
    elif SCHEDULE.search(name):
        has_argument = Constant(bool(call.positional or call.keywords or call.is_open))
        call.reader.act(
            Act.SCHEDULER_STEP, call.location, call.receiver, text=Constant(name), has_argument=has_argument
        )
    elif not OTHER_STEPS.search(name):
        is_optimizer = OPTIMIZER.search(name) is not None
        if not is_optimizer and _is_counted(call):
            return _call(call)
        call.reader.act(Act.STEP, call.location, call.receiver, text=Constant(name), named=Constant(is_optimizer))
    return UNKNOWN


def _is_counted(call: Call) -> bool:
    """Whether a step gets numbers or the like: `checkpoints.step(epoch)`. An optimizer gets a closure or nothing."""
    given = [argument.value for argument in call.positional]
    is_of_training = any(isinstance(value, Function | Optimizer | Instance) for value in given)
    is_named = any(OPTIMIZER.search(argument.text) or "closure" in argument.text for argument in call.positional)
    return bool(given) and not is_of_training and not is_named


@called(Unknown)
@method(Unknown, "forward")
def _call(call: Call) -> Value:
    """Calling what is not understood: a forward pass of what has parameters, or a model's name; or anything else."""
    callee = call.receiver
    is_inner = runs_inside_a_forward(call.reader)
    is_model = isinstance(callee, Unknown) and _is_a_model(call, callee)
    if is_model and call.node is not None and not _takes_a_model(call):
        if not is_inner:
            # `net.to(device)` gives `net` again, whose mode the script may set under either name.
            call.reader.act(Act.FORWARD, call.location, unmoved(callee))
        # A new unknown thing for each forward pass: two outputs of one model are different tensors.
        return Unknown(name="output")
    if not is_inner:
        call.reader.act(Act.ESCAPE, call.location, UNKNOWN, callee=callee)
    escape(call)
    return _encoding_of(call) if "return_tensors" in call.keywords else UNKNOWN


GIVE_TENSORS = lazy_pattern(r"\.(encode|apply_chat_template|\w*decode)$")
"""Methods of tokenizers that give no dictionary."""


def _encoding_of(call: Call) -> Value:
    """What `tokenizer(text, return_tensors="pt")` gives: only tokenizers, processors and collators are asked so."""
    callee = call.receiver
    is_asked = literal(call.value("return_tensors")) in {"pt", "tf", "np"}
    if not is_asked or not isinstance(callee, Unknown) or GIVE_TENSORS.search(callee.name):
        return UNKNOWN
    depth = len(call.reader.conditions)
    return Encoding(callee, returns_tensors=True, is_complete=False, text=call.text, depth=depth, origin=call.location)


@method(Unknown, "generate")
def _generate(call: Call) -> Value:
    """`model.generate(…)` runs the model; what else has such a method is not followed."""
    callee = call.receiver
    if isinstance(callee, Unknown) and MODEL_NAME.search(callee.name) and not runs_inside_a_forward(call.reader):
        # Generation runs without gradients, whatever is around it.
        call.reader.without_grad += 1
        call.reader.act(Act.FORWARD, call.location, callee)
        call.reader.without_grad -= 1
        return Unknown(name="output")
    escape(call)
    return UNKNOWN


def _takes_a_model(call: Call) -> bool:
    """`prepare_model(model)`: no model reads models, tokenizers or optimizers."""
    given = [*call.positional, *call.keywords.values()]
    return any(isinstance(argument.value, Model | Module | Optimizer | Tokenizer) for argument in given)


def _is_a_model(call: Call, callee: Unknown) -> bool:
    """Whether the script asked for its parameters, or it has the name of a model."""
    return id(callee) in call.reader.with_parameters or _is_named_like_a_model(callee.name)


MAKES_A_MODEL = lazy_pattern(
    r"_*(get|build|create|make|load|init|initiali[sz]e|define|set_?up|prepare|construct|instantiate|select|choose|restore|"
    r"resume|save|wrap|freeze|copy|clone|import|download|fetch|register|summari[sz]e|print)(_|(?=[A-Z]))",
)
"""Names of functions that make or handle models: `build_model(…)`, `getNet(…)`."""


@lru_cache(maxsize=4096)
def _is_named_like_a_model(name: str) -> bool:
    """Names of classes are not, `ModelNet(…)` makes something, nor are those of functions that make a model."""
    last = name.rpartition(".")[2]
    is_class = re.match(r"[A-Z]\w*[a-z]|[A-Z]{2}", last)
    return is_class is None and MAKES_A_MODEL.match(last) is None and MODEL_NAME.search(name) is not None
