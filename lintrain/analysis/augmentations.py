"""Data for evaluation that gets the random transforms of training."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.evaluations import EVALUATION_WORDS, TRAINING_WORDS
from lintrain.analysis.random_transforms import is_off, is_random, random_transforms
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.pipeline.values.python import Function
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ON_PURPOSE = lazy_pattern(r"\btta\b|TTA|test.time.aug|(?<!self)\.transforms? *=(?!=)")
"""Code that augments evaluation data on purpose, or replaces the transform later."""

SPLITS = frozenset({"random_split", "Subset"})


@dataclass(frozen=True, slots=True)
class AugmentedData:
    """A data set for evaluation with a random transform: where, the transform's name, and where that is made."""

    location: Location
    transform: str
    made: Location


def augmented_data(source: Source) -> list[AugmentedData]:
    """The data sets of a file that are for evaluation and get a transform of training."""
    return source.cached(_augmented_data)


def _augmented_data(source: Source) -> list[AugmentedData]:
    if source.contains(ON_PURPOSE):
        return []
    if not source.contains(r"\btransforms?\b|Compose\("):
        return [*_of_generators(source), *_of_maps(source), *_of_own_generators(source)]
    named = source.nodes_of(ast.Name, ast.Attribute)
    stored = Counter(unparse(each) for each in named if isinstance(each.ctx, ast.Store))
    transforms = list(random_transforms(source))
    # A name that is bound twice may be another transform in another branch; in another function it is another name.
    made = {name: location for name, location in transforms if stored[name] == 1}
    found = _given_to_evaluation(list(_uses(source, made)) if made else [], made)
    for function in source.nodes_of(ast.FunctionDef) if any(stored[name] > 1 for name, _ in transforms) else ():
        around = source.location(function)
        within = (each for each in walk(function) if isinstance(each, ast.Name))
        inside = Counter(each.id for each in within if isinstance(each.ctx, ast.Store))
        local = {name: at for name, at in transforms if stored[name] > 1 == inside[name] and around.holds(at)}
        uses = [use for use in _uses(source, local) if around.holds(use[2])] if local else []
        found += _given_to_evaluation(uses, local)
    return [*found, *_split_off(source, made), *_by_split(source, made), *_of_generators(source), *_of_maps(source)]


def changed_at_random(source: Source, function: Function) -> Location | None:
    """Where a function of a file calls a random transform; None if it does not, or if that is on purpose."""
    if source.contains(ON_PURPOSE) or function.source not in {None, source}:
        return None
    made = {name for name, _ in random_transforms(source)}
    calls = (node for node in walk(function.node) if isinstance(node, ast.Call))
    found = (call for call in calls if unparse(call.func) in made or is_random(call))
    return next(map(source.location, found), None)


def _of_generators(source: Source) -> list[AugmentedData]:
    """The batches for evaluation of an `ImageDataGenerator` of Keras whose random changes are for training."""
    made: dict[str, Location] = {}
    bound = Counter(unparse(each) for each in source.nodes_of(ast.Name) if isinstance(each.ctx, ast.Store))
    uses: list[tuple[str, frozenset[str], Location]] = []
    roles = _roles(source) if source.contains("ImageDataGenerator") else {}
    for node in source.nodes_of(ast.Assign) if source.contains("ImageDataGenerator") else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(keywords=given) as call):
                if unparse(call.func).endswith("ImageDataGenerator") and bound[name] == 1:
                    if any(each.arg in CHANGES and not is_off(each.value) for each in given):
                        made[name] = source.location(node)
                    continue
                words = words_of(name)
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.Call() as call):
                words = words_of(unparse(target))
            case _:
                continue
        match call.func:
            case ast.Attribute(value=ast.Name(id=generator), attr=flow) if flow.startswith("flow"):
                uses.append(
                    (generator, words | _subset(call) | roles.get(_target_of(node), NONE), source.location(call))
                )
            case _:
                pass
    found = [use for use in uses if use[0] in made]
    # One that is made for the evaluation alone has its own random changes, which a name may say to be wanted.
    trained = {name for name, words, _ in uses if words & TRAINING_WORDS}
    alone = [use for use in found if use[0] not in trained and words_of(use[0]) & EVALUATION_WORDS]
    own = [
        AugmentedData(location, name, made[name])
        for name, words, location in alone
        if words & EVALUATION_WORDS and not words & TRAINING_WORDS
    ]
    return [*_given_to_evaluation(found, made), *(own if trained else [])]


