"""Batches that are the same in all processes of a training with DistributedDataParallel.

A loader without a sampler goes through all rows in each process. Windows at random positions are the same ones where
each process starts its generator with the same seed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import divided_rows, loaders, loss_terms, script_text
from lintrain.analysis.built_layers import last_name
from lintrain.analysis.rank_conditions import RANK
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import Instance, is_missing, literal
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

JOINS = r"init_process_group\("
WRAPS = r"\b(?:DDP|DistributedDataParallel)\("
ALONE = r"\bworld_size\s*=\s*1\b"
"""Code that makes a group of one process."""

SHARES = r"(?i)mesh|tensor_?parallel|pipeline_?parallel|deepspeed|accelerat|lightning|hvd\.|horovod"
"""Code of processes that may share rows on purpose, or of libraries that divide them."""

OF_RANK = lazy_pattern(rf"{RANK}|\brank|_rank\b|RANK|seed_offset|world")
SEEDS = frozenset({"manual_seed", "manual_seed_all", "seed", "seed_everything", "set_seed", "seed_all"})
GENERATORS = frozenset({"default_rng", "RandomState", "Random", "manual_seed"})
WINDOWS = frozenset({"randint", "integers", "choice", "randperm", "permutation", "sample"})
MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class SameRows:
    """What gives each process the same batches, and the backward pass that trains on them."""

    location: Location
    backward: Location


def same_rows(pipeline: Pipeline) -> Iterator[SameRows]:
    """The loaders, generators and seeds that give each process the same batches."""
    if not script_text.mentions(pipeline, JOINS) or not script_text.mentions(pipeline, WRAPS):
        return
    if script_text.mentions(pipeline, SHARES) or script_text.mentions(pipeline, ALONE):
        return
    is_seeded = _is_seeded_alike(pipeline.source)
    for feeding in loaders.feedings(pipeline):
        loader = feeding.loader
        if loader.origin is not None and _has_all_rows(pipeline, loader) and (is_seeded or _is_in_order(loader)):
            yield SameRows(loader.origin, feeding.training.backward.location)
    yield from _generators(pipeline.source)
    if is_seeded:
        yield from _windows(pipeline.source)


def _has_all_rows(pipeline: Pipeline, loader: Loader) -> bool:
    """Whether a loader certainly goes through all rows in each process."""
    given = [loader.value(each) for each in ("sampler", "batch_sampler", "generator")]
    if not all(is_missing(each) for each in given) or not loaders.is_map_style(loader.dataset):
        return False
    if divided_rows.launcher_of(pipeline, loader) or list(divided_rows.by_process(pipeline, loader.dataset)):
        return False
    made = [each for each in (loader.origin, loader.dataset.origin) if each is not None]
    own = loader.dataset.cls.node if isinstance(loader.dataset, Instance) else None
    codes = [*map(pipeline.code, made), unparse(own) if own is not None else ""]
    return not any(OF_RANK.search(each) for each in codes)


def _is_in_order(loader: Loader) -> bool:
    shuffles = loader.value("shuffle")
    return is_missing(shuffles) or literal(shuffles) is False


def _is_seeded_alike(source: Source) -> bool:
    """Whether a file seeds torch, with the same number in every process."""
    seeds = [each for each in source.nodes_of(ast.Call) if last_name(each.func) in SEEDS and each.args]
    of_torch = [each for each in seeds if last_name(each.func) != "seed"]
    return bool(of_torch) and not any(_depends_on_rank(source, each.args[0]) for each in seeds)


def _depends_on_rank(source: Source, node: ast.expr, steps: int = MOST_NAMES) -> bool:
    """Whether the number of the process may be in an expression, by its names and what these are given."""
    if OF_RANK.search(unparse(node)):
        return True
    names = [each for each in walk(node) if isinstance(each, ast.Name | ast.Attribute)] if steps else []
    given = [value for each in names for value in (*loss_terms.assigned(source, unparse(each)), *_passed(source, each))]
    codes = {unparse(each) for each in names}
    given += [each.value for each in source.nodes_of(ast.AugAssign) if unparse(each.target) in codes]
    return any(_depends_on_rank(source, value, steps - 1) for value in given)


def _passed(source: Source, name: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
    """What calls of the file pass to a parameter of that name."""
    parameter = name.id if isinstance(name, ast.Name) else ""
    for function in source.nodes_of(ast.FunctionDef) if parameter else ():
        names = [each.arg for each in function.args.args]
        if parameter in names and function.lineno <= name.lineno <= (function.end_lineno or 0):
            for call in source.nodes_of(ast.Call):
                if last_name(call.func) == function.name:
                    at = names.index(parameter) - (names[0] == "self")
                    yield from (each.value for each in call.keywords if each.arg == parameter)
                    yield from call.args[at : at + 1]


def _trains(source: Source, code: str) -> ast.Call | None:
    """The backward pass of a function, or of the code outside of functions, that uses what code names."""
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        passes = [each for each in nodes if isinstance(each, ast.Call) and last_name(each.func) == "backward"]
        if passes and any(isinstance(each, ast.Name | ast.Attribute) and unparse(each) == code for each in nodes):
            return min(passes, key=lambda each: each.lineno)
    return None


def _generators(source: Source) -> Iterator[SameRows]:
    """The readers of random windows that the script makes with the same seed in every process, and trains on."""
    for cls in source.nodes_of(ast.ClassDef):
        seed, names = _seeded_by(cls)
        for node in source.nodes_of(ast.Assign) if seed else ():
            call, target = node.value, unparse(node.targets[0])
            if not isinstance(call, ast.Call) or last_name(call.func) != cls.name or OF_RANK.search(unparse(cls)):
                continue
            at = names.index(seed) - 1
            given = [each.value for each in call.keywords if each.arg == seed] or call.args[at : at + 1]
            backward = _trains(source, target) if given else None
            others = [*call.args, *(each.value for each in call.keywords)]
            is_alike = backward is not None and not any(_depends_on_rank(source, each) for each in others)
            if backward is not None and is_alike and not _is_changed(source, node, target):
                yield SameRows(source.location(call), source.location(backward))


def _is_changed(source: Source, made: ast.Assign, target: str) -> bool:
    """Whether the function that makes a reader also sets one of its attributes."""
    around = [each for each in source.nodes_of(ast.FunctionDef) if made in own_nodes(each)]
    stored = [each for each in own_nodes(around[0] if around else source.tree) if isinstance(each, ast.Assign)]
    return any(unparse(each.targets[0]).startswith(f"{target}.") for each in stored)


def _seeded_by(cls: ast.ClassDef) -> tuple[str, list[str]]:
    """The parameter of a constructor that seeds a generator from which another method draws positions."""
    made = next((each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    names = [each.arg for each in made.args.args] if made else []
    for node in own_nodes(made) if made else ():
        match node:
            case ast.Assign(targets=[ast.Attribute() as kept], value=ast.Call(args=[ast.Name(id=seed)]) as call):
                is_generator = last_name(call.func) in GENERATORS and seed in names
                draws = [each for each in walk(cls) if isinstance(each, ast.Call) and last_name(each.func) in WINDOWS]
                if is_generator and any(unparse(kept) in unparse(each) for each in draws):
                    return seed, names
            case _:
                pass
    return "", names


def _windows(source: Source) -> Iterator[SameRows]:
    """The functions that draw windows at random positions, of a script that seeds every process alike."""
    for function in source.nodes_of(ast.FunctionDef):
        nodes = own_nodes(function)
        draws = [each for each in nodes if isinstance(each, ast.Call) and unparse(each.func) == "torch.randint"]
        is_plain = draws and not any(each.arg == "generator" for call in draws for each in call.keywords)
        cuts = [each for each in nodes if isinstance(each, ast.Slice) and isinstance(each.upper, ast.BinOp)]
        backward = _trains(source, function.name) if is_plain and cuts else None
        if backward is not None and not OF_RANK.search(unparse(function)):
            yield SameRows(source.location(draws[0]), source.location(backward))
