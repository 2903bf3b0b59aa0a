"""What a loss is computed from, followed backwards through the names of one function: whether a gradient can pass.

The reader follows tensors that it knows. This goes by the text alone, so that it also sees where code takes the output
of an unknown model off autograd's graph. What it does not understand may have a graph.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from lintrain.analysis import loss_terms
from lintrain.analysis.bindings import bindings
from lintrain.analysis.built_layers import last_name
from lintrain.analysis.script_text import imported_names
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CUTS = frozenset({"detach", "item", "numpy", "tolist", "argmax", "argsort", "argmin", "round", "sign", "floor", "ceil"})
"""Operations that give numbers without a graph, or with a gradient that is zero everywhere."""

BUILDS = frozenset({"tensor", "Tensor", "FloatTensor", "DoubleTensor", "LongTensor", "as_tensor", "from_numpy"})
"""Functions of torch that make a tensor of its own."""

NUMBERS = frozenset({"zeros", "ones", "full", "rand", "randn", "randint", "arange", "linspace", "eye", "empty"})
"""Functions of torch that make numbers from nothing."""

LOSSES = lazy_pattern(r"loss|criteri|cross_entropy|^crit$|^bce$|^mse$|^nll|dist(?:ance)?$")
"""Names of what computes a loss from its arguments alone."""

LABELS = lazy_pattern(r"label|target|truth|^gt|^y(?:_?(?:true|train|batch|real))?$|_y$")
OUTPUTS = lazy_pattern(r"logit|pred|output|^out$|loss")
READS_DATA = lazy_pattern(
    r"load|read|get|transform|process|make|create|generate|sample|var$|tensor|image|rand|init|data|next|open|batch|zip|"
    r"enumerate|range|list|copy|clone|zeros|ones|normal|stack|tokeni|encode$|param"
)
"""Names of functions that give data, and no output of a network."""

MOST_LOSSES = 64
"""Losses of one script that are followed."""

MOST_DEPTH = 40
"""Expressions and names that one loss is followed through."""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of an expression: whether it may have a graph, or where that was cut off.

    `is_live` for something that may have a graph; `cut` the expression after which none is left; neither for data.
    `is_computed` if a call made it, or its name is that of an output.
    """

    is_live: bool = False
    cut: ast.expr | None = None
    is_computed: bool = False