NONE = frozenset[str]()


def _target_of(node: ast.Assign) -> str:
    return unparse(node.targets[0])


def _subset(call: ast.Call) -> frozenset[str]:
    """The words of the part that a generator gives: `subset="validation"`."""
    given = [each.value for each in call.keywords if each.arg == "subset"]
    return words_of(given[0].value) if given and isinstance(given[0], ast.Constant) and given[0].value else NONE


FITS, EVALUATES = frozenset({"fit", "fit_generator"}), frozenset({"evaluate", "evaluate_generator"})


def _roles(source: Source) -> dict[str, frozenset[str]]:
    """What names of data are for, by the only calls of Keras that get them: they train, or they evaluate."""
    found: dict[str, set[str]] = {}
    for call in source.nodes_of(ast.Call):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        named = {each.arg: each.value for each in call.keywords}
        first = call.args[0] if call.args else named.get("x", named.get("generator"))
        given = {"train": first if method in FITS else None, "test": first if method in EVALUATES else None}
        for word, value in (*given.items(), ("test", named.get("validation_data") if method in FITS else None)):
            if value is not None:
                found.setdefault(unparse(value), set()).add(word)
    return {name: frozenset(words) for name, words in found.items() if len(words) == 1}


def _of_own_generators(source: Source) -> Iterator[AugmentedData]:
    """The `validation_data` from a generator of the file that also trains, and always changes its rows at random."""
    functions, seen = {node.name: node for node in source.nodes_of(ast.FunctionDef)}, set[str]()
    for call in source.nodes_of(ast.Call) if source.contains(AUGMENTS) and source.contains("validation_data") else ():
        named = {each.arg: each.value for each in call.keywords}
        first = call.args[0] if call.args else named.get("x", named.get("generator"))
        match first, named.get("validation_data"):
            case ast.Call(func=ast.Name(id=name)), ast.Call(func=ast.Name(id=other)) as held_out if name == other:
                made = _augmenting(functions, name)
                if made is not None and name not in seen:
                    seen.add(name)
                    yield AugmentedData(source.location(held_out), unparse(made.func), source.location(made))
            case _:
                pass


AUGMENTS = lazy_pattern(r"\b(?:random|augment|augmentation|data_augmentation|do_augment|aug)\s*=\s*True")
SWITCHES = frozenset({"random", "augment", "augmentation", "data_augmentation", "do_augment", "aug"})


def _augmenting(functions: dict[str, ast.FunctionDef], name: str) -> ast.Call | None:
    """The call in a generator, or in the one that it returns, that asks for random changes whatever it is given."""
    for _ in range(2):
        function = functions.get(name)
        calls = [node for node in walk(function) if isinstance(node, ast.Call)] if function is not None else []
        for call in calls:
            given = [each.value for each in call.keywords if each.arg in SWITCHES]
            if any(isinstance(value, ast.Constant) and value.value is True for value in given):
                return call
        returned = [node.value for node in walk(function) if isinstance(node, ast.Return)] if function else []
        inner = [each.func.id for each in returned if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)]
        name = inner[0] if len(inner) == 1 else ""
    return None


def _of_maps(source: Source) -> list[AugmentedData]:
    """The data sets of TensorFlow for evaluation whose rows are mapped by a function that changes them at random."""
    if not source.contains(r"\.map\(") or not source.contains(CHANGES_TENSORS):
        return []
    made = {
        node.name: source.location(node)
        for node in source.nodes_of(ast.FunctionDef)
        if CHANGES_TENSORS.search(source.code(source.location(node))) and len(node.args.args) <= 2
    }
    uses: list[tuple[str, frozenset[str], Location]] = []
    for node in source.nodes_of(ast.Assign) if made else ():
        for call in walk(node.value) if isinstance(node.targets[0], ast.Name) else ():
            match call:
                case ast.Call(func=ast.Attribute(attr="map"), args=[ast.Name(id=name), *_]) if name in made:
                    uses.append((name, words_of(unparse(node.targets[0])), source.location(call.func)))
                case _:
                    pass
    return _given_to_evaluation(uses, made)


