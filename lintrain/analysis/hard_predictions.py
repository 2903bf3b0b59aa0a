"""Predictions of which only the class is left: thresholded, rounded, or the place of the highest score."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.argument import Argument
from lintrain.source import places
from lintrain.source.nodes import own_nodes, unparse
from lintrain.startup.lazy_pattern import lazy_pattern

SAME = frozenset(
    {
        "astype", "float", "int", "long", "bool", "cpu", "numpy", "detach", "squeeze", "flatten", "ravel", "tolist",
        "view", "reshape", "to", "item", "copy", "array", "asarray", "concatenate", "hstack", "vstack", "cat", "stack",
        "list", "tensor", "from_numpy", "unsqueeze", "byte",
    }
)  # fmt: skip
"""Functions and methods that keep what the numbers say."""

MODULES = frozenset({"np", "numpy", "torch"})
DECIDE = frozenset(
    {
        "AdaBoostClassifier", "BaggingClassifier", "BernoulliNB", "CatBoostClassifier", "DecisionTreeClassifier",
        "ExtraTreesClassifier", "GaussianNB", "GradientBoostingClassifier", "HistGradientBoostingClassifier",
        "KNeighborsClassifier", "LGBMClassifier", "LogisticRegression", "MLPClassifier", "MultinomialNB",
        "RandomForestClassifier", "RidgeClassifier", "SGDClassifier", "SVC", "XGBClassifier",
    }
)  # fmt: skip
"""Classifiers of scikit-learn and of libraries in its style, whose `predict` gives classes."""

THRESHOLD = lazy_pattern(r"(?i)thr|cut_?off")
MOST_NAMES = 8


def hardened(pipeline: Pipeline, given: Argument) -> Location | None:
    """Where only the classes of an argument are left, None if it may hold scores."""
    source = pipeline.source_of(given.location)
    node = places.expression_at(source, given.location)
    found = hardening(blocks.scope_of(pipeline, given.location), node) if node is not None else None
    return source.location(found) if found is not None else None


def hardening(scope: ast.AST, node: ast.expr, depth: int = 0) -> ast.expr | None:
    """The expression that leaves only a class of each prediction, if all that a value comes from has lost the rest."""
    match node:
        case ast.Name(id=name) if depth < MOST_NAMES:
            found = [hardening(scope, each, depth + 1) for each in _given(scope, name)]
            return found[0] if found and all(each is not None for each in found) else None
        case ast.ListComp(elt=element):
            return hardening(scope, element, depth + 1) if not isinstance(element, ast.Name) else None
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Mult(), right=inner):
            return hardening(scope, inner, depth)
        case ast.Call():
            return node if _chooses(node) or _decides(scope, node) else _hardening_in(scope, node, depth)
        case _:
            return node if _is_threshold(node) else None


def _hardening_in(scope: ast.AST, call: ast.Call, depth: int) -> ast.expr | None:
    """What a call keeps of its object, or of its first argument."""
    if last_name(call.func) not in SAME:
        return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_function = owner is None or (isinstance(owner, ast.Name) and owner.id in MODULES)
    given = call.args[0] if is_function and call.args else owner
    return hardening(scope, given, depth) if given is not None else None


def _is_threshold(node: ast.expr) -> bool:
    """`scores > 0.5`, `1 if score > threshold else 0`."""
    match node:
        case ast.Compare(ops=[ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE()], comparators=[limit]):
            is_named = isinstance(limit, ast.Name | ast.Attribute) and THRESHOLD.search(last_name(limit)) is not None
            return is_named or isinstance(limit, ast.Constant)
        case ast.IfExp(test=test, body=ast.Constant(), orelse=ast.Constant()):
            return _is_threshold(test)
        case _:
            return False


def _chooses(call: ast.Call) -> bool:
    """`scores.argmax(1)`, `np.round(scores)`, `np.where(scores > 0.5, 1, 0)`, `scores.ge(0.5)`."""
    match last_name(call.func):
        case "argmax":
            return True
        case "round" | "rint":
            is_method = isinstance(call.func, ast.Attribute) and not _is_of_module(call.func)
            return len(call.args) + len(call.keywords) == (0 if is_method else 1)
        case "where":
            return len(call.args) == 3 and _is_threshold(call.args[0]) and isinstance(call.args[1], ast.Constant)
        case "gt" | "ge":
            return len(call.args) == 1 and isinstance(call.args[0], ast.Constant)
        case _:
            return False


def _decides(scope: ast.AST, call: ast.Call) -> bool:
    """`model.predict(rows)` of a classifier of scikit-learn, by its class or because it also gives probabilities."""
    match call:
        case ast.Call(func=ast.Attribute(value=owner, attr="predict"), args=[_], keywords=[]):
            asked = f"{unparse(owner)}.predict_proba"
            if any(isinstance(node, ast.Attribute) and unparse(node) == asked for node in own_nodes(scope)):
                return True
            made = list(_given(scope, owner.id)) if isinstance(owner, ast.Name) else []
            return bool(made) and all(isinstance(each, ast.Call) and last_name(each.func) in DECIDE for each in made)
        case _:
            return False


def _is_of_module(function: ast.Attribute) -> bool:
    return isinstance(function.value, ast.Name) and function.value.id in MODULES


def _given(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    """All that a scope puts into a name or into a list of that name; no value where that is not known."""
    if isinstance(scope, ast.FunctionDef) and any(each.arg == name for each in scope.args.args):
        yield ast.Constant(None)
    nodes = own_nodes(scope)
    bound = [pair for node in nodes for pair in _bindings(node) if unparse(pair[0]) == name]
    yield from (value for _, value in bound if not _is_empty(value) and not _is_of_itself(value, name))
    known = {id(target) for target, _ in bound}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="append" | "extend"), args=[value]):
                if owner == name:
                    yield value
            case ast.Name(id=target, ctx=ast.Store()) if target == name and id(node) not in known:
                yield ast.Constant(None)
            case _:
                pass


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What an assignment binds, with the value: in pairs, and the places that `torch.max(scores, 1)` gives as well."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            yield from zip(names, values, strict=True)
        case ast.Assign(targets=[ast.Tuple(elts=[_, place])], value=ast.Call() as call):
            if last_name(call.func) == "max":
                yield place, ast.copy_location(ast.Call(ast.Name("argmax"), [], []), call)
        case ast.Assign(targets=[target], value=value) | ast.AugAssign(target=target, value=value):
            yield target, value
        case _:
            pass


def _is_empty(value: ast.expr) -> bool:
    match value:
        case ast.List(elts=[]) | ast.Call(func=ast.Name(id="list"), args=[]):
            return True
        case _:
            return False


def _is_of_itself(value: ast.expr, name: str) -> bool:
    """`labels = np.concatenate(labels)`."""
    while isinstance(value, ast.Call) and last_name(value.func) in SAME:
        owner = value.func.value if isinstance(value.func, ast.Attribute) else None
        is_function = owner is None or (isinstance(owner, ast.Name) and owner.id in MODULES)
        inner = value.args[0] if is_function and value.args else owner
        if inner is None:
            return False
        value = inner
    return isinstance(value, ast.Name) and value.id == name
