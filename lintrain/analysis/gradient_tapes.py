"""Gradients of a `tf.GradientTape` that are none, are thrown away, or are applied to other weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

WEIGHTS = frozenset({"trainable_variables", "trainable_weights", "variables", "weights"})
"""The attributes of a network that hold its weights."""

READS = WEIGHTS | {"losses", "name"}
"""The attributes that give weights, or what depends on nothing but them."""

APPLIES = r"apply_gradients|\.apply\(|assign_sub|assign_add|\.assign\(|minimize|tfp\.|lbfgs"
"""What changes weights by gradients."""


@dataclass(frozen=True, slots=True)
class TapeMistake:
    """A use of a tape's gradients: where, what is wrong, what to write, and where the other half of it is."""

    location: Location
    problem: str
    remedy: str
    other: Location
    about: str


@dataclass(frozen=True, slots=True)
class _Gradients:
    """`grads = tape.gradient(loss, network.trainable_variables)`: its call, tape, and the code of the network."""

    call: ast.Call
    tape: str
    network: str
    name: str

    @property
    def is_of_weights(self) -> bool:
        """Whether they are those of the weights of networks, also of several: `first.weights + second.weights`."""
        return any(isinstance(each, ast.Attribute) and each.attr in WEIGHTS for each in walk(self.call.args[1]))


def tape_mistakes(source: Source) -> list[TapeMistake]:
    """The mistakes of a file, each scope by itself."""
    return source.cached(_tape_mistakes)


def _tape_mistakes(source: Source) -> list[TapeMistake]:
    if not source.contains("GradientTape"):
        return []
    scopes: list[ast.AST] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    return [found for scope in scopes for found in _in_scope(source, scope)]


def _in_scope(source: Source, scope: ast.AST) -> Iterator[TapeMistake]:
    nodes = own_nodes(scope)
    computed = [found for node in nodes if (found := _gradients(node)) is not None]
    for gradients in computed:
        yield from _outside(source, nodes, gradients)
        yield from _left_for_numpy(source, nodes, gradients)
        if not source.contains(APPLIES):
            yield from _dropped(source, nodes, gradients)
        elif gradients.is_of_weights and not _is_read(scope, gradients):
            yield _never_applied(source, gradients)
    for call in nodes if computed else ():
        match call:
            case ast.Call(func=ast.Attribute(attr="apply_gradients"), args=[ast.Call(args=[given, weights]) as pairs]):
                if last_name(pairs.func) == "zip":
                    yield from _of_other(source, pairs, given, weights, computed)
            case _:
                pass


def _gradients(node: ast.AST) -> _Gradients | None:
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=tape), attr="gradient"), args=[_, weights]) as call,
        ):
            return _Gradients(call, tape, _owner(weights), name)
        case _:
            return None


def _owner(weights: ast.expr) -> str:
    """The code of the network in `network.trainable_variables`; empty for other code."""
    match weights:
        case ast.Attribute(value=(ast.Name() | ast.Attribute()) as network, attr=attribute) if attribute in WEIGHTS:
            return unparse(network)
        case _:
            return ""


def _of_other(
    source: Source, pairs: ast.Call, given: ast.expr, weights: ast.expr, computed: list[_Gradients]
) -> Iterator[TapeMistake]:
    """`zip(gradients of one network, weights of another)`."""
    same = [each for each in computed if isinstance(given, ast.Name) and each.name == given.id]
    network = _owner(weights)
    if len(same) == 1 and network and same[0].network and network != same[0].network:
        # A worker computes gradients for the shared network, and gets its weights again.
        if f"{same[0].network}.set_weights({network}.get_weights())" in source.text:
            return
        yield TapeMistake(
            source.location(pairs),
            f"gradients of `{same[0].network}` are applied to the weights of `{network}`"
            if len(network + same[0].network) < 34
            else "gradients of one network are applied to the weights of another",
            f"pair them with `{same[0].network}.trainable_variables`",
            source.location(same[0].call),
            "computed here",
        )


def _outside(source: Source, nodes: Sequence[ast.AST], gradients: _Gradients) -> Iterator[TapeMistake]:
    """A network that is run before the tape records, whose result alone the tape sees."""
    recorded = _recordings(nodes, gradients)
    if not recorded or not gradients.network:
        return
    inside = [each for statement in recorded[0].body for each in walk(statement)]
    read = {each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    # What is computed by the network inside of the tape has gradients, and so may what a function computes there.
    if _may_run(inside, gradients.network):
        return
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Tuple() as target], value=ast.Call(func=called) as call) if (
                unparse(called) == gradients.network
                and not read.isdisjoint(each.id for each in _names_in(target))
                and max((each.end_lineno or 0 for each in recorded[1:]), default=0) < node.lineno < recorded[0].lineno
            ):
                yield _ran_before(source, call, gradients, has_penalty=_has_penalty(inside, gradients.network))
                return
            case _:
                pass