CHANGES_TENSORS = lazy_pattern(r"tf\.image\.(?:stateless_)?random_|tf\.image\.sample_distorted|tfa\.image\.random")
"""Functions of TensorFlow that change an image at random."""


@dataclass(frozen=True, slots=True)
class SharedTransform:
    """A transform that is set for one part of a data set and counts for the other too: where, and the division."""

    location: Location
    part: str
    split: Location


def shared_transforms(source: Source) -> Iterator[SharedTransform]:
    """`val_set.dataset.transform = …` after `random_split`: both parts read the same data set."""
    if not source.contains(r"\.dataset\.transforms? *=(?!=)") or source.contains("copy"):
        return
    for body in (source.tree.body, *(each.body for each in source.nodes_of(ast.FunctionDef))):
        split: dict[str, ast.Call] = {}
        found: list[tuple[str, ast.Assign]] = []
        for node in body:
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Call() as call):
                    is_split = unparse(call.func).rpartition(".")[2] == "random_split"
                    split |= {unparse(part): call for part in parts} if is_split else {}
                case ast.Assign(
                    targets=[
                        ast.Attribute(
                            value=ast.Attribute(value=ast.Name(id=name), attr="dataset"),
                            attr="transform" | "transforms",
                        )
                    ]
                ) if name in split:
                    found.append((name, node))
                case _:
                    pass
        if found:
            name, node = found[-1]
            yield SharedTransform(source.location(node), name, source.location(split[name]))


CHANGES = frozenset(
    {"rotation_range", "width_shift_range", "height_shift_range", "brightness_range", "shear_range", "zoom_range"}
    | {"channel_shift_range", "horizontal_flip", "vertical_flip"}
)
"""Arguments of `ImageDataGenerator` that change images at random."""


def _given_to_evaluation(
    uses: list[tuple[str, frozenset[str], Location]], made: dict[str, Location]
) -> list[AugmentedData]:
    """The data sets for evaluation among those that get a transform of the training data, or one of their own."""
    trained = {name for name, words, _ in uses if words & TRAINING_WORDS}
    trained |= {name for name in made if words_of(name) & EVALUATION_WORDS and not words_of(name) & TRAINING_WORDS}
    return [
        AugmentedData(location, name, made[name])
        for name, words, location in uses
        if name in made and name in trained and words & EVALUATION_WORDS and not words & TRAINING_WORDS
    ]


def _uses(source: Source, made: dict[str, Location]) -> Iterator[tuple[str, frozenset[str], Location]]:
    """Each data set that gets a named transform: that name, the words that say what it is for, and where."""
    targets = {id(node): each.targets[0] for each in source.nodes_of(ast.Assign) for node in _data_in(each.value)}
    joined = source.cached(_joined_to_training)
    for call in source.nodes_of(ast.Call):
        name = _transform_of(call, made)
        if name:
            target = targets.get(id(call))
            is_joined = target is not None and unparse(target) in joined
            words = frozenset({"train"}) if is_joined else _words(call, target)
            yield name, words, source.location(call)


def _joined_to_training(source: Source) -> frozenset[str]:
    """The names of data that becomes a part of the training data: `whole = ConcatDataset([train_part, val_part])`."""
    found: set[str] = set()
    for node in source.nodes_of(ast.Assign) if source.contains("ConcatDataset") else ():
        match node.value:
            case ast.Call(func=func, args=[ast.List(elts=parts) | ast.Tuple(elts=parts)]) if (
                last_name(func) == "ConcatDataset"
            ):
                named, names = words_of(unparse(node.targets[0])), {unparse(each) for each in parts}
                joined = named.union(*map(words_of, names))
                found |= names if joined & TRAINING_WORDS and not named & EVALUATION_WORDS else set()
            case _:
                pass
    return frozenset(found)


def _data_in(value: ast.expr) -> Iterator[ast.expr]:
    """A data set, and one that is given to a loader at once: `DataLoader(Images(files, transform))`."""
    yield value
    if isinstance(value, ast.Call) and value.args and unparse(value.func).endswith("DataLoader"):
        yield value.args[0]


