"""Networks that are made once and go on training in each fold of a cross-validation, or with other settings."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.hits import names_in
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

FOLDS = r"\w*(?:KFold|LeaveOneOut|LeaveOneGroupOut|ShuffleSplit|LeavePOut)\("

STARTS_AGAIN = lazy_pattern(
    r"load_state_dict|load_weights|set_weights|reset|deepcopy|clone|init|restore|\.apply\(|reload|load_model"
)
"""What gives a network its first weights again."""

OPTIMIZER = lazy_pattern(r"(?:Ada\w*|SGD|RMSprop|NAdam|RAdam|Lion|LBFGS)$")


@dataclass(frozen=True, slots=True)
class FoldModel:
    """A network, or the optimizer of one, that is made before a loop over folds: its training, name, making, loop."""

    location: Location
    name: str
    made: Location
    loop: Location


def fold_models(pipeline: Pipeline) -> Iterator[FoldModel]:
    """The networks of Keras and torch that a loop over folds trains and does not make."""
    source = pipeline.source
    if not source.contains(FOLDS):
        return
    fits = {location for run in pipeline.keras_runs for location, _ in run.fits}
    steppers = source.cached(_stepping)
    scopes: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for scope in scopes:
        for loop in scope.body:
            if isinstance(loop, ast.For) and _is_over_folds(source, loop):
                yield from _kept(source, scope, loop, fits, steppers)


RENEWS = lazy_pattern(
    r"model_init|load_\w*(state|weights|adapter)|deepcopy|reset|restore|requires_grad|from_pretrained|apply\("
)
"""What gives a model its first weights again, or trains other layers of it in each round."""

IN_STAGES = lazy_pattern(r"\b(\w+_)?(epoch|round|stage|phase|iter\w*|cycle|step|part|shard|chunk)(_?(id|idx|i))?\b")
"""Names of loops that train one model in several parts."""


def swept_models(source: Source) -> Iterator[FoldModel]:
    """The models that a loop over listed settings gives to a Trainer each time, with the same rows."""
    if "Trainer(" not in source.text:
        return
    scopes: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for scope in scopes:
        # All names of a scope at once: a long script has many loops, and as many assignments.
        assigned = [(each.targets, each.value) for each in scope.body if isinstance(each, ast.Assign)]
        bound = {each.id: value for targets, value in assigned for each in targets if isinstance(each, ast.Name)}
        for loop in scope.body:
            if isinstance(loop, ast.For) and _is_over_settings(bound, loop):
                yield from _given_to_trainers(source, scope, loop)


def _is_over_settings(bound: Mapping[str, ast.expr], loop: ast.For) -> bool:
    """Whether a loop goes through a list of several literals, and renews nothing."""
    over = bound.get(loop.iter.id, loop.iter) if isinstance(loop.iter, ast.Name) else loop.iter
    several = isinstance(over, ast.List | ast.Tuple) and len(over.elts) > 1
    code = unparse(loop) if several else ""
    return several and not IN_STAGES.search(unparse(loop.target).lower()) and not RENEWS.search(code)


def _given_to_trainers(source: Source, scope: ast.Module | ast.FunctionDef, loop: ast.For) -> Iterator[FoldModel]:
    """The models of the Trainers that a loop makes and trains, where all of them were made before it."""
    made = dict(_made_before(scope, loop))
    stored = {each.id for each in walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    for node in walk(loop):
        match node:
            case ast.Assign(targets=[ast.Name(id=trainer)], value=ast.Call() as call):
                given = {each.arg: each.value for each in call.keywords}
                model, rows = given.get("model", call.args[0] if call.args else None), given.get("train_dataset")
                if not isinstance(model, ast.Name) or rows is None or not last_name(call.func).endswith("Trainer"):
                    continue
                if model.id in stored or model.id not in made:
                    continue
                differs = any(isinstance(each, ast.Name) and each.id in stored for each in walk(rows))
                trained = f"{trainer}.train"
                train = next((x for x in walk(loop) if isinstance(x, ast.Call) and unparse(x.func) == trained), None)
                if train is not None and not differs:
                    origin = source.location(made[model.id])
                    yield FoldModel(source.location(train), model.id, origin, source.location(loop.iter))
            case _:
                pass


def _is_over_folds(source: Source, loop: ast.For) -> bool:
    """Whether a loop goes through `kfold.split(x)`, with a number or without, and all of it."""
    over = loop.iter
    if isinstance(over, ast.Call) and last_name(over.func) == "enumerate" and over.args:
        over = over.args[0]
    is_split = isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr == "split"
    return is_split and "TimeSeriesSplit" not in source.text and not _is_left(loop)


def _is_left(loop: ast.For) -> bool:
    """Whether a `break` ends the loop over folds itself; one of an inner loop does not."""
    inner = {id(each) for node in walk(loop) if node is not loop and isinstance(node, LOOPS) for each in walk(node)}
    return any(isinstance(each, ast.Break) and id(each) not in inner for each in walk(loop))


LOOPS = (ast.For, ast.While)


def _starts_again(loop: ast.For, names: set[str]) -> bool:
    """Whether a loop gives one of these its first weights again, or goes through its layers to do so."""
    for node in walk(loop):
        if isinstance(node, ast.Call) and names & names_in(node) and STARTS_AGAIN.search(unparse(node)):
            return True
        is_over_layers = isinstance(node, ast.For) and node is not loop and names & names_in(node.iter)
        if is_over_layers and STARTS_AGAIN.search(unparse(node)):
            return True
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and unparse(node.value) in names:
            return True  # a new head, for what is trained of the network
    return False


def _kept(
    source: Source,
    scope: ast.Module | ast.FunctionDef,
    loop: ast.For,
    fits: set[Location],
    steppers: dict[str, dict[int, str]],
) -> Iterator[FoldModel]:
    """What a loop trains of what was made before it."""
    made = dict(_made_before(scope, loop))
    bound = {each.id for each in walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    optimized = dict(_optimized(loop))
    for call in walk(loop):
        stepped = _trained(source, call, fits, steppers)
        # An optimizer of its own for each fold goes on with the weights as well.
        name = optimized.get(stepped, "") if stepped in bound else stepped
        if not isinstance(call, ast.Call) or name not in made or name in bound:
            continue
        is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "step" and name == stepped
        if is_method and not OPTIMIZER.search(unparse(made[name].func)):
            continue
        if not _starts_again(loop, {name, _optimized_by(made[name])}):
            yield FoldModel(source.location(call), name, source.location(made[name]), source.location(loop.iter))
            return


def _optimized(loop: ast.For) -> Iterator[tuple[str, str]]:
    """The optimizers that a loop makes, each with the network whose parameters it gets."""
    for node in walk(loop):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                if network := _optimized_by(call):
                    yield name, network
            case _:
                pass


def _optimized_by(call: ast.Call) -> str:
    """The network whose parameters an optimizer gets, all of them: `Adam(net.parameters())`; empty for other calls."""
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "params")]
    match given:
        case [ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="parameters"))]:
            return name
        case _:
            return ""


def _made_before(scope: ast.Module | ast.FunctionDef, loop: ast.For) -> Iterator[tuple[str, ast.Call]]:
    for statement in scope.body:
        if statement.lineno >= loop.lineno:
            return
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                yield name, call
            case _:
                pass


def _trained(source: Source, node: ast.AST, fits: set[Location], steppers: dict[str, dict[int, str]]) -> str:
    """The name of the network or optimizer that a call trains: `net.fit(…)`, `opt.step()`, `train(net, opt)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="fit")) if source.location(node) in fits:
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="step")):
            return name
        case ast.Call(func=ast.Name(id=called), args=args, keywords=keywords) if called in steppers:
            places = steppers[called]
            given = [args[each] for each in places if each < len(args)]
            given += [each.value for each in keywords if each.arg in places.values()]
            return given[0].id if given and isinstance(given[0], ast.Name) else ""
        case _:
            return ""


def _stepping(source: Source) -> dict[str, dict[int, str]]:
    """The functions that train with an optimizer of their caller: its position among the parameters, and its name."""
    found = dict[str, dict[int, str]]()
    for function in source.nodes_of(ast.FunctionDef):
        code = source.code(source.location(function))
        names = [each.arg for each in function.args.args]
        if ".backward(" not in code:
            continue
        for call in walk(function):
            match call:
                case ast.Call(func=ast.Attribute(attr="step"), args=[ast.Name(id=name)]) if "opt" in name.lower():
                    pass  # `scaler.step(optimizer)`
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="step")) if "sched" not in name.lower():
                    pass
                case _:
                    continue
            if name in names:
                found.setdefault(function.name, {})[names.index(name)] = name
    return found
