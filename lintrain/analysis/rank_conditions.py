"""Calls that only one process of a distributed training makes, by the conditions in the text.

A process that calls a collective operation alone waits for the others forever. The text shows this for certain only if
nothing else in it runs in the other processes alone: a counterpart may be there, in another branch or function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import loss_terms, script_text
from lintrain.model.location import Location
from lintrain.source import fragments
from lintrain.source.nodes import children, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

RANK = (
    r"(?:[\w.]*\b(?:(?:global_|local_|node_)?rank|process_index)|[\w.]*\bget_rank\(\)"
    r"|int\(os\.\w+[\[(]'\w*RANK'.*?[\])]\))"
)
MAIN = (
    r"[\w.]*\b_?(?:is_main(?:_process)?|is_local_main_process|is_master|master_process|main_process"
    r"|is_rank_?(?:0|zero)|is_(?:world_)?process_zero|is_global_zero|is_chief)(?:\(\))?"
)
FIRST = lazy_pattern(rf"{RANK} (?:== 0|<= 0|< 1|in [\[(]-?[01], -?[01][\])])|not {RANK}|{MAIN}")
OTHERS = lazy_pattern(rf"{RANK} (?:!= 0|> 0|>= 1|not in [\[(]-?[01], -?[01][\])])|{RANK}|not {MAIN}")
ABOUT_RANKS = lazy_pattern(rf"(?:{RANK}|{MAIN})(?!\w)")
ONE_PROCESS = lazy_pattern(
    r"(?:world_size|num_processes|n_?gpus?|get_world_size\(\)) (?:==|<=|<) [12]\b|not \w*distributed"
)
HARMLESS = lazy_pattern(r"(?:print|len|str|int|open|range|\w*[Ll]ogger\.\w+|logging\.\w+|warnings\.\w+|tqdm|time\.\w+)")
DISTRIBUTED = "torch.distributed"
COLLECTIVES = frozenset(
    {
        *("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"),
        *("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "barrier", "monitored_barrier"),
        *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
    }
)
"""Functions of torch.distributed that every process of a group has to call (torch 2.13)."""

OF_OBJECTS = frozenset({"gather_object", "broadcast_object_list"})
UTILITIES = "accelerate.utils"
"""Where Accelerate has functions for the same; their names tell what they are also without the import."""
OF_ACCELERATOR = frozenset({"gather", "gather_for_metrics", "reduce", "pad_across_processes", "wait_for_everyone"})
STATE_DICTS = "torch.distributed.checkpoint.state_dict"
OF_CHECKPOINTS = frozenset({"get_model_state_dict", "get_optimizer_state_dict", "get_state_dict"})
SHARDS = lazy_pattern(r"\bfsdp\s*=\s*[\"'\[]|[\"']stage[\"']\s*:\s*3")
"""A Trainer that shards its weights gathers them from all processes to save them (transformers 5.23)."""
OF_ENGINE = frozenset({"save_checkpoint", "save_16bit_model", "load_checkpoint"})
MOST_ARGUMENTS = {"barrier": 0, "monitored_barrier": 0, "reduce": 3}
"""More positional arguments name a group; two are ordinary for the others."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A collective that one process alone comes to: `at` is the call under the condition `test`.

    `collective` is the operation itself, in a function that `at` calls or the same location.
    """

    at: Location
    name: str
    test: str
    test_at: Location
    collective: Location


def guarded_collectives(source: Source) -> list[Guarded]:
    """Those whose counterpart is certainly missing: no code of the file runs in the other processes alone."""
    if not source.contains(WORDS):
        return []
    tests = [(node, _side(node)) for node in source.nodes_of(ast.If) if _may_be_about_ranks(source, node)]
    if not any(side == "first" for _, side in tests) or _others_may_answer(source, tests):
        return []
    wanted = Names(source)
    return [found for node, side in tests if side == "first" for found in _under(source, node, wanted)]


WORDS = lazy_pattern(r"rank|process|master|main|chief|zero", re.IGNORECASE)
"""What every test for a process contains."""


def _may_be_about_ranks(source: Source, node: ast.If) -> bool:
    """Whether the lines of a condition contain such a word: it takes long to write the code of each."""
    lines = source.lines[node.test.lineno - 1 : node.test.end_lineno]
    return any(WORDS.search(line) for line in lines)


def _side(node: ast.If) -> str:
    """Which processes enter a branch: the `first`, the `others`, `some` if that is not known, empty for all."""
    test = node.test
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    codes = [unparse(part) for part in parts]
    if any(ONE_PROCESS.search(code) for code in codes):
        return ""
    if any(FIRST.fullmatch(code) for code in codes):
        return "first"
    if any(OTHERS.fullmatch(code) for code in codes):
        return "others"
    return "some" if any(ABOUT_RANKS.search(code) for code in codes) else ""


def _others_may_answer(source: Source, tests: list[tuple[ast.If, str]]) -> bool:
    """Whether code that the other processes alone run may call a collective."""
    for node, side in tests:
        if side == "first" and (_leaves(node.body) or any(_may_call(each) for each in node.orelse)):
            return True
        if side == "others" and any(_may_call(each) for each in (*node.body, *node.orelse)):
            return True
        if side == "some" and any(_is_collective_name(call) for call in _calls_in([*node.body, *node.orelse])):
            return True
    return any(_is_about_ranks(node) for node in source.nodes_of(ast.IfExp))


def _is_about_ranks(node: ast.IfExp) -> bool:
    found = ABOUT_RANKS.search(unparse(node.test)) is not None
    return found and any(_is_collective_name(call) for call in _calls_in([node.body, node.orelse]))


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether the code after a branch is that of the others."""
    return isinstance(body[-1], ast.Return | ast.Continue | ast.Break | ast.Raise) or "exit(" in unparse(body[-1])


