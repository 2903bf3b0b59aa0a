"""Where something is learned from all rows before some of them are set aside."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.core.lazy_dataclass import dataclass
from lintrain.core.place import Place
from lintrain.pipeline.pipeline import Pipeline

LEARNERS = frozenset(
    {
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "PowerTransformer",
        "QuantileTransformer",
        "KBinsDiscretizer",
        "TargetEncoder",
        "SimpleImputer",
        "KNNImputer",
        "IterativeImputer",
        "PCA",
        "TruncatedSVD",
        "NMF",
        "SelectKBest",
        "SelectPercentile",
        "SelectFromModel",
        "TfidfVectorizer",
        "RandomOverSampler",
        "SMOTE",
        "ADASYN",
        "BorderlineSMOTE",
        "SVMSMOTE",
    }
)
"""Classes of scikit-learn and imbalanced-learn whose `fit` learns numbers from the rows, or that copy rows."""

SPLIT = "sklearn.model_selection.train_test_split"
FITTING = frozenset({"fit_transform", "fit_resample"})


@dataclass(frozen=True, slots=True)
class Leak:
    """A `fit` on all rows: which class learns, where, and where the rows are split afterwards."""

    learner: str
    place: Place
    split: Place


@dataclass(slots=True)
class _Names:
    """What the names of one block stand for: objects that learn, rows that were learned from, parts of a split."""

    learners: dict[str, str]
    learned: dict[str, tuple[str, ast.Call]]
    parts: set[str]


def fitted_before_split(pipeline: Pipeline) -> Iterator[Leak]:
    """Each such place; only names that are bound and used in one block, in order, tell enough."""
    splits = {call.place for call in pipeline.calls if call.path == SPLIT}
    if not splits:
        return
    known = [call for call in pipeline.calls if call.path.startswith("sklearn.")]
    classes = {call.place: call.path.rpartition(".")[2] for call in known}
    classes |= dict(_copiers(pipeline))
    functions = pipeline.source.nodes_of(ast.FunctionDef)
    for body in [pipeline.source.tree.body, *(function.body for function in functions)]:
        yield from _in_block(pipeline, body, classes, splits)


def _copiers(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """The calls of classes of imbalanced-learn, which the reader does not follow."""
    imports = pipeline.source.nodes_of(ast.ImportFrom)
    names = {each.name for node in imports if (node.module or "").startswith("imblearn.over") for each in node.names}
    for node in pipeline.source.nodes_of(ast.Call) if names else ():
        if isinstance(node.func, ast.Name) and node.func.id in names:
            yield pipeline.source.place(node), node.func.id


def _in_block(
    pipeline: Pipeline, body: list[ast.stmt], classes: dict[Place, str], splits: set[Place]
) -> Iterator[Leak]:
    names = _Names({}, {}, set())
    for statement in body:
        if not isinstance(statement, ast.Assign | ast.Expr):
            continue
        value = statement.value
        targets = _targets(statement.targets) if isinstance(statement, ast.Assign) else []
        if isinstance(value, ast.Call) and pipeline.source.place(value) in splits:
            yield from _leaks(pipeline, value, names)
            names.parts |= set(targets)
        _forget(names, targets)
        _learn(pipeline, value, targets, classes, names)


def _leaks(pipeline: Pipeline, split: ast.Call, names: _Names) -> Iterator[Leak]:
    for argument in split.args:
        found = names.learned.get(argument.id) if isinstance(argument, ast.Name) else None
        if found is not None:
            yield Leak(found[0], pipeline.source.place(found[1]), pipeline.source.place(split))
            return


def _targets(targets: list[ast.expr]) -> list[str]:
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def _forget(names: _Names, targets: list[str]) -> None:
    for name in targets:
        names.learners.pop(name, None)
        names.learned.pop(name, None)


def _learn(pipeline: Pipeline, value: ast.expr, targets: list[str], classes: dict[Place, str], names: _Names) -> None:
    """Note what a statement makes of an object that learns, or of rows."""
    if not targets or not isinstance(value, ast.Call):
        return
    made = classes.get(pipeline.source.place(value))
    if made is not None and made in LEARNERS:
        names.learners[targets[0]] = made
    elif isinstance(value.func, ast.Attribute) and value.func.attr in FITTING:
        owner = value.func.value
        learner = (
            names.learners.get(owner.id) if isinstance(owner, ast.Name) else _made_in_place(pipeline, owner, classes)
        )
        given = [argument.id for argument in value.args if isinstance(argument, ast.Name)]
        if learner is not None and learner in LEARNERS and given and not _is_part(given[0], names):
            names.learned[targets[0]] = (learner, value)


def _made_in_place(pipeline: Pipeline, owner: ast.expr, classes: dict[Place, str]) -> str | None:
    return classes.get(pipeline.source.place(owner)) if isinstance(owner, ast.Call) else None


def _is_part(name: str, names: _Names) -> bool:
    """Whether rows are known, or named, as those of a split that was made before."""
    return name in names.parts