def _recordings(nodes: Sequence[ast.AST], gradients: _Gradients) -> list[ast.With]:
    """The `with` blocks of a tape's name above the call for its gradients, of which the first is the one it ends."""
    found = [each for each in nodes if isinstance(each, ast.With) and gradients.tape in map(_named, each.items)]
    above = [each for each in found if each.lineno < gradients.call.lineno]
    return sorted(above, key=lambda each: each.lineno, reverse=True)


def _ran_before(source: Source, call: ast.Call, gradients: _Gradients, *, has_penalty: bool) -> TapeMistake:
    result = "only its penalties have gradients" if has_penalty else "its gradients are None"
    subject = f"`{gradients.network}`" if len(gradients.network) < (14 if has_penalty else 24) else "this network"
    return TapeMistake(
        source.location(call),
        f"{subject} runs before the tape records, so {result}",
        "move the call into the `with` block",
        source.location(gradients.call),
        "the gradients are asked for here",
    )


OF_LOSS = lazy_pattern(r"(?i)loss|criterion|entropy|metric|optimizer")
"""Attributes of an object that computes with what a network gave, and does not run the network itself."""


def _may_run(inside: Sequence[ast.AST], network: str) -> bool:
    """Whether the network is used in a tape other than for its weights and penalties, or by a method of its owner."""
    only_read = {id(each.value) for each in inside if isinstance(each, ast.Attribute) and each.attr in READS}
    if any(
        unparse(each) == network and id(each) not in only_read
        for each in inside
        if isinstance(each, ast.Name | ast.Attribute)
    ):
        return True
    if not network.startswith("self."):
        return False
    known = {
        id(each.value)
        for each in inside
        if isinstance(each, ast.Attribute) and (OF_LOSS.search(each.attr) or unparse(each) == network)
    }
    return any(isinstance(each, ast.Name) and each.id == "self" and id(each) not in known for each in inside)


def _has_penalty(inside: Sequence[ast.AST], network: str) -> bool:
    """Whether a tape reads the weights or penalties of a network, apart from the weights that it gets gradients of."""
    asked = {
        id(each)
        for call in inside
        if isinstance(call, ast.Call) and last_name(call.func) in {"gradient", "zip", "apply_gradients"}
        for each in walk(call)
    }
    return any(
        isinstance(each, ast.Attribute)
        and each.attr in READS
        and unparse(each.value) == network
        and id(each) not in asked
        for each in inside
    )


def _left_for_numpy(source: Source, nodes: Sequence[ast.AST], gradients: _Gradients) -> Iterator[TapeMistake]:
    """A loss that reads what the network gave only as an array of NumPy: `predicted.numpy()`."""
    loss = gradients.call.args[0]
    recorded = _recordings(nodes, gradients)
    if not recorded or not isinstance(loss, ast.Name):
        return
    made = [each for each in recorded[0].body if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)]
    inside = {unparse(each.targets[0]) for each in made}
    losses = [each for each in made if unparse(each.targets[0]) == loss.id]
    if len(losses) != 1:
        return
    arrays = [
        each
        for each in walk(losses[0].value)
        if isinstance(each, ast.Call) and last_name(each.func) == "numpy" and not each.args
    ]
    within = {id(name) for each in arrays for name in walk(each)}
    others = [each for each in walk(losses[0].value) if isinstance(each, ast.Name) and id(each) not in within]
    if arrays and not inside & {each.id for each in others} and inside & {each.id for each in _names_in(arrays[0])}:
        yield TapeMistake(
            source.location(arrays[0]),
            "an array of NumPy has no gradient, so the tape sees nothing of the network",
            "compute the loss with the tensors themselves",
            source.location(gradients.call),
            "the gradients are asked for here",
        )


def _names_in(node: ast.AST) -> list[ast.Name]:
    return [each for each in walk(node) if isinstance(each, ast.Name)]


def _named(item: ast.withitem) -> str:
    is_tape = isinstance(item.context_expr, ast.Call) and last_name(item.context_expr.func) == "GradientTape"
    return item.optional_vars.id if is_tape and isinstance(item.optional_vars, ast.Name) else ""


def _dropped(source: Source, nodes: Sequence[ast.AST], gradients: _Gradients) -> Iterator[TapeMistake]:
    """Gradients of weights that no code of the file applies, returns or keeps."""
    if not gradients.network:
        return
    for node in nodes:
        kept = node.value if isinstance(node, ast.Return | ast.Yield) else None
        if isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple):
            kept = node.value
        if kept is not None and gradients.name in {each.id for each in walk(kept) if isinstance(each, ast.Name)}:
            return
        is_kept = isinstance(node, ast.Call) and last_name(node.func) in {"append", "extend", "update", "step"}
        if is_kept and gradients.name in unparse(node):
            return
    yield _never_applied(source, gradients)


