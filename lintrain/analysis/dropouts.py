"""Dropout that `eval()` does not reach: by a function without the mode, or by a layer that is built in the pass."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis.script_text import networks_of
from lintrain.model.location import Location
from lintrain.source.nodes import children, unparse, walk
from lintrain.source.source import Source
from lintrain.source.training_syntax import imports
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

Function = ast.FunctionDef | ast.AsyncFunctionDef

FUNCTIONAL = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"})
"""Functions of `torch.nn.functional` that drop unless `training=False` is given."""

HOLDERS = frozenset({"F", "nn.functional", "torch.nn.functional"})
"""How files name `torch.nn.functional`."""

MOST_ARGUMENTS = {"dropout": 2}
"""How many arguments a call may have before the one that is `training`."""

ATTENTION = frozenset({"scaled_dot_product_attention", "flash_attn_func", "flash_attn_varlen_func"})
"""Functions of attention that drop with the probability that they get, in every mode."""

RATES = {"scaled_dot_product_attention": 4, "flash_attn_func": 3}
"""The place of the probability among the arguments of attention."""

ABOUT_MODE = lazy_pattern(r"train|(?<!ri)eval|infer|determin|self\.mode|is_test", re.IGNORECASE)
"""Words of conditions and arguments that depend on the mode."""

ON_PURPOSE = lazy_pattern(
    r"(^|_)mc(_|$)|MC[A-Z_]|[Mm]onte|[Bb]ayes|[Uu]ncertain|[Aa]lways|[Ss]ampl|[Aa]ugment|[Nn]ois|[Pp]re_?[Nn]et"
)
"""Names of classes and methods that drop in every mode because they mean to, as the prenet of Tacotron does."""

OWN = lazy_pattern(r"drop_?out|drop_?path|drop_?connect|stochastic_?depth", re.IGNORECASE)
"""Names of dropout that a project writes itself."""

BUILT = lazy_pattern(r"^(?:torch\.)?nn\.(?:Alpha)?Dropout[123]?d?$")
"""Layers of torch that drop; those of flax have the same names, and are built in the pass."""

DRAWS = frozenset({"rand", "rand_like", "bernoulli", "bernoulli_", "uniform_", "random_"})


@dataclass(frozen=True, slots=True)
class Dropout:
    """A call that drops in every mode: its code, and whether `training=self.training` would end that."""

    location: Location
    code: str
    takes_mode: bool


def dropouts_in_every_mode(source: Source) -> list[Dropout]:
    """The calls in a file that drop whether or not the network is in train mode."""
    return source.cached(_dropouts)


def _dropouts(source: Source) -> list[Dropout]:
    if not source.contains(OWN):
        return []
    return [*_in_methods(source), *_of_own_classes(source)]


def _in_methods(source: Source) -> Iterator[Dropout]:
    own, meant = _own_functions(source), _imported(source)
    for owner, method in _methods(source):
        is_meant = ON_PURPOSE.search(owner) or ON_PURPOSE.search(method.name) or ABOUT_MODE.search(method.name)
        is_meant = is_meant or INITIALIZES.match(method.name)  # what it drops, it drops once: weights of a sparse layer
        if is_meant or source.once(_ends_early, method):  # a `training_step` only trains
            continue
        for call in source.once(_free_calls, method):
            code = unparse(call.func)
            if isinstance(call.func, ast.Call) and _is_built_layer(source, call, call.func):
                # A layer that is built in the pass is in train mode, whatever the mode of the network is.
                yield Dropout(source.location(call), unparse(call.func.func), takes_mode=False)
                continue
            name = meant.get(code) or _functional(code, meant)
            if name in FUNCTIONAL and _drops_always(call, name):
                yield Dropout(source.location(call), code, takes_mode=True)
            elif code.rpartition(".")[2] in ATTENTION and _is_ungated(method, call):
                yield Dropout(source.location(call), code, takes_mode=False)
            if code in own and not ABOUT_MODE.search(unparse(call)) and not _is_used_by_mode(source, method, call):
                yield Dropout(source.location(call), code, takes_mode=False)


INITIALIZES = lazy_pattern(r"_*(?:init|reset)_")
"""Names of methods that make the weights of a network."""


def _imported(source: Source) -> dict[str, str]:
    """What names of a file mean: a function of `torch.nn.functional`, or (empty) that module itself."""
    found: dict[str, str] = {}
    for node in imports(source):
        module = node.module if isinstance(node, ast.ImportFrom) else None
        for alias in node.names:
            path = f"{module}.{alias.name}" if module else alias.name
            if path == "torch.nn.functional" and (module or alias.asname):
                found[alias.asname or alias.name] = ""
            elif module == "torch.nn.functional":
                found[alias.asname or alias.name] = alias.name
    return found


def _functional(code: str, meant: dict[str, str]) -> str:
    """The function of `torch.nn.functional` that code names through the module; empty for other code."""
    holder, _, name = code.rpartition(".")
    return name if holder in HOLDERS or meant.get(holder) == "" else ""


def _methods(source: Source) -> Iterator[tuple[str, Function]]:
    """The methods of networks, and functions that are written to be one, each with the name of its class."""
    for network in _networks(source):
        for each in network.body:
            if isinstance(each, Function) and each.args.args:
                yield network.name, each
    for each in source.tree.body:
        if isinstance(each, Function) and each.args.args and each.args.args[0].arg == "self":
            yield "", each


def _networks(source: Source) -> list[ast.ClassDef]:
    """The networks of a file, those too whose base is in another file: a class with a base and `forward`."""
    known = networks_of(source)
    others = [node for node in source.nodes_of(ast.ClassDef) if node.bases and node not in known and _has_forward(node)]
    return [*known, *others]


def _has_forward(node: ast.ClassDef) -> bool:
    return any(isinstance(each, Function) and each.name == "forward" for each in node.body)


def _free_calls(method: Function) -> list[ast.Call]:
    """The calls in a method that no condition about the mode guards."""
    found: list[ast.Call] = []
    pending: list[ast.AST] = list(method.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If | ast.IfExp | ast.While) and ABOUT_MODE.search(unparse(node.test)):
            continue
        if isinstance(node, ast.BoolOp) and ABOUT_MODE.search(unparse(node)):
            continue
        if isinstance(node, ast.Call):
            found.append(node)
        pending.extend(children(node))
    return found


def _is_built_layer(source: Source, call: ast.Call, made: ast.Call) -> bool:
    """Whether a call is that of a dropout layer of torch which is built there."""
    is_plain = len(call.args) == 1 and not call.keywords and not source.contains(r"\b(?:flax|jax)\b")
    return is_plain and BUILT.search(unparse(made.func)) is not None


def _ends_early(method: Function) -> bool:
    """Whether a condition about the mode ends a method before its end."""
    return any(
        isinstance(node, ast.If)
        and ABOUT_MODE.search(unparse(node.test))
        and any(isinstance(each, ast.Return | ast.Raise) for each in node.body)
        for node in walk(method)
    )


def _drops_always(call: ast.Call, name: str) -> bool:
    """Whether a call of functional dropout gets no mode, and a probability that is not written as 0."""
    names = {keyword.arg for keyword in call.keywords}
    if (
        names & {"training", None}
        or len(call.args) > MOST_ARGUMENTS.get(name, 2)
        or any(isinstance(each, ast.Starred) for each in call.args)
    ):
        return False
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "p"), None)
    rate = call.args[1] if len(call.args) > 1 else given
    return not _is_zero(rate) and (rate is None or not ABOUT_MODE.search(unparse(rate)))


def _is_zero(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _is_ungated(method: Function, call: ast.Call) -> bool:
    """Whether attention gets a probability of the network's own, which no condition sets to 0."""
    index = RATES.get(unparse(call.func).rpartition(".")[2], len(call.args))
    given = call.args[index] if len(call.args) > index else None
    rate = next((keyword.value for keyword in call.keywords if keyword.arg == "dropout_p"), given)
    if rate is None or _is_zero(rate) or ABOUT_MODE.search(unparse(rate)):
        return False
    if isinstance(rate, ast.Name):
        if _is_set_by_mode(method, rate.id):
            return False
        made = [
            unparse(node.value)
            for node in walk(method)
            if isinstance(node, ast.Assign) and any(unparse(target) == rate.id for target in node.targets)
        ]
        return bool(made) and not any(ABOUT_MODE.search(each) or "if" in each.split() for each in made)
    return isinstance(rate, ast.Constant) or unparse(rate).startswith("self.")


