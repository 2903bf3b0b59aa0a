"""Seeds that are set again while a network is trained, so that epochs, batches or rows get the same random numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SEEDS = {
    "torch.manual_seed": "torch",
    "torch.random.manual_seed": "torch",
    "np.random.seed": "np.random",
    "numpy.random.seed": "numpy.random",
    "random.seed": "random",
}
"""Functions that start a generator, each with the module whose functions draw from it."""

DRAWS = lazy_pattern(
    r"\.(rand\w*|normal\w*|uniform\w*|permutation|shuffle|sample|choices?|multinomial|bernoulli\w*|beta|gauss)$"
)
"""Functions that draw random numbers."""

BUILDS = lazy_pattern(r"^(load_state_dict|(build|make|create|init|reset|get)_?\w*(model|net)\w*)$")
"""Methods and functions of code that trains another network in each round, which then starts alike on purpose."""

OPTIMIZERS = lazy_pattern(r"(?i)adam|sgd|lamb|lion|rmsprop|adagrad|adafactor|optim")

SETS_SEED = lazy_pattern(r"\bmanual_seed\(|\brandom\.seed\(")
"""What every file with such a seed contains."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.While


@dataclass(frozen=True, slots=True)
class RepeatedSeed:
    """A seed that starts the same numbers again: where, for what each time, and where that repeats."""

    location: Location
    each: str
    repeats: Location


def repeated_seeds(source: Source) -> list[RepeatedSeed]:
    """The seeds of a file that are constants and are set in each round of a training, or for each row."""
    return source.cached(_repeated_seeds)


def _repeated_seeds(source: Source) -> list[RepeatedSeed]:
    if not source.contains(SETS_SEED):
        return []
    found = [*_in_loops(source), *_in_functions(source), *_for_rows(source)]
    return list({each.location: each for each in found}.values())


def _loops(source: Source) -> list[Loop]:
    return [*source.nodes_of(ast.For), *source.nodes_of(ast.While)]


def _in_loops(source: Source) -> Iterator[RepeatedSeed]:
    """Seeds in the body of a loop, before random numbers that its training uses."""
    for loop in _loops(source):
        last = _last_backward(loop)
        if last is None or _builds(loop):
            continue
        for call, module in _seeds_in(source, loop.body, _bound_in(loop)):
            drawn = [node.lineno for node in _calls_in(loop) if _draws(node, module)]
            if any(call.lineno < line < last for line in drawn) or _is_shuffled(source, loop, call):
                yield RepeatedSeed(source.location(call), "round", source.location(loop))


def _in_functions(source: Source) -> Iterator[RepeatedSeed]:
    """Seeds in functions that a loop calls in each round: one that trains an epoch, or one that draws numbers."""
    functions = {each.name: each for each in source.nodes_of(ast.FunctionDef)}
    for loop in _loops(source):
        if _builds(loop):
            continue
        last = _last_backward(loop)
        for call in (node for statement in _plain(loop.body) for node in _calls_in(statement)):
            called = functions.get(_name_of(call))
            if called is None or called.name == "__init__" or _builds(called):
                continue
            for seed, module in _seeds_in(source, called.body, set()):
                trains = last is None and _trains_after(called, seed)
                draws = last is not None and call.lineno <= last and any(_draws(node, module) for node in walk(called))
                if trains or draws:
                    yield RepeatedSeed(source.location(seed), "call", source.location(call))


def _for_rows(source: Source) -> Iterator[RepeatedSeed]:
    """Seeds in `__getitem__`, before random numbers of the row."""
    for function in source.nodes_of(ast.FunctionDef):
        if function.name == "__getitem__":
            for call, module in _seeds_in(source, function.body, set()):
                drawn = [node for node in _calls_in(function) if _draws(node, module) and node.lineno > call.lineno]
                if isinstance(call.args[0], ast.Constant) and drawn:
                    yield RepeatedSeed(source.location(call), "row", source.location(drawn[0]))


def _seeds_in(source: Source, body: list[ast.stmt], bound: set[str]) -> Iterator[tuple[ast.Call, str]]:
    """The plain statements of a body that seed with a constant, or with a name that the body does not bind."""
    own = source.cached(_own_seeders)
    for statement in body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call):
            continue
        code = unparse(call.func)
        if code in SEEDS and len(call.args) == 1 and _is_constant(call.args[0], bound):
            yield call, SEEDS[code]
        elif code in own and not bound and all(isinstance(each, ast.Constant) for each in call.args):
            yield call, own[code]