def _is_read(scope: ast.AST, gradients: _Gradients) -> bool:
    """Whether code of a scope, or of functions in it, reads the gradients by their name."""
    return any(isinstance(each.ctx, ast.Load) and each.id == gradients.name for each in _names_in(scope))


def _never_applied(source: Source, gradients: _Gradients) -> TapeMistake:
    weights = f"{gradients.network}.trainable_variables" if gradients.network else "variables"
    return TapeMistake(
        source.location(gradients.call),
        "these gradients are never applied, so the weights stay as they are",
        f"call `optimizer.apply_gradients(zip({gradients.name}, {weights}))`",
        source.location(gradients.call),
        "",
    )


MODAL = lazy_pattern(r"^(\w*Dropout\w*|BatchNormalization|GaussianNoise|SpectralNormalization)$")
"""Layers of Keras that behave differently in training and inference."""

FUNCTIONAL = frozenset({"Sequential", "Model"})


def passes_without_flag(source: Source) -> Iterator[ast.Call]:
    """The passes inside of a tape, through the network whose gradients it computes, without a flag for training.

    The network is built by the file itself, with a layer that depends on `training`.
    """
    if not source.contains("GradientTape") or source.contains("set_learning_phase"):
        return
    trained = {found.network for node in source.nodes_of(ast.Assign) if (found := _gradients(node)) is not None}
    modal = {name for name in trained if name and _is_modal(source, name)}
    for block in source.nodes_of(ast.With) if modal else ():
        if any("GradientTape" in unparse(item.context_expr) for item in block.items):
            for call in (node for node in walk(block) if isinstance(node, ast.Call)):
                if unparse(call.func) in modal and len(call.args) == 1 and not call.keywords:
                    yield call


MOST_HELPERS = 3
"""How deep the functions of a file are followed that build parts of a network."""


def _made_by(source: Source, function: ast.FunctionDef, depth: int) -> set[str]:
    """The names of what a function calls, and what the functions of the file call that it calls."""
    called = {last_name(node.func) or "" for node in walk(function) if isinstance(node, ast.Call)}
    helpers = [
        each
        for each in (source.nodes_of(ast.FunctionDef) if depth else ())
        if each.name in called and each is not function
    ]
    return called.union(*(_made_by(source, each, depth - 1) for each in helpers))


def _is_modal_class(defined: ast.ClassDef) -> bool:
    """Whether a network of the file has a layer that depends on the mode, and leaves the mode to its caller."""
    is_network = any(last_name(base) == "Model" for base in defined.bases if isinstance(base, ast.Name | ast.Attribute))
    if not is_network:
        return False
    calls = [each for each in walk(defined) if isinstance(each, ast.Call)]
    if not any(MODAL.match(last_name(each.func) or "") for each in calls):
        return False
    return not any(_chooses_mode(each) for each in walk(defined))


def _chooses_mode(node: ast.AST) -> bool:
    """Whether code of a network says itself that it trains: `training=True`, as an argument or as a default."""
    match node:
        case ast.keyword(arg="training", value=ast.Constant(value=True)):
            return True
        case ast.FunctionDef(args=arguments):
            names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][::-1]
            given = zip(names, arguments.defaults[::-1], strict=False)
            return any(name == "training" and isinstance(value, ast.Constant) and value.value for name, value in given)
        case _:
            return False


def _is_modal(source: Source, name: str) -> bool:
    """Whether the only thing that a name is given is a functional network of the file with such a layer."""
    given = [
        node.value for node in source.nodes_of(ast.Assign) if any(unparse(target) == name for target in node.targets)
    ]
    if len(given) != 1 or not isinstance(given[0], ast.Call):
        return False
    name_of_builder = (last_name(given[0].func) or "").removeprefix("self.")
    functions = [node for node in source.nodes_of(ast.FunctionDef) if node.name == name_of_builder]
    if len(functions) == 1:
        made = _made_by(source, functions[0], MOST_HELPERS)
        return not FUNCTIONAL.isdisjoint(made) and any(map(MODAL.match, made))
    classes = [node for node in source.nodes_of(ast.ClassDef) if node.name == name_of_builder]
    if len(classes) == 1:
        return _is_modal_class(classes[0])
    if last_name(given[0].func) != "Sequential":
        return False
    added = [
        node
        for node in source.nodes_of(ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "add" and unparse(node.func.value) == name
    ]
    inside = [node for call in (given[0], *added) for node in walk(call) if isinstance(node, ast.Call)]
    return any(MODAL.match(last_name(node.func) or "") for node in inside)
