"""Passes of networks whose output ends as plain numbers within one function, so that its graph serves nothing.

An agent that acts, or a step that only counts right answers, reads `net(x).argmax().item()`: no gradient can flow back
through that. What is returned, stored, or given to unknown code may still reach a loss.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source import by_name
from lintrain.source.nodes import children, is_within, own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ENDS = frozenset(
    {"item", "tolist", "detach", "argmax", "argmin", "long", "int", "bool", "size", "dim", "multinomial", "sample"}
)
"""Methods of a tensor or distribution whose result carries no gradient."""

KEEPS = frozenset(
    {
        *(
            "cpu",
            "to",
            "cuda",
            "float",
            "double",
            "squeeze",
            "unsqueeze",
            "view",
            "reshape",
            "flatten",
            "clamp",
            "round",
        ),
        *("exp", "log", "softmax", "log_softmax", "sigmoid", "tanh", "mean", "sum", "abs", "permute", "transpose"),
        *("log_prob", "gather", "masked_fill", "clip", "contiguous", "clone"),
    }
)
"""Methods and functions whose result carries the gradient of what they get."""

PAIRS = frozenset({"max", "min", "topk", "sort"})
"""Methods that give numbers and where they are: the second has no gradient."""

DISTRIBUTIONS = frozenset({"Categorical", "Normal", "Bernoulli", "MultivariateNormal", "Independent", "Beta"})

PLAIN = frozenset({"int", "float", "bool", "len", "argmax", "argmin", "multinomial"})
"""Functions whose result carries no gradient."""

PARTS = frozenset({"logits", "probs"})

ABOUT_NETWORK = frozenset({"training", "module", "device", "dtype", "config"})
"""Attributes of a network that are not results of its passes."""


@dataclass(frozen=True, slots=True)
class DeadGraph:
    """A call whose result ends as a number: where, and where that is."""

    location: Location
    ends: Location


def dead_graphs(source: Source, passes: Collection[Location]) -> Iterator[DeadGraph]:
    """The calls at some places whose results end as numbers in their function, wherever they are read."""
    if not passes or not source.contains(r"\.item\(|\.tolist\(|\.detach\(|argmax\(|\.data\b|\.sample\("):
        return
    lines = sorted(each.line for each in passes)
    for function in source.nodes_of(ast.FunctionDef):
        if not is_within(lines, function):
            continue
        followed = _Followed(source, function)
        for node in own_nodes(function):
            if isinstance(node, ast.Call) and node.lineno in lines and _may_be_network(node):
                location = source.location(node)
                if location in passes and not followed.keeps_more(node) and (ends := followed.ends(node)):
                    yield DeadGraph(location, source.location(ends[0]))


def method_passes(source: Source) -> Iterator[DeadGraph]:
    """The calls of own methods of trained networks, `self.actor.act(state)`, whose results end as numbers."""
    if not source.contains(r"\.detach\(|\.item\(") or not source.contains(r"\.parameters\("):
        return
    methods = {each.name: each for each in source.nodes_of(ast.FunctionDef)}
    calls = [each for each in by_name.calls_of(source, methods.keys()) if _is_pass(source, each, methods)]
    lines = sorted(each.lineno for each in calls)
    for function in methods.values() if calls else ():
        if not is_within(lines, function) or _is_off(function.decorator_list):
            continue
        followed = _Followed(source, function)
        own = {id(each) for each in own_nodes(function)}
        blocks = (each for each in own_nodes(function) if isinstance(each, ast.With) and _is_off(_heads(each)))
        off = {id(part) for each in blocks for part in walk(each)}
        for call in calls:
            if id(call) in own and id(call) not in off and (ends := followed.ends(call)):
                yield DeadGraph(source.location(call), source.location(ends[0]))


def _is_pass(source: Source, call: ast.Call, methods: Mapping[str, ast.FunctionDef]) -> bool:
    """Whether an expression calls a method of the file that runs its network, of an object that is trained."""
    match call:
        case ast.Call(func=ast.Attribute(value=network, attr=name), args=[_, *_]):
            given = re.escape(unparse(network))
            is_trained = source.contains(rf"\w\([^\n]*(?<![\w.]){given}\.parameters\(\)")
            return is_trained and _runs_self(methods[name])
        case _:
            return False


def _heads(block: ast.With) -> list[ast.expr]:
    return [item.context_expr for item in block.items]


def _is_off(expressions: Sequence[ast.expr]) -> bool:
    return any(OFF.search(unparse(each)) for each in expressions)


OFF = lazy_pattern(r"no_grad|inference_mode|set_grad_enabled")


def _runs_self(method: ast.FunctionDef) -> bool:
    """Whether a method runs its network with autograd on: `self.forward(state)`, `self(state)`, or a layer of it."""
    code = unparse(method)
    return OFF.search(code) is None and (RUNS.search(code) is not None)


RUNS = lazy_pattern(r"\bself\(|\bself\.\w+\(")


def _may_be_network(call: ast.Call) -> bool:
    """Whether a call may run a network: by a name of the script, with something to run it on."""
    match call.func:
        case ast.Name(id=name):
            return bool(call.args or call.keywords) and name not in PLAIN and not name[:1].isupper()
        case ast.Attribute(value=ast.Name(id="self")):
            return bool(call.args or call.keywords)
        case _:
            return False


class _Followed:
    """Where the results of calls go to in one function."""

    def __init__(self, source: Source, function: ast.FunctionDef) -> None:
        nodes = own_nodes(function)
        self.source = source
        self.parents: Mapping[int, ast.AST] = {id(child): node for node in walk(function) for child in children(node)}
        self.names = [node for node in nodes if isinstance(node, ast.Name)]
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        self.attributes = [each for each in nodes if isinstance(each, ast.Attribute) and id(each) not in called]
        inner = {id(node) for node in nodes}
        # What a nested function reads may run at any time.
        self.shared = {node.id for node in walk(function) if isinstance(node, ast.Name) and id(node) not in inner}

    def keeps_more(self, call: ast.Call) -> bool:
        """Whether the code reads what the network keeps of a pass: `loss = net.loss` after `outputs = net(rows)`."""
        kept = [each for each in self.attributes if each.lineno >= call.lineno and each.attr not in ABOUT_NETWORK]
        return any(unparse(each.value) == unparse(call.func) for each in kept)

    def ends(self, node: ast.expr, steps: int = 12) -> list[ast.expr]:
        """The expressions in which the gradient of a value ends; empty if some of it may go elsewhere."""
        parent = self.parents.get(id(node))
        if steps <= 0 or parent is None:
            return []
        match parent:
            case ast.Attribute(value=value) if value is node:
                return self._of_attribute(parent, steps)
            case ast.Subscript(value=value) if value is node:
                return self.ends(parent, steps - 1)
            case ast.Compare():
                return [parent]
            case ast.BinOp() | ast.UnaryOp() | ast.IfExp():
                return self.ends(parent, steps - 1)
            case ast.Call():
                return self._of_argument(parent, node, steps)
            case ast.keyword():
                around = self.parents.get(id(parent))
                is_function = isinstance(around, ast.Call) and last_name(around.func) in DISTRIBUTIONS
                return self.ends(around, steps - 1) if isinstance(around, ast.Call) and is_function else []
            case ast.Assign(targets=[target], value=value) if value is node:
                return self._of_names(parent, target, steps)
            case _:
                return []

    def _of_attribute(self, attribute: ast.Attribute, steps: int) -> list[ast.expr]:
        around = self.parents.get(id(attribute))
        if not (isinstance(around, ast.Call) and around.func is attribute):
            if attribute.attr == "data":
                return [attribute]
            return self.ends(attribute, steps - 1) if attribute.attr in PARTS else []
        if attribute.attr in ENDS:
            return [around]
        if attribute.attr in PAIRS:
            return self._of_pair(around, steps)
        return self.ends(around, steps - 1) if attribute.attr in KEEPS else []

    def _detaches(self, call: ast.Call, argument: ast.expr) -> bool:
        """Whether a function of the file, as that of a memory, only reads what it gets behind `detach`."""
        name = last_name(call.func)
        own = [each for each in self.source.nodes_of(ast.FunctionDef) if each.name == name]
        if len(own) != 1 or argument not in call.args:
            return False
        is_method = isinstance(call.func, ast.Attribute) and own[0].args.args[:1] and own[0].args.args[0].arg == "self"
        position = call.args.index(argument) + bool(is_method)
        parameters = own[0].args.args
        return position < len(parameters) and _only_detached(own[0], parameters[position].arg)

    def _of_argument(self, call: ast.Call, argument: ast.expr, steps: int) -> list[ast.expr]:
        name, module = last_name(call.func), unparse(call.func).rpartition(".")[0]
        if module.startswith(("np", "numpy")):
            return []  # NumPy refuses what has a gradient, so that autograd is off
        if name in PLAIN or self._detaches(call, argument):
            return [call]
        if module in {"torch", "F", "nn.functional", "torch.nn.functional"} and name in PAIRS:
            return self._of_pair(call, steps)
        is_function = module in {"torch", "F", "nn.functional", "torch.nn.functional"} and name in KEEPS
        return self.ends(call, steps - 1) if is_function or name in DISTRIBUTIONS else []

    def _of_pair(self, call: ast.Call, steps: int) -> list[ast.expr]:
        around = self.parents.get(id(call))
        match around:
            case ast.Subscript(slice=ast.Constant(value=1)) | ast.Attribute(attr="indices"):
                return [around]
            case ast.Assign(targets=[ast.Tuple(elts=[first, _])]):
                return [call] if unparse(first) == "_" else []
            case ast.Attribute(attr="item") | ast.Subscript(slice=ast.Constant(value=0)) | ast.Attribute(attr="values"):
                return self.ends(call, steps - 1)
            case _:
                return []

    def _of_names(self, bound: ast.Assign, target: ast.expr, steps: int) -> list[ast.expr]:
        """What all reads of the names that a statement binds end in."""
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        found: list[ast.expr] = []
        for each in names:
            if not isinstance(each, ast.Name) or each.id in self.shared:
                return []
            reads = self._reads(bound, each)
            if reads is None:
                return []
            for read in reads:
                ends = self.ends(read, steps - 1)
                if not ends:
                    return []
                found.extend(ends)
        return found

    def _reads(self, bound: ast.Assign, name: ast.Name) -> list[ast.Name] | None:
        """The reads of a name between its binding and the next one; None if the next iteration may read it."""
        own = [each for each in self.names if each.id == name.id and each is not name]
        before = [each for each in own if _place(each) < _place(name) and isinstance(each.ctx, ast.Load)]
        after = [each for each in own if _place(each) > _place(name)]
        rebound = [each for each in after if not isinstance(each.ctx, ast.Load)]
        if self._loops(bound) and any(each not in list(walk(bound.value)) for each in before):
            return None
        if not rebound:
            return [each for each in after if isinstance(each.ctx, ast.Load)]
        statement = self.parents.get(id(rebound[0]))
        if not isinstance(statement, ast.Assign) or self.parents.get(id(statement)) is not self.parents.get(id(bound)):
            return None
        end = (statement.end_lineno or statement.lineno, statement.end_col_offset or 0)
        return [each for each in after if isinstance(each.ctx, ast.Load) and _place(each) <= end]

    def _loops(self, node: ast.AST) -> bool:
        above = self.parents.get(id(node))
        while above is not None and not isinstance(above, ast.For | ast.While):
            above = self.parents.get(id(above))
        return above is not None


def _only_detached(function: ast.FunctionDef, name: str) -> bool:
    """Whether all reads of a parameter are `name.detach()` or `name.data`, or ask for its sizes."""
    reads = {id(each) for each in walk(function) if isinstance(each, ast.Name) and each.id == name}
    cut = {
        id(each.value): each.attr
        for each in walk(function)
        if isinstance(each, ast.Attribute) and each.attr in {"detach", "data", "shape", "size", "device"}
    }
    return bool(reads) and reads <= cut.keys() and any(cut[each] in {"detach", "data"} for each in reads)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