DATA = State()
LIVE = State(is_live=True)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a gradient ends, and whether nothing is left of the graph; `term` is the code of one term of a sum."""

    location: Location
    how: str
    sink: Location
    is_whole: bool
    term: str = ""


def cuts(pipeline: Pipeline) -> Iterator[Cut]:
    """The places where a loss of the script loses its graph, or a part of the network does."""
    source = pipeline.source
    backward = {source.location(call): call.func for call in source.gathered(_backward_calls)}
    events = {event.location: event for event in pipeline.acts(Act.BACKWARD)}
    for event in list(events.values())[:MOST_LOSSES]:
        called = backward.get(event.location)
        if isinstance(called, ast.Attribute):
            yield from _cuts_of(source, called.value, event.location)
    if source.is_partial:
        yield from _cuts_of_returned(source, has_backward=bool(pipeline.acts(Act.BACKWARD)))


def _backward_calls(statement: ast.stmt) -> list[ast.Call]:
    return [each for each in walk(statement) if isinstance(each, ast.Call) and last_name(each.func) == "backward"]


def _cuts_of(source: Source, loss: ast.expr, sink: Location) -> Iterator[Cut]:
    follower = _Follower(source)
    state = follower.state_of(loss)
    if state.cut is not None and not state.is_live:
        yield Cut(source.location(state.cut), _how(state.cut), sink, is_whole=True)
    elif (built := _built_itself(source, loss)) is not None:
        yield Cut(source.location(built), _how(built), sink, is_whole=True)
    elif state.is_live:
        for dead, term in follower.dead_terms(loss):
            yield Cut(source.location(dead), _how(dead), sink, is_whole=False, term=unparse(term))
    for leaf in follower.leaves:
        if state.cut is not leaf:
            yield Cut(source.location(leaf), _how(leaf), sink, is_whole=False)


def _built_itself(source: Source, loss: ast.expr) -> ast.Call | None:
    """The call that makes the loss as a new tensor of numbers: `backward` reaches nothing but this tensor."""
    if not isinstance(loss, ast.Name):
        return None
    values = [value for value in loss_terms.assigned(source, loss.id) if value.lineno < loss.lineno]
    call = values[-1] if values else None
    if not isinstance(call, ast.Call) or not call.args or isinstance(call.args[0], ast.Constant | ast.List):
        return None
    name, _ = _callee(call)
    learns = _learns(call)
    return call if learns and name in BUILDS else None


def _cuts_of_returned(source: Source, *, has_backward: bool) -> Iterator[Cut]:
    """In a piece of a script: what functions that compute a loss return, and a `return` outside of any function."""
    functions = source.nodes_of(ast.FunctionDef)
    inside = {id(node): function for function in functions for node in walk(function) if isinstance(node, ast.Return)}
    classes = {id(each): cls.name for cls in source.nodes_of(ast.ClassDef) for each in cls.body}
    for node in source.nodes_of(ast.Return):
        function = inside.get(id(node))
        is_forward = function is not None and function.name == "forward"
        name = classes.get(id(function), "") if is_forward else function.name if function is not None else ""
        is_loss = function is None or LOSSES.search(name.lower()) is not None
        if node.value is None or (has_backward and not name) or not (is_loss or is_forward):
            continue
        follower = _Follower(source)
        state = follower.state_of(node.value)
        for leaf in (*follower.leaves, *follower.rebuilt) if not is_loss else ():
            yield Cut(source.location(leaf), _how(leaf), source.location(node), is_whole=False)
        if is_loss and state.cut is not None and not state.is_live and follower.leaves:
            yield Cut(source.location(state.cut), _how(state.cut), source.location(node), is_whole=True)


def _how(cut: ast.expr) -> str:
    """The name of what cut the graph: `detach`, `tensor`, `data`, or `no_grad`."""
    match cut:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)) | ast.Attribute(attr=name):
            return name if name in CUTS | BUILDS or name in {"Variable", "data", "max"} else "no_grad"
        case ast.Compare():
            return "compare"
        case _:
            return "no_grad"


class _Follower:
    """Follows one expression backwards.

    `leaves` are the computed tensors that became new ones with gradients of their own on the way, `rebuilt` those that
    became new ones without.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.leaves: list[ast.expr] = []
        self.rebuilt: list[ast.expr] = []
        self._depth = 0
        self._known: dict[int, State] = {}

    def state_of(self, node: ast.expr) -> State:
        """What is known of an expression where it is."""
        if id(node) not in self._known:
            self._known[id(node)] = LIVE
            self._depth += 1
            self._known[id(node)] = self._find(node) if self._depth < MOST_DEPTH else LIVE
            self._depth -= 1
        return self._known[id(node)]

    def dead_terms(self, loss: ast.expr, depth: int = 0) -> Iterator[tuple[ast.expr, ast.expr]]:
        """The terms of a sum that losses give without a gradient, each with where it loses its graph."""
        value = self._value_of(loss)
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub) and depth < MOST_DEPTH:
            for side in (value.left, value.right):
                yield from self.dead_terms(side, depth + 1)
            return
        factors = [each for each in _factors(loss) if not isinstance(each, ast.Constant) and not _is_weight(each)]
        state = self.state_of(factors[0]) if depth and len(factors) == 1 else LIVE
        # A number that is added as it is, `loss + drift.detach()`, is meant to have no gradient.
        is_dead = state.cut is not None and not state.is_live and state.is_computed
        if state.cut is not None and is_dead and self._value_of(factors[0]) is not state.cut:
            yield state.cut, factors[0]

    def _value_of(self, node: ast.expr) -> ast.expr:
        """What a name was given, if that is known; else the expression itself."""
        made = self.source.cached(bindings).before(node) if isinstance(node, ast.Name) else None
        is_plain = made is not None and made.index is None and not made.is_without_grad
        return made.value if is_plain and made is not None and made.value is not None else node

    def _find(self, node: ast.expr) -> State:
        match node:
            case ast.Constant():
                return DATA
            case ast.Name():
                return self._named(node)
            case ast.BinOp(left=left, right=right):
                return _together([self.state_of(left), self.state_of(right)])
            case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
                return self._part(node, inner)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return _together([self.state_of(item) for item in items])
            case ast.Attribute(value=inner, attr="data"):
                return self._cut_off(node, self.state_of(inner))
            case ast.Attribute(attr="shape"):
                return DATA
            case ast.Compare(left=left, comparators=others):
                return self._cut_off(node, _together([self.state_of(each) for each in (left, *others)]))
            case ast.Call():
                return self._called(node)
            case _:
                return LIVE

    def _part(self, node: ast.expr, inner: ast.expr) -> State:
        state = self.state_of(inner)
        match node:
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=1)) if _is_maximum(call):
                return self._cut_off(call, state)
            case _:
                return state

    def _called(self, call: ast.Call) -> State:
        name, owner = _callee(call)
        given = [self.state_of(each) for each in (*call.args, *(each.value for each in call.keywords))]
        learns = _learns(call)
        if name in BUILDS or name == "Variable":
            return self._built(call, _together(given[:1]), learns=learns, is_copy=name != "Variable")
        if owner is not None and name in CUTS:
            is_function = isinstance(owner, ast.Name) and owner.id in {"torch", "np", "numpy"}
            return self._cut_off(call, _together(given[:1]) if is_function else self.state_of(owner))
        module = owner.id if isinstance(owner, ast.Name) else ""
        if module == "torch" and name in NUMBERS:
            return LIVE if learns else DATA
        if module in {"np", "numpy"}:
            return self._cut_off(call, _together(given))
        # A criterion compares two things. What gets one, `self.crit(images)`, is a critic with weights of its own.
        is_critic = name == "crit" and len(given) < 2
        is_loss = LOSSES.search(name) and not is_critic and not self._is_of_object(owner)
        if module in {"torch", "F"} or is_loss or _builds_a_loss(call) or self._is_a_loss(call.func):
            own = self._own_function(call)
            return own if own is not None else _together(given)
        if owner is not None and module not in {"self", "nn"} and name in KEEPING:
            # `labels.to(self.device)`: what a tensor is moved to gives it no gradient.
            return self.state_of(owner) if name in {"to", "type", "cuda"} else _together([self.state_of(owner), *given])
        return replace(LIVE, is_computed=not READS_DATA.search(name.lower()))

    def _built(self, call: ast.Call, given: State, *, learns: bool, is_copy: bool) -> State:
        """A tensor of its own: it has no history, and gradients of its own at most."""
        if learns and not given.is_computed and given.cut is None:
            return LIVE  # numbers that are to be trained themselves
        if given.is_live or given.cut is not None:
            if given.is_computed and learns:
                self.leaves.append(call)
            elif given.is_computed and is_copy and given.cut is not None:
                self.rebuilt.append(call)
            return State(cut=given.cut or call, is_computed=given.is_computed) if learns or is_copy else given
        return LIVE if learns else DATA

    def _cut_off(self, node: ast.expr, given: State) -> State:
        return State(cut=given.cut or node, is_computed=given.is_computed) if given.is_live or given.cut else DATA

    def _is_of_object(self, owner: ast.expr | None) -> bool:
        """Whether a method is one of an object that may have weights: `discriminator.compute_loss(…)`."""
        root = unparse(owner).partition(".")[0] if owner is not None else ""
        is_module = root in {"nn", "F", "torch"} | self.source.cached(imported_names)
        return owner is not None and not is_module and not (isinstance(owner, ast.Name) and owner.id == "self")

    def _is_a_loss(self, callee: ast.expr) -> bool:
        """Whether the file makes a loss of torch under this name: `bce = nn.BCELoss()`."""
        return isinstance(callee, ast.Name) and callee.id in self.source.cached(_loss_names)

    def _own_function(self, call: ast.Call) -> State | None:
        """What a function of the same file returns, if none of its returns has a graph."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        functions = [each for each in self.source.nodes_of(ast.FunctionDef) if each.name == name]
        if len(functions) != 1 or functions[0].decorator_list:
            return None
        returned = [node.value for node in walk(functions[0]) if isinstance(node, ast.Return)]
        states = [self.state_of(value) if value is not None else LIVE for value in returned]
        are_cut = bool(states) and all(state.cut is not None and not state.is_live for state in states)
        return states[0] if are_cut else LIVE

    def _appended(self, name: ast.Name) -> State:
        """What a list holds that starts empty and is filled by `append`."""
        calls = self.source.cached(_appends).get(name.id, [])
        items = [call.args[0] for call in calls if call.lineno <= name.lineno]
        return _together([self.state_of(item) for item in items]) if items else LIVE

    def _named(self, node: ast.Name) -> State:
        made = self.source.cached(bindings).before(node)
        if made is None or made.value is None:
            is_data = (made is not None and made.is_of_loop) or LABELS.search(node.id.lower()) is not None
            return DATA if is_data else replace(LIVE, is_computed=OUTPUTS.search(node.id.lower()) is not None)
        items = made.value.elts if isinstance(made.value, ast.Tuple) else []
        is_item = made.index is not None and made.index < len(items)
        state = self.state_of(items[made.index or 0] if is_item else made.value)
        if isinstance(made.value, ast.List) and not made.value.elts:
            state = self._appended(node)
        if made.index == 1 and isinstance(made.value, ast.Call) and _is_maximum(made.value):
            state = self._cut_off(made.value, state)
        if made.is_without_grad and state.is_live:
            return State(cut=made.value, is_computed=state.is_computed)
        return state


def _appends(source: Source) -> dict[str, list[ast.Call]]:
    """The calls that append one item to a list, by the name of the list."""
    found: dict[str, list[ast.Call]] = {}
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[_]):
                found.setdefault(name, []).append(call)
            case _:
                pass
    return found


def _together(states: list[State]) -> State:
    """What is computed of several things: it has a graph if one of them may have one."""
    cut = next((state.cut for state in states if state.cut is not None), None)
    is_live = any(state.is_live for state in states)
    return State(is_live, None if is_live else cut, any(state.is_computed for state in states))


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    """The factors of a product, or of a quotient whose divisor is a number."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            yield from _factors(left)
            yield from _factors(right)
        case ast.UnaryOp(operand=inner):
            yield from _factors(inner)
        case _:
            yield node


