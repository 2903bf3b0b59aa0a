"""Rows are oversampled before the split, so copies of training rows are test rows.

`RandomOverSampler`, `SMOTE`, sampling with replacement, and `pd.concat([df, rare, rare])` repeat or interpolate rows of
the rare class. If the rows are divided afterwards, the test set holds copies of training rows, or rows computed from
them. The score is too high, and drops on new data.

## Bad

    from imblearn.over_sampling import RandomOverSampler
    from sklearn.model_selection import train_test_split

    rows, classes = RandomOverSampler().fit_resample(features.numpy(), targets.numpy())
    x_train, x_test, y_train, y_test = train_test_split(rows, classes, test_size=0.2)  # <- resampled-before-split
    for _ in range(2):
        optimizer.zero_grad()
        criterion(net(torch.tensor(x_train)), torch.tensor(y_train)).backward()
        optimizer.step()

## Good

    from imblearn.over_sampling import RandomOverSampler
    from sklearn.model_selection import train_test_split

    x_train, x_test, y_train, y_test = train_test_split(features.numpy(), targets.numpy(), test_size=0.2)
    x_train, y_train = RandomOverSampler().fit_resample(x_train, y_train)
    for _ in range(2):
        optimizer.zero_grad()
        criterion(net(torch.tensor(x_train)), torch.tensor(y_train)).backward()
        optimizer.step()

## When it is fine

Undersampling repeats no row:

    from imblearn.under_sampling import RandomUnderSampler
    from sklearn.model_selection import train_test_split

    rows, classes = RandomUnderSampler().fit_resample(features.numpy(), targets.numpy())
    x_train, x_test, y_train, y_test = train_test_split(rows, classes, test_size=0.2)
    criterion(net(torch.tensor(x_train)), torch.tensor(y_train)).backward()

## Fix

None: the split has to move before the sampling, and its names change.

## References

imbalanced-learn documentation, "Common pitfalls and recommended practices": data leakage.
"""

from __future__ import annotations

import ast  # the rule is about names that are passed on from statement to statement, whatever their values
from collections.abc import Iterator

from lintrain.analysis.copied_rows import part_of, repeats_by_hand
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    lazy_pattern,
)
from lintrain.source.nodes import unparse, walk

OVERSAMPLERS = lazy_pattern(r"\b(?:\w*SMOTE\w*|ADASYN|\w*OverSampler)\b")
SPLITS = frozenset({"train_test_split", "cross_val_score", "cross_validate", "cross_val_predict"})
REPEATING = frozenset({"fit_resample", "fit_sample", "resample", "sample"})


@dataclass(frozen=True, slots=True)
class Split:
    """A call that divides rows, and the statement that oversampled them before."""

    location: Location
    sampled: Location