def _own_seeders(source: Source) -> dict[str, str]:
    """The functions of a file that do nothing but seed, all of whose parameters have a default, with a module."""
    found = dict[str, str]()
    for function in source.tree.body:
        if isinstance(function, ast.FunctionDef) and len(function.args.defaults) == len(function.args.args):
            calls = [unparse(node.func) for node in walk(function) if isinstance(node, ast.Call)]
            modules = [SEEDS[code] for code in calls if code in SEEDS]
            if modules:
                found[function.name] = "torch" if "torch" in modules else modules[0]
    return found


def _is_constant(node: ast.expr, bound: set[str]) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    match node:
        case ast.Name(id=name):
            return name.isupper() and name not in bound
        case ast.Attribute(value=ast.Name(id=owner), attr="seed"):
            return owner != "self" and owner not in bound
        case _:
            return False


def _bound_in(loop: Loop) -> set[str]:
    return {each.id for each in walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _plain(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that every round runs, without those in branches and in `with` blocks such as `no_grad`."""
    for statement in body:
        if isinstance(statement, ast.For):
            yield from _plain(statement.body)
        elif not isinstance(statement, ast.If | ast.With | ast.Try | Function | ast.ClassDef):
            yield statement


def _calls_in(scope: ast.AST) -> Iterator[ast.Call]:
    return (node for node in walk(scope) if isinstance(node, ast.Call))


def _name_of(node: ast.AST) -> str:
    """The function that a call names, of the file or of the object itself."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return name
        case _:
            return ""


def _last_backward(loop: Loop) -> int | None:
    lines = [node.lineno for node in walk(loop) if isinstance(node, ast.Attribute) and node.attr == "backward"]
    return max(lines, default=None)


def _builds(scope: ast.AST) -> bool:
    """Whether code trains a network of its own in each round, or puts one back to where it was."""
    return any(BUILDS.search(name) for name in _names(walk(scope))) or any(map(_makes_optimizer, _calls_in(scope)))


def _makes_optimizer(call: ast.Call) -> bool:
    """Whether a call gives an optimizer the parameters of a network: norms are clipped and counted by them as well."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return OPTIMIZERS.search(name) is not None and any(".parameters()" in unparse(each) for each in call.args)


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _draws(node: ast.AST, module: str) -> bool:
    if not isinstance(node, ast.Call) or any(each.arg == "generator" for each in node.keywords):
        return False
    code = unparse(node.func)
    return code.startswith(f"{module}.") and DRAWS.search(code) is not None


def _is_shuffled(source: Source, loop: Loop, seed: ast.Call) -> bool:
    """Whether a loop goes through a loader that shuffles after a seed, without a generator of its own."""
    over = {unparse(each.iter) for each in walk(loop) if isinstance(each, ast.For) and each.lineno > seed.lineno}
    # `bar = tqdm(loader)` and `enumerate(bar)` draw when the loop begins.
    inside = [each for each in walk(loop) if isinstance(each, ast.Assign)]
    over |= {unparse(arg) for code in tuple(over) for arg in _first_arguments(code, inside)}
    for node in source.nodes_of(ast.Assign):
        call = node.value
        if isinstance(call, ast.Call) and unparse(call.func).endswith("DataLoader"):
            given = {each.arg: unparse(each.value) for each in call.keywords}
            is_random = given.get("shuffle") == "True" or given.get("sampler", "").partition("(")[0].endswith(RANDOM)
            if is_random and "generator" not in str(given) and unparse(node.targets[0]) in over:
                return True
    return False


RANDOM = "RandomSampler"


def _first_arguments(code: str, assigned: list[ast.Assign]) -> Iterator[ast.expr]:
    """What is counted or shown in `enumerate(bar)`, and in the `tqdm(loader)` that `bar` was assigned."""
    made = {unparse(each.targets[0]): each.value for each in assigned}
    node: ast.expr | None = ast.parse(code, mode="eval").body
    for _ in range(3):
        node = made.get(code, node)
        if not isinstance(node, ast.Call) or not node.args or not SHOWS.search(unparse(node.func)):
            return
        node = node.args[0]
        code = unparse(node)
        yield node


SHOWS = lazy_pattern(r"^enumerate$|(?:^|\.)t?qdm$|(?:^|\.)track$")


def _trains_after(function: ast.FunctionDef, seed: ast.Call) -> bool:
    """Whether a function goes through its data and trains after a seed."""
    loops = [each for each in function.body if isinstance(each, ast.For) and each.lineno > seed.lineno]
    return any(_last_backward(each) is not None for each in loops)
