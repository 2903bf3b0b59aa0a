"""Target networks of reinforcement learning: what writes the weights of the network that learns into them.

A target network is a second network of the same class, by whose estimate of the next state the first one learns. It has
to start with the weights of the first, and to follow them: by a copy at regular intervals, or by a share in each step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import children, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

TARGET = lazy_pattern(r"(?i)(?:^|[._])(?:tgt|target\d?)(?:$|_)|_target\d?$|[a-z]Target(?:$|[A-Z_])")
"""Names of networks whose estimates are learned from."""

FIXED = lazy_pattern(r"(?i)predictor|student|rnd|random|frozen|fixed")
"""Names of networks whose targets stay as they are on purpose: those of random network distillation."""

DISCOUNTS = lazy_pattern(r"(?i)gamma|discount|\b0?\.9\d*\s*\*")

KEEPS = frozenset({"to", "cuda", "cpu", "float", "double", "eval", "train", "requires_grad_", "apply"})
"""Methods of a network that leave its weights as they are, or give it other first weights."""

READS = KEEPS | {
    "forward",
    "parameters",
    "named_parameters",
    "state_dict",
    "modules",
    "buffers",
    "zero_grad",
    "share_memory",
}
SOFT = lazy_pattern(r"(?i)\btau\b|polyak|lerp|\*|\.mul_?\(|momentum|decay|rho")
"""Code that mixes two weights."""

SOFTENS = lazy_pattern(r"(?i)soft|polyak|ema")
RESTORES = lazy_pattern(r"(?i)\bload\(|checkpoint|ckpt|\bsaved|\[")
"""Code of weights that come from a file."""


class Write(StrEnum):
    """What gives a target network other weights."""

    START = "start"
    COPY = "copy"
    SHARE = "share"
    UNKNOWN = "unknown"


class State(StrEnum):
    """What a target network lacks: both writes, the one at the start, or those that follow."""

    ALONE = "alone"
    FOLLOWS = "follows"
    STARTS = "starts"


@dataclass(frozen=True, slots=True)
class Target:
    """A target network: where it is made, its code and that of the network that learns, and what it lacks."""

    location: Location
    name: str
    learner: str
    state: State


def stale_targets(source: Source) -> Iterator[Target]:
    """The target networks of a file that nothing writes to, or that never start with the weights of the learner."""
    if not (source.contains(r"[tT]arget|tgt") and source.contains(DISCOUNTS)):
        return
    scopes: list[ast.AST] = [source.tree, *source.nodes_of(ast.ClassDef)]
    for scope in scopes:
        made = _networks(scope)
        for name, statement in made.items():
            learner = next((each for each in made if _learns(scope, made, each, name)), None)
            if learner is not None:
                yield from _judge(source, scope, statement, name, learner)


def _networks(scope: ast.AST) -> dict[str, ast.Assign]:
    """What a class or the module makes by calling a class, by its code: attributes, or names of the module."""
    is_class = isinstance(scope, ast.ClassDef)
    found: dict[str, ast.Assign] = {}
    doubled = set[str]()
    for node in walk(scope) if is_class else children(scope):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self")) | ast.Name() as bound], value=value):
                code = unparse(bound)
                if is_class != code.startswith("self."):
                    continue
                if code in found:
                    doubled.add(code)
                if _class_of(value):
                    found[code] = node
            case _:
                pass
    return {code: node for code, node in found.items() if code not in doubled}


def _class_of(value: ast.expr) -> str:
    """The class that a call makes an object of, through `.to(device)`; empty for anything else."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr=name)) if name in KEEPS:
            return _class_of(inner)
        case ast.Call(func=called):
            name = last_name(called)
            return name if name[:1].isupper() and not name.isupper() else ""
        case _:
            return ""


def _learns(scope: ast.AST, made: Mapping[str, ast.Assign], name: str, target: str) -> bool:
    """Whether a network of the class of a target network is the one that an optimizer gets."""
    if name == target or TARGET.search(target) is None or TARGET.search(name) is not None or FIXED.search(name):
        return False
    if _class_of(made[name].value) != _class_of(made[target].value):
        return False
    plain = {_bare(name), _bare(target)}
    if _class_of(made[name].value) not in {"Sequential", "Linear"} and len(plain) > 1:
        # Of two critics, each has its own target network.
        others = [each for each in made if _class_of(made[each].value) == _class_of(made[name].value)]
        if any(_bare(each) == _bare(target) for each in others if each != target and TARGET.search(each) is None):
            return False
    given = [unparse(each) for each in walk(scope) if isinstance(each, ast.Call) and _is_optimizer(each)]
    return any(f"{name}.parameters()" in code for code in given) and not any(
        f"{target}.parameters()" in code for code in given
    )


def _bare(name: str) -> str:
    """A name without the word that says which of two networks it is."""
    last = name.rpartition(".")[2].lower()
    return last.replace("target", "").replace("tgt", "").replace("local", "").replace("main", "").strip("_")


def _is_optimizer(call: ast.Call) -> bool:
    name = last_name(call.func)
    return name.startswith(("Adam", "RMSprop", "SGD", "RAdam", "NAdam", "Adagrad", "Lion"))