WEIGHT = lazy_pattern(
    r"(?i:^(self\.)?(args|cfg|config|conf|opts?|hp|hparams|params|flags)\.)|(^|\.)[A-Z][A-Z\d_]*$|"
    r"(?i:(^|[._])(w|weight|lambda|lam|lamb|lambd|lmbda|alpha|beta|gamma|coeff?|scale|factor|ratio)(\d|_|$))"
)


def _is_weight(factor: ast.expr) -> bool:
    """Whether a factor only weights a term: a setting, or a name for one."""
    return isinstance(factor, ast.Name | ast.Attribute) and WEIGHT.search(unparse(factor)) is not None


def _loss_names(source: Source) -> frozenset[str]:
    """The names that a file binds to losses of torch."""
    return frozenset(
        target.id
        for node in source.nodes_of(ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Call) and _made_by(node.value).endswith("Loss")
    )


def _made_by(call: ast.Call) -> str:
    """The name of the class whose object an expression gives: `nn.BCELoss().to(device)` gives a `BCELoss`."""
    func = call.func
    while isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call):
        func = func.value.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _callee(call: ast.Call) -> tuple[str, ast.expr | None]:
    return last_name(call.func), call.func.value if isinstance(call.func, ast.Attribute) else None


def _learns(call: ast.Call) -> bool:
    return any(each.arg == "requires_grad" and unparse(each.value) == "True" for each in call.keywords)


def _is_maximum(call: ast.Call) -> bool:
    """`torch.max(outputs, 1)` and `outputs.max(1)`, whose second result are positions."""
    name, owner = _callee(call)
    is_function = isinstance(owner, ast.Name) and owner.id == "torch"
    return name in {"max", "min", "topk", "sort"} and len(call.args) + len(call.keywords) > is_function


def _builds_a_loss(call: ast.Call) -> bool:
    """`nn.MSELoss()(outputs, targets)`."""
    return isinstance(call.func, ast.Call) and LOSSES.search(_callee(call.func)[0].lower()) is not None


KEEPING = frozenset(
    {"abs", "clamp", "contiguous", "cpu", "cuda", "div", "double", "exp", "expand", "flatten", "float", "half"}
    | {"log", "log_softmax", "long", "matmul", "max", "mean", "min", "mul", "permute", "pow", "relu", "reshape"}
    | {"sigmoid", "softmax", "sqrt", "squeeze", "sub", "sum", "t", "tanh", "to", "transpose", "type", "unsqueeze"}
    | {"view", "add", "norm", "square", "int", "bool", "size", "dim", "eq", "astype"}
)
"""Methods of tensors that keep the graph."""