class ResampledBeforeSplit(Rule):
    level = Level.WARNING
    keywords = "train_test_split|cross_val & fit_resample|fit_sample|resample|replace|concat|concatenate|vstack|append"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(True for _ in _splits_of(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for split in _splits_of(pipeline.source):
            yield self.finding(
                split.location,
                "these rows were oversampled before, so both parts hold copies of the same ones",
                related=[Related(split.sampled, "repeats or interpolates rows", "sampled")],
                help="split first, and oversample only the training rows",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        shared = evidence.shared_rows
        if shared is None:
            return super().verify(finding, evidence)
        text = f"{shared.shared} of {shared.looked_at} examined evaluation rows are among the training rows"
        if shared.are_copies:
            return Verdict.confirmed(text, shared=shared.shared, looked_at=shared.looked_at)
        return Verdict.inconclusive(text)


def _splits_of(source: Source) -> Iterator[Split]:
    """The splits of oversampled rows, in each function and at module level."""
    scopes: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    kept = _kept_by_objects(source)
    for scope in scopes:
        sampled: dict[str, Location] = dict(kept.get(scope, {}))
        parts: dict[str, str] = {}
        for statement in _statements_of(scope.body):
            yield from _splits_in(source, statement, sampled)
            _follow(source, statement, sampled, parts)


def _kept_by_objects(source: Source) -> dict[ast.Module | ast.FunctionDef, dict[str, Location]]:
    """The attributes that a method of a class gives oversampled rows, for its later methods; no other one sets them."""
    found: dict[ast.Module | ast.FunctionDef, dict[str, Location]] = {}
    for owner in source.nodes_of(ast.ClassDef):
        known: dict[str, Location] = {}
        for method in (each for each in owner.body if isinstance(each, ast.FunctionDef)):
            found[method] = dict(known)
            sampled: dict[str, Location] = dict(known)
            parts: dict[str, str] = {}
            for statement in _statements_of(method.body):
                _follow(source, statement, sampled, parts)
            known = {name: at for name, at in sampled.items() if name.startswith("self.")}
    return found


def _statements_of(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The simple statements of a scope in order, those in its blocks too."""
    for statement in body:
        if isinstance(statement, ast.Assign | ast.Expr | ast.Return):
            yield statement
        elif not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            for block in ("body", "orelse", "finalbody"):
                yield from _statements_of(getattr(statement, block, []))


def _splits_in(source: Source, statement: ast.stmt, sampled: dict[str, Location]) -> Iterator[Split]:
    for node in walk(statement) if sampled else ():
        if isinstance(node, ast.Call) and _called(node) in SPLITS:
            given = {name for argument in node.args for name in _names_in(argument)}
            made = next((sampled[name] for name in sorted(given) if name in sampled), None)
            if made is not None:
                yield Split(source.location(node), made)


def _follow(source: Source, statement: ast.stmt, sampled: dict[str, Location], parts: dict[str, str]) -> None:
    """Note the names that a statement gives oversampled rows, or rows made of those, and the parts of frames."""
    if not isinstance(statement, ast.Assign):
        return
    repeats = any(_repeats(source, node) for node in walk(statement.value)) or repeats_by_hand(statement.value, parts)
    earlier = (sampled[name] for name in _names_in(statement.value) if name in sampled)
    # What a split returns is reported at the split.
    is_split = isinstance(statement.value, ast.Call) and _called(statement.value) in SPLITS
    made = source.location(statement) if repeats else None if is_split else next(earlier, None)
    for target in statement.targets:
        for name in _bound_names(target):
            if made is None:
                sampled.pop(name, None)
            else:
                sampled[name] = made
    _follow_parts(statement, parts)


def _follow_parts(statement: ast.Assign, parts: dict[str, str]) -> None:
    """Note the frame of which a name has some rows; a frame with other rows has no parts yet."""
    whole = part_of(statement.value, parts)
    for name in (name for target in statement.targets for name in _bound_names(target)):
        for each in [each for each, frame in parts.items() if name in (each, frame)]:
            del parts[each]
        if whole and whole != name:
            parts[name] = whole


def _repeats(source: Source, node: ast.AST) -> bool:
    """Whether a call repeats rows: an oversampler, or sampling with `replace=True`."""
    if not isinstance(node, ast.Call) or (name := _called(node)) not in REPEATING:
        return False
    if name in {"fit_resample", "fit_sample"}:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else node
        return OVERSAMPLERS.search(_maker_of(source, owner)) is not None
    replace = next((each.value for each in node.keywords if each.arg == "replace"), None)
    return isinstance(replace, ast.Constant) and replace.value is True


def _maker_of(source: Source, owner: ast.expr) -> str:
    """The code that makes a sampler: of its call, or of the last statement that binds its name."""
    if not isinstance(owner, ast.Name):
        return unparse(owner)
    bound = [
        node.value
        for node in source.nodes_of(ast.Assign)
        if any(isinstance(target, ast.Name) and target.id == owner.id for target in node.targets)
    ]
    return unparse(bound[-1]) if bound else ""


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _bound_names(target: ast.expr) -> set[str]:
    """What a target binds: names, and `self.rows`; an entry of something else is none."""
    if isinstance(target, ast.Attribute):
        return _names_in(target) - {"self"} if unparse(target.value) == "self" else set()
    return _names_in(target) if not isinstance(target, ast.Subscript) else set()


def _names_in(node: ast.AST) -> set[str]:
    """The names in an expression, and the attributes of `self`."""
    names = {each.id for each in walk(node) if isinstance(each, ast.Name)}
    attributes = (each for each in walk(node) if isinstance(each, ast.Attribute))
    return names | {f"self.{each.attr}" for each in attributes if unparse(each.value) == "self"}
