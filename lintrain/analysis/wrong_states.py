"""States that are saved or loaded wrongly: never asked for, names of files, other keys, and a network's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import checkpoints
from lintrain.analysis.prefixed_states import prefixed_states
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class WrongState:
    """A state that is saved or loaded wrongly: where, what is wrong, what belongs there; `is_mild` if nothing fails."""

    location: Location
    problem: str
    remedy: str
    other: Location | None = None
    is_mild: bool = False


def wrong_states(source: Source) -> list[WrongState]:
    """The states of a file that are never asked for, that are names of files, or that have another key where read."""
    return source.cached(_wrong_states)


def _wrong_states(source: Source) -> list[WrongState]:
    return [
        *_uncalled_states(source),
        *_paths_as_states(source),
        *_unsaved_keys(source),
        *_own_states(source),
        *_weights_as_models(source),
        *_of_other_objects(source),
        *_overwritten_best(source),
        *_counted_saves(source),
        *_prefixed(source),
        *_written_copies(source),
    ]


def _written_copies(source: Source) -> Iterator[WrongState]:
    """`net.state_dict()[name] = weight`: the dictionary is made by the call, and forgotten after the statement."""
    for node in source.nodes_of(ast.Assign) if "state_dict()[" in source.text else ():
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Call(func=ast.Attribute(value=owner, attr="state_dict"), args=[]))]
            ):
                yield WrongState(
                    source.location(node),
                    f"this changes a dictionary that nothing keeps, and no weight of `{unparse(owner)}`",
                    f"copy the numbers: `{unparse(node.targets[0])}.copy_(…)`, or load the whole state",
                )
            case _:
                pass


PARTS = {
    "model": lazy_pattern(r"(?i)model|(?<![a-z])net(?![a-z])|network|weights"),
    "optimizer": lazy_pattern(r"(?i)optim|(?<![a-z])opt(?![a-z])"),
    "scheduler": lazy_pattern(r"(?i)sched"),
    "scaler": lazy_pattern(r"(?i)scaler"),
}
"""The parts of a training that a checkpoint holds, by the words of their names."""


def _part_of(name: str) -> str:
    """The one part that a name has a word of; empty if there is none, or several."""
    found = [part for part, words in PARTS.items() if words.search(name)]
    return found[0] if len(found) == 1 else ""


def _of_other_objects(source: Source) -> Iterator[WrongState]:
    """`{"optimizer": scheduler.state_dict()}`, in a checkpoint without the optimizer's own state."""
    for node in source.nodes_of(ast.Dict):
        states = [(key, value, _owner_of_state(value)) for key, value in zip(node.keys, node.values, strict=True)]
        owners = {_part_of(owner) for _, _, owner in states}
        for key, value, owner in states:
            named = _part_of(key.value) if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
            held = _part_of(owner)
            if named and held and named != held and named not in owners:
                problem = f"the state of the {held} is saved as that of the {named}"
                yield WrongState(source.location(value), problem, f"save the state of the {named} too, under its name")


