"""Networks that are made once and go on training in each fold of a cross-validation, or with other settings."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.fold_loops import is_over_folds, renews
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

FOLDS = r"\w*(?:KFold|LeaveOneOut|LeaveOneGroupOut|ShuffleSplit|LeavePOut)\(|!=|~"
"""Code without which no loop leaves one fold out."""

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
            if isinstance(loop, ast.For) and is_over_folds(source, loop):
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
    optimized, trainers = dict(_optimized(loop)), _trainers(scope, loop)
    for call in walk(loop):
        stepped = _trained(source, call, fits, steppers) or _given_to(trainers, call)
        # An optimizer of its own for each fold goes on with the weights as well.
        name = optimized.get(stepped, "") if stepped in bound else stepped
        if not isinstance(call, ast.Call) or name not in made or name in bound:
            continue
        is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "step" and name == stepped
        if is_method and not OPTIMIZER.search(unparse(made[name].func)):
            continue
        parts = {each.id for each in walk(made[name]) if isinstance(each, ast.Name)}
        if not renews(loop, {name, *parts}):
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


def _trainers(scope: ast.Module | ast.FunctionDef, loop: ast.For) -> dict[str, ast.Call]:
    """The trainers that a loop may use, by their names."""
    before = {name: call for name, call in _made_before(scope, loop) if _is_trainer(call)}
    found: dict[str, ast.Call] = {}
    for node in walk(loop):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _is_trainer(call):
                found[name] = call
            case _:
                pass
    return before | found


def _is_trainer(call: ast.Call) -> bool:
    return last_name(call.func).endswith("Trainer") and not any(each.arg == "model_init" for each in call.keywords)


def _given_to(trainers: Mapping[str, ast.Call], node: ast.AST) -> str:
    """The name of the model that a Trainer, or one of Lightning, trains; of the Trainer itself if that keeps one."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=trainer), attr="train")) if trainer in trainers:
            return _model_of(trainers[trainer]) or trainer
        case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr="train")) if _is_trainer(made):
            return _model_of(made)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=trainer), attr="fit")) if trainer in trainers:
            return _model_of(node)
        case _:
            return ""


def _model_of(call: ast.Call) -> str:
    """The name that a call gives as its model."""
    model = next((each.value for each in call.keywords if each.arg == "model"), call.args[0] if call.args else None)
    return model.id if isinstance(model, ast.Name) else ""


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
            positions = steppers[called]
            given = [args[each] for each in positions if each < len(args)]
            given += [each.value for each in keywords if each.arg in positions.values()]
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