def _may_call(node: ast.AST) -> bool:
    return any(not HARMLESS.fullmatch(unparse(call.func)) for call in _calls_in([node]))


def _calls_in(nodes: list[ast.stmt] | list[ast.expr] | list[ast.AST]) -> Iterator[ast.Call]:
    """The calls in some code, without those in functions that it defines."""
    pending: list[ast.AST] = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Call):
            yield node
        pending += children(node)


def _is_collective_name(call: ast.Call) -> bool:
    name = unparse(call.func).rpartition(".")[2]
    return name in COLLECTIVES or name in OF_ACCELERATOR


class Names:
    """What a file calls the collectives of its libraries."""

    def __init__(self, source: Source) -> None:
        imports = script_text.imports_of(source)
        self._modules = {each.alias or each.module for each in imports if not each.name and each.module == DISTRIBUTED}
        self._modules |= {
            each.alias or "distributed" for each in imports if each.module == "torch" and each.name == "distributed"
        }
        self._functions = {
            each.alias or each.name or "": each.name or ""
            for each in imports
            if (each.module == DISTRIBUTED and each.name in COLLECTIVES)
            or (each.module == STATE_DICTS and each.name in OF_CHECKPOINTS)
            or (each.module == UTILITIES and each.name in COLLECTIVES)
        }
        if source.is_partial:  # a piece of a script uses them without the import
            self._functions |= {name: name for name in OF_OBJECTS & fragments.free_names(source)}
        self._has_lightning = source.contains(LIGHTNING)
        self._has_accelerator = source.is_partial or any(each.name == "Accelerator" for each in imports)
        self._engines = dict(_results_of(source, r"(?:deepspeed\.)?initialize"))
        self._trainers = dict(_results_of(source, r"(?:\w*\.)?\w*Trainer")) if source.contains(SHARDS) else {}
        self._sharded = dict(_results_of(source, r"(?:[\w.]+\.)?(?:FSDP|FullyShardedDataParallel)"))
        self._functions_of_file = {node.name: node for node in source.nodes_of(ast.FunctionDef)}
        self._classes = {node.name: node for node in source.nodes_of(ast.ClassDef)}
        self._source = source

    def called(self, call: ast.Call) -> ast.FunctionDef | None:
        """The function of the file that a call runs: by its name, or a method of `self` or of an object made here."""
        match call.func:
            case ast.Name(id=name):
                return self._functions_of_file.get(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                lines = ((each, each.lineno, each.end_lineno or 0) for each in self._classes.values())
                around = [each for each, first, last in lines if first <= call.lineno <= last]
                return self._own_method(around[-1], name) if around else None
            case ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr=name):
                made = {_class_made(each) for each in loss_terms.assigned(self._source, unparse(owner))}
                known = self._classes.get(made.pop()) if len(made) == 1 else None
                return _method(known, name) if known is not None else None
            case _:
                return None

    def _own_method(self, node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
        """The method that `self.name()` runs; None where a class of the file that derives from it has its own."""
        derived = (each for each in self._classes.values() if node.name in map(unparse, each.bases))
        return None if any(_method(each, name) for each in derived) else _method(node, name)

    def collective(self, call: ast.Call) -> str:
        """The name of the operation of all processes that a call is; empty for anything else."""
        owner, _, name = unparse(call.func).rpartition(".")
        name = name if owner else self._functions.get(name, "")
        if not owner and name in OF_CHECKPOINTS:
            return name
        if name in COLLECTIVES and (not owner or owner in self._modules):
            return "" if _names_group(call, name) else name
        if name in OF_ACCELERATOR and self._has_accelerator and re.fullmatch(r"(?:self\.)?accelerator", owner):
            return name
        if name in OF_ENGINE and owner in self._engines:
            return name
        if name == "save_model" and owner in self._trainers:
            return name
        if owner == "self" and (name == "all_gather" or is_synchronized(call)):
            return name if self._has_lightning else ""
        return name if name == "state_dict" and owner in self._sharded else ""


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == name), None)