def _is_set_by_mode(method: Function, name: str) -> bool:
    """Whether a variable is set below a condition about the mode."""
    return any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
        for node in walk(method)
        if isinstance(node, ast.If) and ABOUT_MODE.search(unparse(node.test))
        for each in walk(node)
    )


def _is_used_by_mode(source: Source, method: Function, call: ast.Call) -> bool:
    """Whether the result of a call gets a name that its class only asks for together with the mode.

    That name may be the parameter of another method, which gets the result: `self.cell(x, mask)`.
    """
    names = {
        target.id
        for node in walk(method)
        if isinstance(node, ast.Assign) and node.value is call
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    network = next((each for each in source.nodes_of(ast.ClassDef) if method in each.body), None)
    if not names or network is None:
        return False
    methods = {each.name: each for each in network.body if isinstance(each, Function)}
    for node in walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            parameters = [each.arg for each in methods[node.func.attr].args.args[1:]]
            given = [*zip(parameters, node.args, strict=False), *((each.arg, each.value) for each in node.keywords)]
            names |= {name for name, value in given if name and isinstance(value, ast.Name) and value.id in names}
    return any(
        isinstance(each, ast.Name) and each.id in names
        for node in walk(network)
        if isinstance(node, ast.If | ast.IfExp) and ABOUT_MODE.search(unparse(node.test))
        for each in walk(node)
    )


def _own_functions(source: Source) -> frozenset[str]:
    """The functions of a file that drop by random numbers, whatever the mode."""
    return frozenset(
        each.name
        for each in source.tree.body
        if isinstance(each, Function)
        and OWN.search(each.name)
        and not ABOUT_MODE.search(unparse(each))
        and _draw_in(each) is not None
    )


def _of_own_classes(source: Source) -> Iterator[Dropout]:
    """Where a dropout layer of a project draws its random numbers, if the class never asks for the mode."""
    for network in _networks(source):
        if not OWN.search(network.name) or ON_PURPOSE.search(network.name) or ABOUT_MODE.search(unparse(network)):
            continue
        forward = next((each for each in network.body if isinstance(each, Function) and each.name == "forward"), None)
        draw = _draw_in(forward) if forward is not None else None
        if draw is not None:
            yield Dropout(source.location(draw), network.name, takes_mode=False)


def _draw_in(function: Function) -> ast.Call | None:
    for node in walk(function):
        if isinstance(node, ast.Call) and re.split(r"\W", unparse(node.func))[-1] in DRAWS:
            return node
    return None