def _transform_of(call: ast.Call, made: dict[str, Location]) -> str:
    """The transform that a data set gets by any of its arguments; empty for other calls."""
    name = unparse(call.func).rpartition(".")[2]
    is_data = name[:1].isupper() and not name.endswith(("Compose", "Apply", "OneOf", "DataLoader"))
    given = [*call.args, *(each.value for each in call.keywords)] if is_data else []
    given += [each.value for each in call.keywords if each.arg in {"transform", "transforms"}]
    found = [unparse(each) for each in given if isinstance(each, ast.Name | ast.Attribute)]
    return next((each for each in found if each in made), "")


def _words(call: ast.Call, target: ast.expr | None) -> frozenset[str]:
    """The words of a data set: its name decides, else its split or its folder."""
    named = words_of(unparse(target)) if target is not None else frozenset[str]()
    if named & (TRAINING_WORDS | EVALUATION_WORDS):
        return named
    for keyword in call.keywords:
        if keyword.arg == "train" and isinstance(keyword.value, ast.Constant):
            return frozenset({"train" if keyword.value.value else "test"})
    texts = [each.value for each in walk(call) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    texts += [each.id for each in call.args[:1] if isinstance(each, ast.Name)]
    return frozenset[str]().union(*map(words_of, texts))


def _split_off(source: Source, made: dict[str, Location]) -> Iterator[AugmentedData]:
    """The parts for evaluation that are split off a data set with a random transform."""
    whole: dict[str, str] = {}
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _transform_of(call, made):
                whole[name] = _transform_of(call, made)
            case _:
                pass
    for node in source.nodes_of(ast.Assign) if whole else ():
        match node:
            case ast.Assign(targets=[target], value=ast.Call(func=func, args=[ast.Name(id=name), *_]) as call):
                is_split = unparse(func).rpartition(".")[2] in SPLITS and name in whole
                if is_split and _is_part_for_evaluation(source, target):
                    yield AugmentedData(source.location(call), whole[name], made[whole[name]])
            case _:
                pass


def _is_part_for_evaluation(source: Source, target: ast.expr) -> bool:
    """Whether what is split off is for evaluation, and keeps its data set."""
    shuffled, plain = source.cached(_loaded)
    names = {unparse(part) for part in (target.elts if isinstance(target, ast.Tuple) else [target])}
    # The part that is not shuffled beside one that is shuffled is for evaluation, whatever its name.
    is_beside = bool(names & shuffled) and bool((names & plain) - shuffled)
    if not is_beside and not any(words_of(part) & EVALUATION_WORDS for part in names):
        return False
    # The numbers of the rows, or the part itself, get another data set: `part.dataset = plain`.
    return not any(source.contains(rf"\b{re.escape(part)}\.(dataset\s*=|indices\b)") for part in names)


def _loaded(source: Source) -> tuple[frozenset[str], frozenset[str]]:
    """The names of data that loaders shuffle, and of data that they read in order."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for call in source.nodes_of(ast.Call):
        if call.args and unparse(call.func).endswith("DataLoader"):
            given = {each.arg: unparse(each.value) for each in call.keywords}
            if given.get("shuffle", "False") in {"True", "False"} and not given.keys() & {None, "sampler"}:
                found[given.get("shuffle") == "True"].add(unparse(call.args[0]))
    return frozenset(found[True]), frozenset(found[False])


def _by_split(source: Source, made: dict[str, Location]) -> Iterator[AugmentedData]:
    """Data sets that a comprehension makes for the names of all splits, with one transform."""
    for node in source.nodes_of(ast.DictComp) if made else ():
        match node.generators:
            case [ast.comprehension(target=ast.Name(id=key), iter=ast.List() | ast.Tuple() as splits)]:
                words = [words_of(unparse(each)) for each in splits.elts]
                calls = [each for each in walk(node.value) if isinstance(each, ast.Call)]
            case _:
                continue
        is_both = any(each & TRAINING_WORDS for each in words) and any(each & EVALUATION_WORDS for each in words)
        for call in calls if is_both else ():
            names = {each.id for each in walk(call) if isinstance(each, ast.Name)}
            if (name := _transform_of(call, made)) and key in names:
                yield AugmentedData(source.location(call), name, made[name])