def _class_made(node: ast.expr) -> str:
    """The name that a call calls, which may be that of a class."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


LIGHTNING = lazy_pattern(r"\bLightningModule\b|\bdef (?:training|validation|test)_step\(self\b")
GIVEN = lazy_pattern(r"batch_idx|batch_nb|dataloader_idx|dataloader_index|optimizer_idx")
"""Parameters of a step that are the same number in every process."""


def is_synchronized(call: ast.Call) -> bool:
    """Whether a call is `self.log(…, sync_dist=True)`, which waits for all processes.

    With `rank_zero_only=True` Lightning keeps the value as it is (`_Sync._generate_sync_fn` of 2.6).
    """
    is_log = isinstance(call.func, ast.Attribute) and call.func.attr in {"log", "log_dict"}
    given = {each.arg: each.value for each in call.keywords}
    is_alone = "rank_zero_only" in given and not _is_constant(given["rank_zero_only"], False)
    return is_log and not is_alone and _is_constant(given.get("sync_dist"), True)


def _is_constant(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def logs_by_batch(source: Source) -> Iterator[Guarded]:
    """The synchronized logs of steps of Lightning that the numbers of a batch decide about."""
    for step in source.nodes_of(ast.FunctionDef) if source.contains(LIGHTNING) else ():
        if not re.fullmatch(r"(?:training|validation|test)_step", step.name):
            continue
        batch = {each.arg for each in step.args.args[1:] if not GIVEN.fullmatch(each.arg)}
        for node in walk(step):
            if isinstance(node, ast.Assign) and not batch.isdisjoint(_names(node.value)):
                batch |= {each for target in node.targets for each in _names(target)} - {"self"}
        for node in walk(step):
            if isinstance(node, ast.If) and _asks_for_numbers(node.test, batch):
                yes, no = (_synchronized_in(branch) for branch in (node.body, node.orelse))
                if sorted(yes) != sorted(no):
                    call = [*yes.values(), *no.values()][0]
                    at, test_at = source.location(call), source.location(node.test)
                    yield Guarded(at, "log", unparse(node.test), test_at, at)


def _synchronized_in(branch: list[ast.stmt]) -> dict[str, ast.Call]:
    """The synchronized logs of a branch, by the code of their names."""
    calls = [each for each in _calls_in(list[ast.AST](branch)) if is_synchronized(each) and each.args]
    return {unparse(each.args[0]): each for each in calls if unparse(each.func).startswith("self.")}


def _asks_for_numbers(test: ast.expr, batch: set[str]) -> bool:
    """Whether a condition compares an entry of something that comes from the batch: `y[0] % 2 == 0`."""
    compared = [each for each in walk(test) if isinstance(each, ast.Compare)]
    entries = [each for node in compared for each in walk(node) if isinstance(each, ast.Subscript)]
    return any(
        isinstance(each.value, ast.Name)
        and each.value.id in batch
        and isinstance(each.slice, ast.Constant)
        and isinstance(each.slice.value, int)
        for each in entries
    )


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _names_group(call: ast.Call, name: str) -> bool:
    is_many = len(call.args) > MOST_ARGUMENTS.get(name, 2)
    return is_many or any(each.arg in (None, "group", "async_op") for each in call.keywords)


def _results_of(source: Source, callee: str) -> Iterator[tuple[str, ast.Call]]:
    """The names that are assigned the result of a call; of several results the first."""
    for node in source.nodes_of(ast.Assign):
        if isinstance(node.value, ast.Call) and re.fullmatch(callee, unparse(node.value.func)):
            target = node.targets[0]
            first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
            yield unparse(first), node.value


def _under(source: Source, branch: ast.If, names: Names) -> Iterator[Guarded]:
    test, test_at = unparse(branch.test), source.location(branch.test)
    for call in _calls_in(list[ast.AST](branch.body)):
        location = source.location(call)
        if name := names.collective(call):
            yield Guarded(location, name, test, test_at, location)
        elif (inner := _always_in(names, names.called(call))) is not None:
            yield Guarded(location, names.collective(inner), test, test_at, source.location(inner))


MOST_CALLS = 3
"""Functions that call each other are followed that far."""


def _always_in(names: Names, node: ast.FunctionDef | None, steps: int = MOST_CALLS) -> ast.Call | None:
    """The collective that every call of a function of the file makes, itself or in a function that it calls."""
    plain = [each for each in node.body if not isinstance(each, ast.If | ast.Try | ast.Match)] if node else []
    if not plain or not steps or any(isinstance(each, ast.Return) for each in walk(ast.Module(plain[:-1], []))):
        return None
    calls = list(_calls_in(list[ast.AST](plain)))
    found = next((call for call in calls if names.collective(call)), None)
    inner = (_always_in(names, names.called(call), steps - 1) for call in calls)
    return found or next((each for each in inner if each is not None), None)