def _judge(source: Source, scope: ast.AST, made: ast.Assign, name: str, learner: str) -> Iterator[Target]:
    parents = {id(child): node for node in walk(scope) for child in children(node)}
    uses = [each for each in walk(scope) if isinstance(each, ast.Name | ast.Attribute) and unparse(each) == name]
    if isinstance(scope, ast.ClassDef) and _is_reached(source, scope, name):
        return
    if not isinstance(scope, ast.ClassDef) and any(
        name in _bound_in(each) for each in source.nodes_of(ast.FunctionDef)
    ):
        return
    writes = list[Write]()
    is_asked = False
    for use in uses:
        if use is made.targets[0]:
            continue
        parent = parents.get(id(use))
        if isinstance(parent, ast.Call) and parent.func is use:
            is_asked = is_asked or _is_in_estimate(parents, parent)
            continue
        is_first = _is_at_start(parents, use)
        found = _writes(source, parents, use, parent)
        writes.extend(Write.START if each is Write.COPY and is_first else each for each in found)
    if not is_asked or Write.UNKNOWN in writes or Write.COPY in writes:
        return
    if Write.SHARE not in writes or Write.START not in writes:
        state = State.FOLLOWS if Write.SHARE in writes else State.STARTS if Write.START in writes else State.ALONE
        yield Target(source.location(made), name, learner, state)


def _is_at_start(parents: Mapping[int, ast.AST], node: ast.AST) -> bool:
    """Whether a statement runs once before the training: outside of loops, in the module or a constructor."""
    above = parents.get(id(node))
    while above is not None and not isinstance(above, ast.For | ast.While | ast.If | ast.FunctionDef):
        above = parents.get(id(above))
    return above is None or (isinstance(above, ast.FunctionDef) and above.name == "__init__")


def _is_reached(source: Source, scope: ast.ClassDef, name: str) -> bool:
    """Whether code outside of a class names its attribute, or a class of the file derives from it."""
    attribute = name.rpartition(".")[2]
    inside = {id(each) for each in walk(scope)}
    return any(
        (isinstance(each, ast.Attribute) and each.attr == attribute and id(each) not in inside)
        or (isinstance(each, ast.ClassDef) and scope.name in [unparse(base) for base in each.bases])
        for each in source.nodes
    )


def _bound_in(function: ast.FunctionDef) -> set[str]:
    return {each.id for each in walk(function) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}


def _is_in_estimate(parents: Mapping[int, ast.AST], call: ast.Call) -> bool:
    """Whether the function around the pass of a target network discounts something."""
    node: ast.AST = call
    while not isinstance(node, ast.FunctionDef | ast.Module | ast.ClassDef) and id(node) in parents:
        node = parents[id(node)]
    return DISCOUNTS.search(unparse(node)) is not None


def _writes(source: Source, parents: Mapping[int, ast.AST], use: ast.AST, parent: ast.AST | None) -> Iterator[Write]:
    """What a use of a target network writes to it."""
    if isinstance(parent, ast.Attribute):
        above = parents.get(id(parent))
        if parent.attr == "load_state_dict" and isinstance(above, ast.Call) and above.args:
            code = unparse(above.args[0])
            if "state_dict()" in code or RESTORES.search(code) is None:
                yield Write.UNKNOWN if unparse(use) in code else Write.COPY
            return
        if parent.attr in {"parameters", "named_parameters", "state_dict", "buffers"}:
            yield from _of_weights(source, parents, above)
        elif parent.attr not in READS:
            yield Write.UNKNOWN
    elif isinstance(parent, ast.Call):
        yield _of_call(source, parent)
    else:
        yield Write.UNKNOWN


def _of_weights(source: Source, parents: Mapping[int, ast.AST], call: ast.AST | None) -> Iterator[Write]:
    """What the weights of a target network are used for: a loop over them, or a call that gets them."""
    around = parents.get(id(call))
    while isinstance(around, ast.Call) and last_name(around.func) in {"zip", "list", "iter", "enumerate"}:
        call, around = around, parents.get(id(around))
    match around:
        case ast.For(iter=iterated) if iterated is call:
            code = "\n".join(unparse(each) for each in around.body)
            if "requires_grad" in code:
                return
            is_share = SOFT.search(code) is not None and not _is_run_whole(source, parents, around)
            yield Write.SHARE if is_share else Write.COPY
        case ast.Call(func=ast.Name(id="len" | "sum" | "print")):
            return
        case ast.Call(func=ast.Attribute(attr="save")) | ast.Dict():
            return  # it is put into a checkpoint
        case ast.Call():
            yield _of_call(source, around)
        case _:
            yield Write.UNKNOWN


def _is_run_whole(source: Source, parents: Mapping[int, ast.AST], node: ast.AST) -> bool:
    """Whether some call of the function around a statement gives it the share 1."""
    above: ast.AST | None = node
    while above is not None and not isinstance(above, ast.FunctionDef):
        above = parents.get(id(above))
    if above is None:
        return False
    calls = [each for each in source.nodes_of(ast.Call) if last_name(each.func) == above.name]
    return _defaults(above) or any(_gives_one(each) for each in calls)


def _gives_one(call: ast.Call) -> bool:
    given = [*call.args, *(each.value for each in call.keywords)]
    return any(isinstance(each, ast.Constant) and each.value == 1 for each in given)


def _of_call(source: Source, call: ast.Call) -> Write:
    """What a function does with a target network that it gets."""
    name = last_name(call.func)
    if _gives_one(call):
        return Write.COPY
    found = [each for each in source.nodes_of(ast.FunctionDef) if each.name == name]
    if len(found) != 1:
        return Write.SHARE if not found and SOFTENS.search(name) else Write.UNKNOWN
    if _defaults(found[0]) or not _mixes(found[0].body):
        return Write.UNKNOWN
    return Write.SHARE


def _defaults(function: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == 1 for each in function.args.defaults)


def _mixes(body: Sequence[ast.stmt]) -> bool:
    return SOFT.search("\n".join(unparse(each) for each in body)) is not None