def _owner_of_state(node: ast.expr) -> str:
    """The last name of `self.optimizer` in `self.optimizer.state_dict()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="state_dict")):
            return unparse(owner).removesuffix(".module").rpartition(".")[2]
        case _:
            return ""


def _overwritten_best(source: Source) -> Iterator[WrongState]:
    """`model.save(path)` after a `fit` whose `ModelCheckpoint` has kept the best weights in the same file."""
    if not source.contains(r"save_best_only *= *True") or source.contains(r"restore_best_weights *= *True"):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        calls = [node for node in own_nodes(scope) if isinstance(node, ast.Call)]
        fits = [call.lineno for call in calls if unparse(call.func).rpartition(".")[2] in FITS]
        loads = [call.lineno for call in calls if LOADS.search(unparse(call.func))]
        for kept in calls:
            path = _path_of_best(kept)
            for call in calls if path else ():
                is_saved = unparse(call.func).rpartition(".")[2] in {"save", "save_weights"} and call.args
                before = max((line for line in fits if kept.lineno < line < call.lineno), default=0)
                if is_saved and unparse(call.args[0]) == path and before and not any(line > before for line in loads):
                    problem = "this overwrites the best weights in this file with the last ones"
                    remedy = "leave it out, save to another file, or load the best weights first"
                    yield WrongState(source.location(call), problem, remedy, source.location(kept))


FITS = frozenset({"fit", "fit_generator"})
LOADS = lazy_pattern(r"\bload_(?:weights|model)$")


def _path_of_best(call: ast.Call) -> str:
    """The code of the file in `ModelCheckpoint(path, save_best_only=True)`; empty for others, and for one per epoch."""
    named = {each.arg: each.value for each in call.keywords}
    best = named.get("save_best_only")
    if unparse(call.func).rpartition(".")[2] != "ModelCheckpoint" or not isinstance(best, ast.Constant):
        return ""
    path = named.get("filepath", call.args[0] if call.args else None)
    code = unparse(path) if path is not None and best.value is True else ""
    return "" if "{" in code else code


def _prefixed(source: Source) -> Iterator[WrongState]:
    """`plain.load_state_dict(torch.load(path))`, where the state of a wrapped network was saved."""
    for found in prefixed_states(source):
        problem = f"the names in this state begin with `{found.inner}.`, which a plain network lacks"
        remedy = f"save `{found.wrapped}.{found.inner}.state_dict()`"
        yield WrongState(found.location, problem, remedy, found.saved)


def _own_states(source: Source) -> Iterator[WrongState]:
    """`target.load_state_dict(target.state_dict())`, where another network's state was meant.

    An optimizer casts the state that it is given to the types of its parameters, so its own state changes.
    """
    for node in source.nodes_of(ast.Expr):
        match node.value:
            case ast.Call(
                func=ast.Attribute(value=owner, attr="load_state_dict"),
                args=[ast.Call(func=ast.Attribute(value=same, attr="state_dict"), args=[]) as state],
            ) if unparse(owner) == unparse(same) and _part_of(unparse(owner)) != "optimizer":
                problem = "a network is given its own state, which changes nothing"
                yield WrongState(source.location(state), problem, "load the state of the other network")
            case _:
                pass


def _uncalled_states(source: Source) -> Iterator[WrongState]:
    """`torch.save(model.state_dict, path)`, also as the value of a dictionary."""
    for call in source.nodes_of(ast.Call):
        if unparse(call.func) != "torch.save" or not call.args:
            continue
        saved = call.args[0]
        values = saved.values if isinstance(saved, ast.Dict) else [saved]
        for value in values:
            if isinstance(value, ast.Attribute) and value.attr == "state_dict":
                remedy = f"call it: `{unparse(value)}()`"
                yield WrongState(source.location(value), "this saves the method `state_dict`, not the weights", remedy)


def _paths_as_states(source: Source) -> Iterator[WrongState]:
    """`model.load_state_dict("model.pt")`."""
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict" and call.args:
            given = call.args[0]
            is_text = isinstance(given, ast.JoinedStr) or (
                isinstance(given, ast.Constant) and isinstance(given.value, str)
            )
            if is_text or (isinstance(given, ast.Call) and unparse(given.func) == "os.path.join"):
                remedy = f"read it first: `torch.load({unparse(given)})`"
                yield WrongState(source.location(given), "`load_state_dict` gets the name of a file", remedy)


def _unsaved_keys(source: Source) -> Iterator[WrongState]:
    """The entries that a checkpoint is read for, though the file saves one with other keys, which it reads as well."""
    saves = [call for call in source.nodes_of(ast.Call) if unparse(call.func) == "torch.save" and call.args]
    written = saves[0].args[0] if len(saves) == 1 else None
    if not isinstance(written, ast.Dict) or not all(isinstance(each, ast.Constant) for each in written.keys):
        return
    keys = {each.value for each in written.keys if isinstance(each, ast.Constant)}
    entries = source.cached(checkpoints.entries_by_key)
    # A file of another origin shares no key with what is saved here; one that is tested for a key may have any.
    if not keys & entries.keys() or any(isinstance(node, ast.In | ast.NotIn) for node in source.nodes):
        return
    # So does what another name, or one in another function, was given: it may be read from the file of another script.
    functions = {part: each for each in source.nodes_of(ast.FunctionDef) for part in walk(each)}
    known = {
        (functions.get(each), unparse(each.value)) for key, reads in entries.items() if key in keys for each in reads
    }
    for key, reads in entries.items():
        for read in [each for each in reads if key not in keys and isinstance(each.value, ast.Name)]:
            # An entry of an entry is no entry of the file: `settings = saved["config"]`, then `settings["data"]`.
            is_entry = checkpoints.is_entry_of_file(source, read.value)
            is_known = (functions.get(read), unparse(read.value)) in known
            if is_entry or not is_known or _is_other_file(source, read, saves[0]):
                continue
            problem = f'the checkpoint is saved without the entry "{key}"'
            names = ", ".join(f"`{each}`" for each in sorted(map(str, keys)))
            yield WrongState(source.location(read), problem, f"it has {names}", source.location(written))


def _is_other_file(source: Source, read: ast.Subscript, save: ast.Call) -> bool:
    """Whether the paths show that an entry is read from another file than the one that is saved."""
    name, written = unparse(read.value), save.args[1] if len(save.args) > 1 else None
    loads = [
        node.value.args[0]
        for node in source.nodes_of(ast.Assign)
        if unparse(node.targets[0]) == name and isinstance(node.value, ast.Call) and node.value.args
        if unparse(node.value.func) == "torch.load"
    ]
    return written is not None and bool(loads) and all(_differ(written, each) for each in loads)


def _differ(one: ast.expr, other: ast.expr) -> bool:
    """Whether two paths certainly differ, as far as texts before and after what is formatted into them show."""
    first, second = _ends_of(one), _ends_of(other)
    if first is None or second is None:
        return False
    begins = zip(first[0], second[0], strict=False)
    ends = zip(reversed(first[1]), reversed(second[1]), strict=False)
    return any(a != b for a, b in begins) or any(a != b for a, b in ends)


def _ends_of(path: ast.expr) -> tuple[str, str] | None:
    """What a path begins and ends with: both are the whole of a plain text."""
    match path:
        case ast.Constant(value=str(text)):
            return f"{text}\0", f"\0{text}"
        case ast.JoinedStr(values=[*_, _] as parts):
            first, last = parts[0], parts[-1]
            begin = first.value if isinstance(first, ast.Constant) else ""
            end = last.value if isinstance(last, ast.Constant) else ""
            return str(begin), str(end)
        case _:
            return None


def _weights_as_models(source: Source) -> Iterator[WrongState]:
    """`load_model(path)` of Keras for a file of weights alone: `ModelCheckpoint(path, save_weights_only=True)`."""
    written = dict[str, ast.Call]()
    whole = set[str]()
    for call in source.nodes_of(ast.Call) if source.contains("load_model") else ():
        name = unparse(call.func).rpartition(".")[2]
        given = {each.arg: each.value for each in call.keywords}
        path = unparse(given.get("filepath", call.args[0] if call.args else call))
        if name == "save_weights":
            written[path] = call
        elif name == "ModelCheckpoint":
            only = given.get("save_weights_only")
            is_only = isinstance(only, ast.Constant) and only.value is True
            written |= {path: call} if is_only else {}
            whole |= set[str]() if is_only else {path}
        elif name == "save":
            whole.add(path)
    # A method of this name, of an agent for example, may load weights.
    is_own = any(each.name == "load_model" for each in source.nodes_of(ast.FunctionDef))
    for call in source.nodes_of(ast.Call) if written and not is_own else ():
        path = unparse(call.args[0]) if call.args else ""
        if unparse(call.func).rpartition(".")[2] == "load_model" and path in written.keys() - whole:
            problem = "this file holds weights alone, not the network"
            remedy = "build the network and call `load_weights`, or save all of it"
            yield WrongState(source.location(call), problem, remedy, source.location(written[path]))


SAVE_COUNT = lazy_pattern(r"latest_checkpoint\b.*\.split\(['\"]-['\"]\)\[-1\]")


def _counted_saves(source: Source) -> Iterator[WrongState]:
    """`range(start, epochs)` from the number in the name of a checkpoint, which counts checkpoints and not epochs."""
    for node in source.nodes_of(ast.Assign) if source.contains("latest_checkpoint") else ():
        name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
        if not name or not SAVE_COUNT.search(unparse(node.value)) or "*" in unparse(node.value):
            continue
        for loop in source.nodes_of(ast.For):
            if isinstance(loop.target, ast.Name) and f"range({name}," in unparse(loop.iter):
                saved = _seldom_saved(loop, loop.target.id)
                if saved is not None:
                    yield WrongState(
                        source.location(node.value),
                        "the number in this name counts checkpoints, not epochs",
                        "save the epoch in the checkpoint: `tf.train.Checkpoint(epoch=tf.Variable(0), …)`",
                        source.location(saved),
                        is_mild=True,
                    )


def _seldom_saved(loop: ast.For, epoch: str) -> ast.Call | None:
    """The `save` of a loop over epochs that runs in every n-th of them, if it is the only one."""
    saves = [node for node in walk(loop) if isinstance(node, ast.Call) and unparse(node.func).endswith("r.save")]
    for test in (node for node in walk(loop) if isinstance(node, ast.If)):
        match test.test:
            case ast.Compare(left=ast.BinOp(left=counted, op=ast.Mod(), right=ast.Constant(value=int() as every))):
                is_of_epoch = every > 1 and unparse(counted) in {epoch, f"{epoch} + 1"}
                if is_of_epoch and len(saves) == 1 and any(node is saves[0] for node in walk(test)):
                    return saves[0]
            case _:
                pass
    return None
